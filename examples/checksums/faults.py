"""What the demo does to local mode while it works. Each fault hits in the middle, provably, or the demo fails."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import claimq
from claimq.model import State
from claimq_cli.local.child import Child
from claimq_cli.local.local_mode import LocalMode
from claimq_cli.local.worker import Worker

PATIENCE_SECONDS = 30.0
_SETTLE_SECONDS = 0.05


class FaultMissed(Exception):
    """A fault could not be made to hit in the middle."""


@dataclass(frozen=True)
class Hit:
    """A fault that hit: what died, and how many items it had in hand (or the server still had to hand out)."""

    what: str
    pid: int
    items: int


class Faults:
    """Kills. ``feed`` is awaited between tries: it sees to it that there is work."""

    def __init__(
        self, mode: LocalMode, queue: claimq.ReliableQueue, feed: Callable[[], Awaitable[None]]
    ) -> None:
        self._mode = mode
        self._queue = queue
        self._feed = feed

    async def kill_app(self) -> Hit:
        """SIGKILL to the app of a worker while it has items in hand."""
        return await self._kill_with_items("app", lambda worker: worker.app)

    async def kill_sidecar(self) -> Hit:
        """SIGKILL to a sidecar while its app has items in hand."""
        return await self._kill_with_items("sidecar", lambda worker: worker.sidecar)

    async def restart_server(self) -> Hit:
        """Ends the Valkey while items are in hand; local mode starts it again. Waits until it serves again."""
        old = self._mode.valkey
        if old is None:
            raise FaultMissed("there is no Valkey to restart")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await self._queue.snapshot()).lengths[State.BUSY]:
                await self._feed()
                await asyncio.sleep(0.01)
            old.send(signal.SIGTERM)
            while self._mode.valkey is old or self._mode.valkey is None:  # noqa: ASYNC110 - local mode tells nobody
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
            raise FaultMissed(f"no {what} had items in hand for {PATIENCE_SECONDS:.0f} s") from None

    async def _kill_if_busy(self, victim: Child, claim_name: str) -> int:
        """Stops the process, looks whether items are in its hands and stay there, and only then kills it."""
        os.kill(victim.pid, signal.SIGSTOP)
        held = await self._held(claim_name)
        if held:
            await asyncio.sleep(_SETTLE_SECONDS)  # what it had sent before it was stopped arrives
            held = await self._held(claim_name)
        victim.send(signal.SIGKILL if held else signal.SIGCONT)
        return held

    async def _held(self, claim_name: str) -> int:
        return next((info.busy for info in await self._queue.workers() if info.worker == claim_name), 0)
