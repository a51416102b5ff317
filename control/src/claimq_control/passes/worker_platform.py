"""The port to what runs the workers of a queue: a cluster, or this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from claimq.errors import ClaimqError
from claimq.model import ServerReport, Snapshot, WorkerInfo
from claimq.reliable_queue import ReliableQueue
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.fault import Fault
from claimq_control.workers import Termination, WorkersState


class ServerAccessError(Exception):
    """The server must not or cannot be used as the manifest asks; ``fault`` has the cause and the fix."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class ReleasedClaims:
    """The number of claims of one terminated process that were returned or got its cause."""

    termination: Termination
    count: int


@dataclass(frozen=True, slots=True)
class Maintained:
    """The queue's state after maintenance, and the claims that it returned."""

    snapshot: Snapshot
    workers: tuple[WorkerInfo, ...] = ()
    released: tuple[ReleasedClaims, ...] = ()


class Platform(Protocol):
    """The workers of one queue, and the way to its server."""

    @property
    def retry_after(self) -> float:
        """Seconds until the next pass, if an order of this one was not accepted; else 0."""
        ...

    async def open(self) -> ReliableQueue:
        """The queue on its server, after a check that it may be used. Raises ServerAccessError, ClaimqError."""
        ...

    async def server_report(self, now: float) -> ServerReport | None:
        """What is known of the server. ``now``: monotonic seconds. Raises ClaimqError."""
        ...

    def fault(self, error: ClaimqError | TimeoutError | ServerAccessError) -> Fault:
        """The fault to report for an error of the server."""
        ...

    def large_read(self) -> AbstractAsyncContextManager[None]:
        """Waits for a turn to read a queue whose state is larger than other reads may be. Raises ReadTooLarge."""
        ...

    def has_workers(self) -> bool:
        """Whether there are workers, which may hold claims."""
        ...

    def ended(self) -> Sequence[Termination]:
        """Processes of workers that have certainly terminated. They are returned again until they are handled."""
        ...

    def mark_handled(self, ended: Iterable[Termination]) -> None:
        """The server can be used, and has the ends of these processes."""
        ...

    def workers(self, claims: Iterable[WorkerInfo]) -> WorkersState:
        """The workers, each with its number of claims."""
        ...

    async def order(self, observed: Observed, planned: Plan) -> bool:
        """Applies a plan. False if the number of workers was not accepted: the next pass plans it again."""
        ...

    async def report(self, observed: Observed, planned: Plan, maintained: Maintained | None) -> None:
        """Reports a pass: its status, and what has happened since the one before."""
        ...
