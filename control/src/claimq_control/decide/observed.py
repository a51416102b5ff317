"""The observation of one pass: a queue as it is declared, on its server, and with its workers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from claimq.errors import Problem
from claimq.model import ServerReport, Snapshot, State, WorkerInfo
from claimq_control.fault import Fault
from claimq_control.manifest import QueueSpec
from claimq_control.workers import WorkersState


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQueue:
    """The spec that a user wants, and the status that the previous pass reported."""

    spec: QueueSpec | None
    """None if it is invalid; ``problems`` then lists why."""
    problems: tuple[Problem, ...] = ()
    generation: int = 0
    """A number that grows with each change of the spec."""
    status: dict[str, Any] = field(default_factory=dict[str, Any])

    def reported(self, key: str) -> dict[str, Any]:
        """An object of the status; an empty one if it is missing or null."""
        return self.status.get(key) or {}

    @property
    def version(self) -> object:
        """Changes with each change after which the server is tried again at once."""
        return self.generation

    @property
    def is_paused(self) -> bool:
        """Whether nothing is changed for the queue until a user ends that."""
        return False


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation. ``snapshot`` is None while the queue is unknown; ``redis_fault`` then has the cause."""

    resource: DeclaredQueue
    workers: WorkersState = field(default_factory=WorkersState)
    snapshot: Snapshot | None = None
    report: ServerReport | None = None
    redis_fault: Fault | None = None
    claims: tuple[WorkerInfo, ...] = ()
    """The workers as the server knows them: by the names under which they claim."""

    @property
    def full(self) -> str:
        """The warning of a server that has no memory for new items; else empty. Workers go on."""
        warnings = () if self.report is None or self.snapshot is None else self.report.warnings
        return next((warning.message for warning in warnings if warning.code == "Full"), "")

    def without_claims_ahead(self) -> Observed:
        """The same, where items that workers have claimed and not begun count as waiting: a worker has begun as many as
        it has slots.
        """
        if self.resource.spec is None or self.snapshot is None or not self.workers.workers:
            return self
        slots = self.resource.spec.worker.concurrency
        workers = tuple(replace(worker, busy=min(worker.busy, slots)) for worker in self.workers.workers)
        held = sum(worker.busy for worker in self.workers.workers)
        lengths = self.snapshot.lengths
        busy = lengths[State.BUSY] - held + sum(worker.busy for worker in workers)
        if sum(holder.busy for holder in self.claims) == held:  # no other program holds claims
            busy = min(busy, slots * len(workers))
        busy = max(busy, 0)
        main = lengths[State.MAIN] + lengths[State.BUSY] - busy
        snapshot = replace(self.snapshot, lengths={**lengths, State.MAIN: main, State.BUSY: busy})
        return replace(self, snapshot=snapshot, workers=replace(self.workers, workers=workers))
