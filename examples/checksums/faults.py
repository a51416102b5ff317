"""The faults of the demo: kills and a restart while items are in progress. A fault that misses them fails the demo."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import claimq
from claimq.model import State
from claimq_cli.local.local_mode import LocalMode
from claimq_cli.local.processes.child import Child
from claimq_cli.local.worker import Worker

PATIENCE_SECONDS = 30.0
_SETTLE_SECONDS = 0.05


class FaultMissed(Exception):
    """No process held items when the fault was due."""


@dataclass(frozen=True)
class Hit:
    """A fault that hit: what was killed, and how many items it held (for the server: that were not done)."""

    what: str
    pid: int
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
        """Ends the Valkey while items are in progress; local mode restarts it. Waits until it answers again."""
        old = self._mode.valkey
        if old is None:
            raise FaultMissed("there is no Valkey to restart")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await self._queue.snapshot()).lengths[State.BUSY]:
                await self._feed()
                await asyncio.sleep(0.01)
            old.send(signal.SIGTERM)
            while self._mode.valkey is old or self._mode.valkey is None:  # noqa: ASYNC110 - local mode has no event for it
                await asyncio.sleep(0.01)
            lengths = (await self._queue.snapshot()).lengths
        left = lengths[State.MAIN] + lengths[State.BUSY]
        if not left:
            raise FaultMissed("the Valkey was restarted too late: no item was left")
        return Hit("Valkey", old.pid, left)

    async def _kill_with_items(self, what: str, of: Callable[[Worker], Child | None]) -> Hit:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    for worker in list(self._mode.runners[0].workers.values()):
                        victim = of(worker)
                        if victim is not None and worker.app is not None and worker.drain is None:
                            held = await self._kill_if_busy(victim, worker.claim_name)
                            if held:
                                return Hit(f"{what} of {worker.name}", victim.pid, held)
                    await self._feed()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise FaultMissed(f"no {what} had items in progress within {PATIENCE_SECONDS:.0f} s") from None

    async def _kill_if_busy(self, victim: Child, claim_name: str) -> int:
        """Kills a process if it still holds items after SIGSTOP, otherwise resumes it. Returns how many it held."""
        os.kill(victim.pid, signal.SIGSTOP)
        held = await self._held(claim_name)
        if held:
            await asyncio.sleep(_SETTLE_SECONDS)  # calls that it sent before it was stopped arrive
            held = await self._held(claim_name)
        victim.send(signal.SIGKILL if held else signal.SIGCONT)
        return held

    async def _held(self, claim_name: str) -> int:
        return next((info.busy for info in await self._queue.workers() if info.worker == claim_name), 0)
