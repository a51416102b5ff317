"""This machine as the platform of one queue's workers, each of which is two processes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import claimq
from claimq.errors import ClaimqError
from claimq.model import ServerReport, Snapshot, WorkerInfo
from claimq_admin.server_choice import settings_for
from claimq_admin.text import count
from claimq_control.decide.condition_changes import changed_conditions
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.fault import Fault, described
from claimq_control.manifest import Manifest
from claimq_control.passes.server_reports import ServerReports
from claimq_control.passes.worker_platform import Maintained, ServerAccessError
from claimq_control.workers import Termination, WorkersState
from claimq_local import plan
from claimq_local.plan import Patience, Step
from claimq_local.screen.board import QueueBoard
from claimq_local.workers.worker import ProcessEnd, Worker, WorkerContext


class ProcessPlatform:
    """The workers of one queue, and its server."""

    retry_after = 0.0

    def __init__(
        self, number: int, manifest: Manifest, url: str, directory: Path, context: WorkerContext
    ) -> None:
        spec = manifest.spec
        self.manifest = manifest
        self.board = QueueBoard(spec.queue_name, spec.scaling.max_replicas)
        self.server = claimq.connect(settings=connection_settings(url, manifest))
        self.queue = self.server.queue(spec.queue_name)
        self.table: dict[int, Worker] = {}
        """The workers by number."""
        self.patience = Patience(drain=spec.worker.drain_timeout)
        self.is_stopping = False
        """Whether `claimq up` ends, so that no plan is performed any more."""
        self.snapshot: Snapshot | None = None
        self.status: dict[str, Any] = {}
        """The status of the last pass, as that of a ReliableQueue."""
        self.decision: dict[str, Any] = {}
        """The last scaling decision, as `claimq why` shows it."""
        self._number, self._url, self._directory, self._context = number, url, directory, context
        self._reports = ServerReports(self.server)
        self._ends: list[ProcessEnd] = []
        self._busy: dict[str, int] = {}

    async def open(self) -> claimq.ReliableQueue:
        """The queue; its owner was checked at the start."""
        return self.queue

    async def server_report(self, now: float) -> ServerReport | None:
        """The server's version and settings."""
        return await self._reports.current(now)

    def fault(self, error: ClaimqError | TimeoutError | ServerAccessError) -> Fault:
        """The fault, described: the user of this machine has chosen the server."""
        return error.fault if isinstance(error, ServerAccessError) else described(error)

    def large_read(self) -> AbstractAsyncContextManager[None]:
        """No turn: one user's queues share the memory of this process."""
        return nullcontext()

    def has_workers(self) -> bool:
        """Whether there are workers."""
        return bool(self.table)

    def ended(self) -> tuple[Termination, ...]:
        """Processes that have ended, and whose claims were not given back yet."""
        now = time.monotonic()
        return tuple(end.termination(now) for end in self._ends)

    def mark_handled(self, ended: Iterable[Termination]) -> None:
        """The claims of these processes were given back: their workers may start others."""
        handled = {termination.container_id for termination in ended}
        self._ends = [end for end in self._ends if end.id not in handled]
        for worker in self.table.values():
            worker.is_releasing = any(end.claim_name == worker.claim_name for end in self._ends)

    def add_end(self, end: ProcessEnd) -> None:
        """A process has ended; the next pass gives its claims back."""
        self._ends.append(end)

    @property
    def has_ends(self) -> bool:
        """Whether claims have to be given back."""
        return bool(self._ends)

    def workers(self, claims: Iterable[WorkerInfo]) -> WorkersState:
        """The workers. Those that drain are terminating."""
        self._busy = {info.worker: info.busy for info in claims}
        now, wall = time.monotonic(), unix_seconds()
        states = tuple(
            worker.state(self._busy.get(worker.claim_name, 0), now, wall) for worker in self.table.values()
        )
        present = sum(not state.is_terminating for state in states)
        return WorkersState(ordered=present, workers=states, takes_victims=True, queue=self.board.name)

    async def order(self, observed: Observed, planned: Plan) -> bool:
        """Starts and drains workers."""
        self._context.metrics.set_pass(self._key, observed, planned)
        if self.is_stopping or planned.decision is None:
            return False
        before, decision = observed.workers.replicas, planned.decision
        self.board.decide(decision, before)
        if planned.replicas is not None:
            change = f"{before} -> {planned.replicas} workers"
            self._note(f"{self.board.name}: {change} ({decision.rule}): {decision.reason}")
            for _ in range(planned.replicas - before):
                self.add_worker()
        for worker in self.table.values():
            if worker.name in planned.victims:
                worker.begin_drain()
        return True

    async def report(self, observed: Observed, planned: Plan, maintained: Maintained | None) -> None:
        """Shows the pass, and saves its decision and conditions for `claimq why` and `claimq status`."""
        name = self.board.name
        for change in changed_conditions(self.status, planned.status):
            self._note(f"{name}: {change.reason}: {change.message}", is_trouble=change.warning)
        for claims in () if maintained is None else maintained.released:
            end = claims.termination
            self._context.metrics.released.labels(*self._key, end.reason.value).inc(claims.count)
            self._note(f"{end.prefix.rsplit('.', 2)[0]}: {count(claims.count)} given back: {end.cause}")
        is_changed = self.status.get("conditions") != planned.status["conditions"]
        self.status, self.snapshot = planned.status, observed.snapshot
        problem = "" if observed.redis_fault is None else observed.redis_fault.message
        self.board.see(observed.snapshot, problem)
        self.board.conditions = planned.status["conditions"]
        decision = {**self.status["scaling"], "targetAge": self.manifest.spec.scaling.target_age}
        if is_changed or {**self.decision, "at": None} != {**decision, "at": None}:
            self.decision = {**decision, "at": unix_seconds()}
            self._context.save()

    @property
    def _key(self) -> tuple[str, str]:
        """The labels that the operator would give the queue."""
        return self.manifest.namespace, self.manifest.name

    def _note(self, text: str, *, is_trouble: bool = False) -> None:
        self._context.note(text, is_trouble=is_trouble, queue=self.board.name)

    def add_worker(self) -> None:
        """Adds a worker, whose processes the next steps start."""
        number = next(n for n in range(1, len(self.table) + 2) if n not in self.table)
        self.table[number] = Worker(
            number,
            self._number,
            self.manifest,
            self._url,
            self._context,
            self.add_end,
            self._directory,
            patience=self.patience,
        )

    async def step_all(self) -> None:
        """Performs the next steps of all workers."""
        for number, worker in list(self.table.items()):
            worker.patience = self.patience
            while True:
                now = time.monotonic()
                step = plan.next_step(worker.seen(), self.patience, now)
                if step is None:
                    break
                if step is Step.REMOVE:
                    del self.table[number]
                    break
                await worker.perform(step, now)
                if step in (Step.KILL_APP, Step.KILL_SIDECAR):
                    break  # the end of the process triggers the next pass

    def show_workers(self) -> None:
        """Shows the workers as they are now."""
        workers = [worker for _, worker in sorted(self.table.items())]
        now = time.monotonic()
        self.board.show_workers(
            tuple(worker.row(self._busy.get(worker.claim_name, 0), now) for worker in workers)
        )


def unix_seconds() -> float:
    """The time of this machine, which is shown to people."""
    return time.time()  # noqa: TID251 - shown to people, and compared with itself


def connection_settings(url: str, manifest: Manifest) -> claimq.RedisSettings:
    """Connection settings of local mode itself. Calls fail early, since the next pass retries."""
    user = manifest.spec.redis.user if manifest.spec.redis else None
    return settings_for(url, username=user, retry_for=2.0)
