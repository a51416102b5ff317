"""Runs one queue in local mode: policy, reaper, scaling and workers.

A pass observes, decides and acts. It runs every second and after each event.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import claimq
from claimq.concurrency.background_work import in_background, run_every
from claimq.errors import ClaimqError, StoreMisused
from claimq.fsync_setting import for_manifest
from claimq.internals.operations import internals
from claimq.model import ServerReport, Snapshot
from claimq.reliable_queue import Reaper
from claimq_admin.server_choice import settings_for
from claimq_admin.text import count
from claimq_control.manifest import Manifest
from claimq_control.scaling import Decision, Limit, ScalingState, Seen, decide, document
from claimq_local import plan
from claimq_local.ownership import ensure_ownership
from claimq_local.plan import Patience, Step
from claimq_local.screen.board import QueueBoard, WorkerRow
from claimq_local.status import Observation, lasting_limit
from claimq_local.workers.worker import ToRelease, Worker, WorkerContext

PERIOD = 1.0
"""Seconds between two observations of the queue."""
_WITHOUT_WORKERS = 0.2
"""Seconds between two observations while there is no worker that would notice the first item."""
_REPORT_SECONDS = 60.0
"""Time between two reads of the server's settings."""
_RELEASE_RETRY = 1.0
_WHILE_STARTING = 0.1
_GENERATIONS = 3
"""How many times the workers may be replaced while those before still finish their items."""
_EXPLAIN_AFTER = (0.0, 0.2, 0.8, 1.5)
"""Pauses in seconds before each attempt to record a cause."""


