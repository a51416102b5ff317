"""The web page of `claimq up`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import claimq
from claimq.concurrency.background_work import spawn
from claimq_admin.changes.queue_admin import QueueAdmin, admin_of
from claimq_admin.errors import CommandError
from claimq_cli.commands.running.web import DEFAULT_ADDRESS
from claimq_local.local_mode import LocalMode
from claimq_local.queue_runner import QueueRunner
from claimq_web.listening import instead_of, opened, url_of
from claimq_web.queues.queues import MOST_EVENTS, QueuesWithoutObjects

OFF = "off"


@dataclass(frozen=True, slots=True)
class _LocalRunner:
    """See :class:`claimq_admin.changes.queue_admin.Runner`."""

    runner: QueueRunner

    async def suspend(self, suspended: bool) -> None:
        """Until the manifest changes or `claimq up` starts again."""
        await self.runner.suspend(suspended=suspended)

    async def drain(self, worker: str) -> None:
        """If the queue needs it, another one starts."""
        if not self.runner.drain_worker(worker):
            raise CommandError(f"{self.runner.board.name} has no worker {worker}; it may have ended")


class LocalQueues(QueuesWithoutObjects):
    """The queues of a local mode in this process."""

    def __init__(self, mode: LocalMode) -> None:
        self._runners = {runner.board.name: runner for runner in mode.runners}
        self._board = mode.board

    async def names(self) -> Sequence[str]:
        """The queues of the manifest; while `claimq up` stops, those that have not ended."""
        return sorted(name for name, runner in self._runners.items() if not runner.has_ended)

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        """A queue of the manifest that has not ended; None for any other."""
        runner = self._runners.get(name)
        return None if runner is None or runner.has_ended else runner.platform.queue

    def decisions(self) -> Mapping[str, dict[str, Any]]:
        """The last decision on each queue."""
        return {name: runner.platform.decision for name, runner in self._runners.items()}

    def status(self, name: str) -> dict[str, Any]:
        """The status of the last pass, and whether the queue is suspended; empty for an unknown queue."""
        runner = self._runners.get(name)
        if runner is None:
            return {}
        return {**runner.platform.status, "suspend": runner.manifest.spec.suspend}

    async def events(self, name: str) -> list[dict[str, Any]]:
        """What `claimq up` has shown about the queue, newest first, in the form of Events of Kubernetes."""
        lines = [line for line in reversed(self._board.lines) if line.queue == name]
        return [
            {
                "lastTimestamp": line.at,
                "reason": "Warning" if line.is_trouble else "Normal",
                "message": line.text,
            }
            for line in lines[:MOST_EVENTS]
        ]

    def admin(self, name: str, user: str) -> QueueAdmin | None:
        """The queue, for changes that are recorded in its audit log; its workers are processes of this one."""
        queue = self.queue(name)
        return None if queue is None else admin_of(queue, user, runner=_LocalRunner(self._runners[name]))

    def servers(self) -> Iterable[claimq.Server]:
        """The servers of the queues that have not ended, each once."""
        runners = [runner for runner in self._runners.values() if not runner.has_ended]
        return {runner.url: runner.platform.server for runner in runners}.values()


@asynccontextmanager
async def web_page(mode: LocalMode, address: str | None, *, may_act: bool = False) -> AsyncGenerator[None]:
    """Serves the page inside the block, as soon as the local mode has started. ``address``: HOST:PORT or "off"; None
    is the default. ``may_act``: it allows changes after a login. CommandError if it cannot listen there.
    """
    if address == OFF:
        yield
        return
    listening, host = opened(address, default=DEFAULT_ADDRESS)
    with listening:
        why = instead_of(address, default=DEFAULT_ADDRESS, listening=listening)
        serving = spawn(_serve(mode, listening, host, why, may_act=may_act), name="web page")
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def _serve(
    mode: LocalMode, listening: socket.socket, host: str, why_there: str, *, may_act: bool
) -> None:
    await mode.started.wait()
    # Imported here, when the workers are starting already.
    from claimq_local.metrics_page import MetricsPage
    from claimq_web.server import served
    from claimq_web.users.access import SameForAll
    from claimq_web.users.login import Logins, of_local_user
    from claimq_web.website import Site

    logins, where = None, ""
    if may_act:
        authenticate, token = of_local_user()
        logins = Logins(authenticate, hint="The token is in the file web-token of the state directory.")
        where = f"; the token to log in with is in {mode.directory.keep_token(token)}"
    access, metrics = (
        SameForAll(may_act=may_act, has_workers=True),
        MetricsPage(mode.runners, mode.metrics).render,
    )
    site = Site(LocalQueues(mode), logins, may_act=may_act, access=access, metrics=metrics)
    async with site.running(), served(site.app(host), listening):
        mode.note(f"web page: {url_of(listening)}{why_there}{where}")
        await asyncio.Event().wait()
