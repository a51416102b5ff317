"""The observation of one pass: a queue as it is declared, on its server, and with its workers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from claimq.errors import Problem
from claimq.model import ServerReport, Snapshot
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

    @property
    def full(self) -> str:
        """The warning of a server that has no memory for new items; else empty. Workers go on."""
        warnings = () if self.report is None or self.snapshot is None else self.report.warnings
        return next((warning.message for warning in warnings if warning.code == "Full"), "")