class QueueRunner:
    """Runs one queue: observes, scales, and starts and stops workers."""

    def __init__(
        self, number: int, manifest: Manifest, url: str, directory: Path, context: WorkerContext
    ) -> None:
        spec = manifest.spec
        self.number = number
        self.manifest = manifest
        self.url = url
        self.directory = directory
        self.board = QueueBoard(spec.queue_name, spec.scaling.max_replicas)
        self.workers: dict[int, Worker] = {}
        self.snapshot: Snapshot | None = None
        self.has_ended = False
        """Whether the workers have ended and the connections are closed, or about to be."""
        self._context = context
        self.server = claimq.connect(settings=connection_settings(url, manifest))
        self.queue = self.server.queue(spec.queue_name)
        self.decision: dict[str, Any] = {}
        """The last scaling decision, as `claimq why` shows it."""
        self.rules: Counter[str] = Counter()
        """Scaling decisions by rule."""
        self.given_back: Counter[str] = Counter()
        """Claims of processes that have ended, by reason."""
        self._decided: Decision | None = None
        self._limit: Limit | None = None
        self._report: ServerReport | None = None
        self._is_misused = False
        self._scaling = ScalingState()
        self._busy: dict[str, int] = {}
        self._patience = Patience(drain=spec.worker.drain_timeout)
        self._numbers = 0
        self._look = asyncio.Event()
        self._releases: set[asyncio.Task[None]] = set()
        self._explaining: dict[str, asyncio.Task[None]] = {}

    async def prepare(self, take_over: Sequence[str] = ()) -> None:
        """Checks the owner of the queue and writes the fields of the policy that the manifest sets.

        Raises LocalModeError if the queue has another owner, StoreUnavailable, StoreMisused.
        """
        await ensure_ownership(self.queue, self.directory, take_over)
        await self.queue.update_policy(**self.manifest.spec.policy_fields())
        await self.queue.add_to_index()

    async def use(self, manifest: Manifest) -> None:
        """Uses another manifest of the same queue and server: its policy and scaling now, the rest for new workers.

        Raises StoreUnavailable, StoreMisused, and then uses the earlier one.
        """
        await self.queue.update_policy(**manifest.spec.policy_fields())
        self.manifest = manifest
        self.board.max_replicas = manifest.spec.scaling.max_replicas
        self._patience = replace(self._patience, drain=manifest.spec.worker.drain_timeout)

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
        there = [worker for worker in self.workers.values() if worker.drain is None]
        for worker in there:
            worker.begin_drain()
            self._add_worker()
        self.look()
        return len(there)

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
        maintenance = asyncio.Event()
        keepers = [
            in_background(Reaper(self.queue).run(maintenance), name="reaper"),
            in_background(
                run_every(5.0, self._check_for_stuck_items, name="stuck items", stop=maintenance),
                name="stuck items",
            ),
            in_background(
                run_every(_REPORT_SECONDS, self._read_report, name="server settings", stop=maintenance),
                name="server settings",
            ),
            in_background(self._wake_at(stop), name="stop"),
        ]
        try:
            await self._work(stop)
        finally:
            self.has_ended = True
            maintenance.set()
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            if self._releases:
                await asyncio.wait(self._releases, timeout=3.0)
            for release in self._releases:
                release.cancel()
            await self._close()

    def look(self) -> None:
        """Triggers the next pass at once."""
        self._look.set()

    def hurry(self) -> None:
        """Ends the drain early: items that are in progress are given back."""
        self._patience = self._patience.hurried()
        self.look()

    def kill_all(self) -> None:
        """Kills the workers without a drain."""
        self._patience = Patience(0.0, 0.0, 0.0)
        self.look()

    async def _work(self, stop: asyncio.Event) -> None:
        observed_at = -PERIOD
        while True:
            self._look.clear()
            now = time.monotonic()
            if stop.is_set():
                for worker in self.workers.values():
                    worker.begin_drain()
                if not self.workers:
                    return
            if now - observed_at >= (PERIOD if self.workers else _WITHOUT_WORKERS):
                observed_at = now
                await self._observe()
                if not stop.is_set():
                    self._scale()
            await self._step_all()
            self._show()
            await self._pause()

    async def _pause(self) -> None:
        is_steady = bool(self.workers) and all(worker.seen(0).is_ready for worker in self.workers.values())
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD / 2 if is_steady else _WHILE_STARTING):
                await self._look.wait()

    async def _observe(self) -> None:
        try:
            async with asyncio.timeout(PERIOD * 3):
                self.snapshot = await self.queue.snapshot()
                infos = await self.queue.workers() if self.workers else []
            self._busy = {info.worker: info.busy for info in infos}
            self._is_misused = False
            self.board.see(self.snapshot)
        except (ClaimqError, TimeoutError) as error:
            self.snapshot, self._busy = None, {}
            self._is_misused = isinstance(error, StoreMisused)
            self.board.see(None, str(error) or "the server does not answer")

    def _seen(self) -> list[plan.WorkerSeen]:
        return [worker.seen(self._busy.get(worker.claim_name, 0)) for worker in self.workers.values()]

    def _scale(self) -> None:
        workers = self._seen()
        seen = None if self.snapshot is None else self._seen_for_scaling(self.snapshot, workers)
        decision = decide(self.manifest.spec.scaling, seen, self._scaling, time.monotonic())
        self._scaling, self._decided = decision.state, decision
        self._limit = lasting_limit(decision, self._limit, self.manifest.spec.scaling.max_replicas)
        self.rules[decision.rule.value] += 1
        self._keep({**document(decision, seen), "targetAge": self.manifest.spec.scaling.target_age})
        before = sum(worker.drain is None for worker in workers)
        change = plan.change(workers, decision.replicas)
        self.board.decide(decision, before)
        if change.start or change.drain:
            self._note(
                f"{self.board.name}: {before} -> {decision.replicas} workers ({decision.rule}): {decision.reason}"
            )
        for _ in range(change.start):
            self._add_worker()
        for number in change.drain:
            self.workers[number].begin_drain()

    def observation(self) -> Observation | None:
        """What the last pass observed and decided; None before the first one. It reads nothing."""
        if self._decided is None:
            return None
        return Observation(
            spec=self.manifest.spec,
            snapshot=self.snapshot,
            decision=self._decided,
            workers=tuple(one for one in self._seen() if one.drain is None),
            now=time.monotonic(),
            limit=self._limit,
            report=self._report,
            is_misused=self._is_misused,
        )

    async def _read_report(self) -> bool:
        redis = self.manifest.spec.redis
        declared = None if redis is None else redis.declared_appendfsync
        policy = claimq.Policy(**self.manifest.spec.policy_fields())
        is_always, report = policy.appendfsync_always, await self.server.report()
        self._report = for_manifest(report, declared, policy.durability, is_always=is_always)
        return False

    def _note(self, text: str) -> None:
        self._context.note(text, queue=self.board.name)

    def _keep(self, decided: dict[str, Any]) -> None:
        """Saves the decision for `claimq why` if it differs from the last one."""
        if {**self.decision, "at": None} != {**decided, "at": None}:
            self.decision = {**decided, "at": time.time()}  # noqa: TID251 - shown to people
            self._context.decided()

    def _seen_for_scaling(self, snapshot: Snapshot, workers: list[plan.WorkerSeen]) -> Seen:
        slots = self.manifest.spec.worker.concurrency
        return plan.seen_for_scaling(snapshot, workers, slots, time.monotonic())

    def _add_worker(self) -> None:
        number = next(n for n in range(1, len(self.workers) + 2) if n not in self.workers)
        self.workers[number] = Worker(
            number,
            self.number,
            self.manifest,
            self.url,
            self._context,
            self._release,
            self.directory,
            patience=self._patience,
        )

    async def _step_all(self) -> None:
        for number, worker in list(self.workers.items()):
            worker.patience = self._patience
            while True:
                now = time.monotonic()
                seen = worker.seen(self._busy.get(worker.claim_name, 0))
                step = plan.next_step(seen, self._patience, now)
                if step is None:
                    break
                if step is Step.REMOVE:
                    del self.workers[number]
                    break
                await worker.perform(step, now)
                if step in (Step.KILL_APP, Step.KILL_SIDECAR):
                    break  # the end of the process triggers the next pass

    async def _check_for_stuck_items(self) -> bool:
        for worker in list(self.workers.values()):
            await worker.check_for_stuck_item()
        return False

    def _release(self, what: ToRelease) -> asyncio.Task[None]:
        task = in_background(
            self._release_until_done(what), name=f"giving back the claims of {what.claim_name}"
        )
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        if (earlier := self._explaining.pop(what.claim_name, None)) is not None:
            earlier.cancel()
        if what.reason is claimq.Reason.CRASHED:
            explaining = self._explaining[what.claim_name] = asyncio.create_task(self._explain(what))
            self._releases.add(explaining)
            explaining.add_done_callback(self._releases.discard)
        return task

    async def _release_until_done(self, what: ToRelease) -> None:
        """Gives back the claims of a dead worker; retries while the server is unreachable."""
        while True:
            try:
                released = await self.queue.release_worker(what.claim_name, what.reason, what.error)
                break
            except ClaimqError:
                await asyncio.sleep(_RELEASE_RETRY)
        if released.total:
            self.given_back[what.reason.value] += released.total
            self._note(f"{what.worker}: {count(released.total)} given back: {what.error}")
        self.look()

    async def _explain(self, what: ToRelease) -> None:
        """Records the cause on the items that the sidecar gives back. The sidecar sees only the end of the app's
        session, before or after this process sees the exit.
        """
        began = time.monotonic()
        for pause in _EXPLAIN_AFTER:
            await asyncio.sleep(pause)
            with suppress(ClaimqError):
                explained = await internals(self.queue).explain(
                    what.claim_name, what.error, within=time.monotonic() - began + what.since
                )
                if explained:
                    self.given_back[what.reason.value] += explained
                    return

    def release_leftovers(self, claim_names: list[str]) -> None:
        """Gives back the claims of the workers of a killed `claimq up`."""
        for name in claim_names:
            self._release(ToRelease(name, claimq.Reason.CRASHED, "claimq up was killed"))

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.look()

    async def _close(self) -> None:
        with suppress(ClaimqError):
            await self.server.close()

    def _show(self) -> None:
        self.board.show_workers(tuple(self._row(worker) for _, worker in sorted(self.workers.items())))

    def _row(self, worker: Worker) -> WorkerRow:
        seen = worker.seen(self._busy.get(worker.claim_name, 0))
        return WorkerRow(
            worker.name,
            stage_of(seen, time.monotonic()),
            seen.busy,
            worker.restarts,
            worker.sidecar.pid if worker.sidecar else None,
            worker.app.pid if worker.app else None,
        )


def stage_of(seen: plan.WorkerSeen, now: float) -> str:
    """The state of a worker in one word."""
    if seen.drain is not None:
        return "draining"
    if seen.is_ready:
        return "ready"
    return "waiting" if seen.waits_to_restart(now) else "starting"


def connection_settings(url: str, manifest: Manifest) -> claimq.RedisSettings:
    """Connection settings of local mode itself. Calls fail early, since the next pass retries."""
    user = manifest.spec.redis.user if manifest.spec.redis else None
    return settings_for(url, username=user, retry_for=2.0)
