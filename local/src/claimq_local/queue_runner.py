"""Runs one queue in local mode: the passes of the loop that the operator runs too, and the steps of its workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from claimq.concurrency.background_work import run_every, spawn
from claimq.errors import ClaimqError
from claimq_control.decide.observed import DeclaredQueue
from claimq_control.manifest import Manifest
from claimq_control.passes.ownership import foreign_owner
from claimq_control.passes.queue_loop import QueueLoop
from claimq_local.ownership import local_owner, refusal
from claimq_local.plan import Patience
from claimq_local.process_platform import ProcessPlatform, unix_seconds
from claimq_local.workers.worker import ProcessEnd, Worker, WorkerContext

PERIOD = 1.0
"""Seconds between two passes."""
_WITHOUT_WORKERS = 0.2
"""Seconds between two passes while there is no worker that would notice the first item."""
_STUCK_SECONDS = 5.0
_WHILE_STARTING = 0.1
_GENERATIONS = 3
"""How many times the workers may be replaced while those before still finish their items."""


class QueueRunner:
    """Runs one queue, until its workers are asked to end and have ended."""

    def __init__(
        self, number: int, manifest: Manifest, url: str, directory: Path, context: WorkerContext
    ) -> None:
        self.url = url
        self.platform = ProcessPlatform(number, manifest, url, directory, context)
        self.board = self.platform.board
        self.has_ended = False
        """Whether the workers have ended and the connections are closed, or about to be."""
        self._directory = directory
        self._loop = QueueLoop(
            self.platform,
            time.monotonic,
            unix_seconds,
            busy_period=PERIOD,
            idle_period=_WITHOUT_WORKERS,
            timeout=PERIOD * 3,
            longest_retry=PERIOD,
        )
        self._generation = 1
        self._look = asyncio.Event()

    @property
    def manifest(self) -> Manifest:
        """The manifest that is used."""
        return self.platform.manifest

    @property
    def workers(self) -> dict[int, Worker]:
        """The workers by number."""
        return self.platform.table

    async def prepare(self, take_over: Sequence[str] = ()) -> None:
        """Checks the owner of the queue and writes the fields of the policy that the manifest sets.

        A queue without an owner stays without one, so that local modes on several machines can share it. Raises
        LocalModeError if the queue has another owner, StoreUnavailable, StoreMisused.
        """
        queue = self.platform.queue
        owner = local_owner(queue.name, self._directory)
        foreign = await foreign_owner(queue, owner, take_over, records=False)
        if foreign is not None:
            raise refusal(queue.name, foreign)
        await self.use(self.manifest)

    async def use(self, manifest: Manifest) -> None:
        """Uses another manifest of the same queue and server: its policy and scaling now, the rest for new workers.

        Raises StoreUnavailable, StoreMisused, and then uses the earlier one.
        """
        await self._loop.write_policy(self.platform.queue, manifest.spec)
        self._generation += 1
        self.platform.manifest = manifest
        self.board.max_replicas = manifest.spec.scaling.max_replicas
        self.platform.patience = replace(self.platform.patience, drain=manifest.spec.worker.drain_timeout)

    async def suspend(self, *, suspended: bool) -> None:
        """Uses the manifest with this ``suspend``. Raises StoreUnavailable, StoreMisused; nothing has changed then."""
        scaling = replace(self.manifest.spec.scaling, suspended=suspended)
        spec = replace(self.manifest.spec, suspend=suspended, scaling=scaling)
        await self.use(replace(self.manifest, spec=spec))
        self.look()

    @property
    def has_room_for_replacements(self) -> bool:
        """Whether so few workers are ending that others may follow them."""
        ending = sum(worker.drain is not None for worker in self.workers.values())
        return ending < _GENERATIONS * max(1, len(self.workers) - ending)

    def replace_workers(self) -> int:
        """Starts a new worker for each that is there; those finish their items and end. Returns their number."""
        present = [worker for worker in self.workers.values() if worker.drain is None]
        for worker in present:
            worker.begin_drain()
            self.platform.add_worker()
        self.look()
        return len(present)

    def drain_worker(self, claim_name: str) -> bool:
        """Begins to drain the worker that claims under this name. The next pass starts another if one is needed.

        False if there is none.
        """
        for worker in self.workers.values():
            if worker.claim_name == claim_name:
                worker.begin_drain()
                self.look()
                return True
        return False

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until ``stop`` is set, then drains all workers and returns when they are gone."""
        has_ended = asyncio.Event()
        checks = run_every(_STUCK_SECONDS, self._check_for_stuck_items, name="stuck items", stop=has_ended)
        keepers = [
            spawn(checks, name="stuck items"),
            spawn(self._wake_at(stop), name="stop"),
        ]
        try:
            await self._work(stop)
        finally:
            self.has_ended = True
            has_ended.set()
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            with suppress(ClaimqError):
                await self.platform.server.close()

    def look(self) -> None:
        """Triggers the next steps at once."""
        self._look.set()

    def hurry(self) -> None:
        """Ends the drain early: items that are in progress are given back."""
        self.platform.patience = self.platform.patience.hurried()
        self.look()

    def kill_all(self) -> None:
        """Kills the workers without a drain."""
        self.platform.patience = Patience(0.0, 0.0, 0.0)
        self.look()

    def release_leftovers(self, claim_names: list[str]) -> None:
        """Gives back the claims of the workers of a killed `claimq up`."""
        for name in claim_names:
            self.platform.add_end(ProcessEnd(name, "claimq up was killed", is_sidecar=True))

    async def _work(self, stop: asyncio.Event) -> None:
        platform, pass_at, had_workers = self.platform, 0.0, False
        while True:
            self._look.clear()
            if stop.is_set():
                platform.is_stopping = True
                for worker in self.workers.values():
                    worker.begin_drain()
            now = time.monotonic()
            has_new_ends = platform.has_ends and not self._loop.is_failing
            has_news = has_new_ends or had_workers != bool(self.workers)
            if now >= pass_at or has_news:
                had_workers = bool(self.workers)
                pass_at = now + await self._loop.run(self._declared())
            await platform.step_all()
            platform.show_workers()
            if platform.is_stopping and not self.workers:
                if platform.has_ends:
                    await self._loop.run(self._declared())
                return
            await self._pause(pass_at)

    def _declared(self) -> DeclaredQueue:
        return DeclaredQueue(
            spec=self.manifest.spec, generation=self._generation, status=self.platform.status
        )

    async def _pause(self, pass_at: float) -> None:
        is_steady = bool(self.workers) and all(worker.seen().is_ready for worker in self.workers.values())
        longest = PERIOD / 2 if is_steady else _WHILE_STARTING
        with suppress(TimeoutError):
            async with asyncio.timeout(min(longest, max(pass_at - time.monotonic(), 0.0))):
                await self._look.wait()

    async def _check_for_stuck_items(self) -> bool:
        for worker in list(self.workers.values()):
            await worker.check_for_stuck_item()
        return False

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.look()
