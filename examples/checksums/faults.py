"""The faults of the demo: kills and a restart while items are in progress. A fault that misses them fails the demo."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import claimq
from claimq.model import State
from claimq_local.local_mode import LocalMode
from claimq_local.processes.child import Child
from claimq_local.workers.worker import Worker

PATIENCE_SECONDS = 30.0
_SETTLE_SECONDS = 0.05


class FaultMissed(Exception):
    """No process held items when the fault was due, or the fault did not happen."""


@dataclass(frozen=True)
class Hit:
    """A fault that hit: what was killed, and how many items it held (for the server: that were not done)."""

    what: str
    pid: int
    items: int


@dataclass(frozen=True)
class _Stopped:
    """A process of a worker that was stopped with items in progress."""

    worker: str
    process: Child
    items: int


class Faults:
    """Kills processes of local mode. ``feed`` is awaited between attempts and enqueues items if few are left."""

    def __init__(
        self, mode: LocalMode, queue: claimq.ReliableQueue, feed: Callable[[], Awaitable[None]]
    ) -> None:
        self._mode = mode
        self._queue = queue
        self._feed = feed

    async def kill_app(self) -> Hit:
        """Sends SIGKILL to the app of a worker that has items in progress."""
        return await self._kill_with_items("app", lambda worker: worker.app)

    async def kill_sidecar(self) -> Hit:
        """Sends SIGKILL to a sidecar whose app has items in progress."""
        return await self._kill_with_items("sidecar", lambda worker: worker.sidecar)

    async def restart_server(self) -> Hit:
        """Ends the Valkey while an app that has items in progress is stopped, so that they cannot end before; local
        mode restarts it. Waits until it answers again."""
        valkey = self._mode.valkey
        old = valkey.child
        if old is None:
            raise FaultMissed("there is no Valkey to restart")
        stopped = await self._stop_with_items("app", lambda worker: worker.app)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                old.send(signal.SIGTERM)
                while valkey.child is old:  # noqa: ASYNC110 - local mode has no event for it
                    await asyncio.sleep(0.01)
                lengths = (await self._queue.snapshot()).lengths
        except TimeoutError:
            raise FaultMissed(f"the Valkey was not restarted within {PATIENCE_SECONDS:.0f} s") from None
        finally:
            stopped.process.send(signal.SIGCONT)
        return Hit("Valkey", old.pid, lengths[State.MAIN] + lengths[State.BUSY])

    async def _kill_with_items(self, what: str, of: Callable[[Worker], Child | None]) -> Hit:
        stopped = await self._stop_with_items(what, of)
        stopped.process.send(signal.SIGKILL)
        return Hit(f"{what} of {stopped.worker}", stopped.process.pid, stopped.items)

    async def _stop_with_items(self, what: str, of: Callable[[Worker], Child | None]) -> _Stopped:
        """Sends SIGSTOP to a process of a worker that has items in progress, and waits until they cannot end."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    for worker in list(self._mode.runners[0].workers.values()):
                        process = of(worker)
                        if process is not None and worker.app is not None and worker.drain is None:
                            held = await self._stop_if_busy(process, worker.claim_name)
                            if held:
                                return _Stopped(worker.name, process, held)
                    await self._feed()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise FaultMissed(f"no {what} had items in progress within {PATIENCE_SECONDS:.0f} s") from None

    async def _stop_if_busy(self, process: Child, claim_name: str) -> int:
        """Leaves a process stopped if it still holds items then, otherwise resumes it. Returns how many it holds."""
        os.kill(process.pid, signal.SIGSTOP)
        held = await self._held(claim_name)
        if held:
            await asyncio.sleep(_SETTLE_SECONDS)  # calls that it sent before it was stopped arrive
            held = await self._held(claim_name)
        if not held:
            process.send(signal.SIGCONT)
        return held

    async def _held(self, claim_name: str) -> int:
        return next((info.busy for info in await self._queue.workers() if info.worker == claim_name), 0)
