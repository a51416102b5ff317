"""Changes of many failed items that users have started on the page, and their progress."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from claimq.concurrency.background_work import in_background
from claimq.errors import ClaimqError
from claimq_cli.failed_actions import Change, FailedAction
from claimq_cli.item_actions import Record
from claimq_cli.rate_limit import Pace

_MOST_RUNNING = 8
_MOST_KEPT = 100


@dataclass
class Run:
    """A change of the failed items that pass a filter. ``queue``: its name on the page. ``problem``: why it ended
    early.
    """

    queue: str
    user: str
    record: Record
    action: FailedAction
    change: Change
    rate: float | None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    is_running: bool = True
    problem: str = ""

    @property
    def state(self) -> str:
        """In a word."""
        if self.is_running:
            return "stopping" if self.stop.is_set() else "running"
        return "failed" if self.problem else "stopped" if self.stop.is_set() else "done"

    async def carry_out(self) -> None:
        """Runs to the end, to an error or until ``stop`` is set."""
        try:
            await self.action.run(self.change, self.record, Pace(self.rate), self.stop)
        except ClaimqError as error:
            self.problem = str(error)
        finally:
            self.is_running = False


class Runs:
    """The runs of a web page. They end with its process; a run that is started again continues with the rest."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: Run) -> str | None:
        """Starts a run; returns its id, None if too many are running."""
        if len(self._tasks) >= _MOST_RUNNING:
            return None
        run_id = secrets.token_urlsafe(9)
        self._runs[run_id] = run
        for old in [one for one, known in self._runs.items() if not known.is_running][: -_MOST_KEPT or None]:
            del self._runs[old]
        task = in_background(run.carry_out(), name="changing failed items")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run_id

    def find(self, run_id: str, queue: str) -> Run | None:
        """The run of this id on this queue."""
        run = self._runs.get(run_id)
        return run if run is not None and run.queue == queue else None

    async def close(self) -> None:
        """Stops all runs after their current items."""
        for run in self._runs.values():
            run.stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
