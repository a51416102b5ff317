"""Changes of many items that users have started on the page, and their progress."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from claimq.concurrency.background_work import run_every, spawn
from claimq.errors import ClaimqError
from claimq_admin.selection.selected_items import Change, SelectedItems
from claimq_kubernetes.port import ClusterError

_MOST_RUNNING, _MOST_OF_A_NAMESPACE, _MOST_OF_A_USER = 8, 4, 3
"""Runs at the same time. Each may take as long as its user likes, and keeps a page of up to 24 MiB while its server
does not answer. One tenant can have many users."""
_CHECK_EVERY = 20.0
"""Seconds between two checks that the user of a run may still change the queue."""
_MOST_KEPT = 100
"""Runs that have ended, for their users to see. Beyond it the user or the namespace with the most loses the oldest."""


@dataclass
class Run:
    """A change of the items that pass a filter. ``queue``: its name on the page. ``problem``: why it ended
    early. ``is_allowed``: whether its user may change the queue now; otherwise it ends. ``shown``: an error of the
    server as users may see it.
    """

    queue: str
    user: str
    items: SelectedItems
    change: Change
    is_allowed: Callable[[], Awaitable[bool]]
    shown: Callable[[ClaimqError], ClaimqError]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    is_running: bool = True
    problem: str = ""

    @property
    def namespace(self) -> str:
        """Of the queue's object; of a queue without one, its name up to the first dot."""
        return self.queue.partition(".")[0]

    @property
    def state(self) -> str:
        """In a word."""
        if self.is_running:
            return "stopping" if self.stop.is_set() else "running"
        return "failed" if self.problem else "stopped" if self.stop.is_set() else "done"

    async def carry_out(self) -> None:
        """Runs to the end, to an error or until ``stop`` is set."""
        checking = spawn(
            run_every(_CHECK_EVERY, self._check, name="permission of a run", stop=self.stop),
            name="permission of a run",
        )
        try:
            await self.items.carry_out(self.change, self.stop)
        except ClaimqError as error:
            self.problem = str(self.shown(error))
        except Exception as error:  # logged as a defect
            self.problem = f"it ended with an unexpected error: {error!r}"
            raise
        finally:
            self.is_running = False
            checking.cancel()

    async def _check(self) -> bool:
        """Ends the run if its user has lost the permission. An API server that does not answer takes none away."""
        with suppress(ClusterError):
            if not await self.is_allowed():
                self.problem = f"{self.user} may not change this queue any more"
                self.stop.set()
        return False


class Runs:
    """The runs of a web page. They end with its process; a run that is started again continues with the rest."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: Run) -> str | None:
        """Starts a run; returns its id, None if too many are running."""
        running = [other for other in self._runs.values() if other.is_running]
        of_user = sum(other.user == run.user for other in running)
        of_namespace = sum(other.namespace == run.namespace for other in running)
        if (
            len(running) >= _MOST_RUNNING
            or of_user >= _MOST_OF_A_USER
            or of_namespace >= _MOST_OF_A_NAMESPACE
        ):
            return None
        run_id = secrets.token_urlsafe(9)
        self._runs[run_id] = run
        self._forget_ended()
        task = spawn(run.carry_out(), name="changing items")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run_id

    def _forget_ended(self) -> None:
        ended = {
            run_id: {("user", run.user), ("namespace", run.namespace)}
            for run_id, run in self._runs.items()
            if not run.is_running
        }
        while len(ended) > _MOST_KEPT:
            counts = Counter(owner for owners in ended.values() for owner in owners)
            [(largest, _)] = counts.most_common(1)
            oldest = next(run_id for run_id, owners in ended.items() if largest in owners)
            del self._runs[oldest], ended[oldest]

    def find(self, run_id: str, queue: str) -> Run | None:
        """The run of this id on this queue."""
        run = self._runs.get(run_id)
        return run if run is not None and run.queue == queue else None

    async def close(self) -> None:
        """Stops all runs after their current items."""
        for run in self._runs.values():
            run.stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
