"""The workers of a queue, as their platform reports them: pods of a cluster, or processes of this machine. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from claimq.model import Reason, WorkerInfo
from claimq_control.fault import Fault


@dataclass(frozen=True, slots=True)
class WorkerProblem:
    """Why a worker does not become ready. ``fix``: which field of the manifest to change; empty if it is unknown."""

    reason: str
    message: str
    worker: str = ""
    """The worker as a message names it, such as ``pod a``; empty if the problem is that of all workers."""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One worker. ``revision``: the version of the template that it runs."""

    name: str
    is_ready: bool = False
    is_terminating: bool = False
    """Whether it was asked to end. It claims no more items."""
    revision: str = ""
    created_at: float = 0.0
    """When it was ordered: Unix seconds by the clock of the platform."""
    ready_at: float = 0.0
    """When it became ready, by the same clock; 0 if the platform does not report it."""
    deletion_cost: int = 0
    problem: WorkerProblem | None = None
    hint: str = ""
    """Where to look if it keeps starting, as the end of a message."""
    busy: int = 0
    """The number of claims that it holds."""


@dataclass(frozen=True, slots=True)
class WorkersState:
    """All workers of a queue in one pass, and what their platform reports about all of them."""

    ordered: int | None = 0
    """The number of workers ordered last; None: the first order creates what the workers need."""
    workers: tuple[WorkerState, ...] = ()
    takes_victims: bool = False
    """Whether the platform ends exactly the workers that an order names. Others have to be marked first."""
    is_rolling_out: bool = False
    """Whether there are workers of an older template, which the platform replaces."""
    problem: WorkerProblem | None = None
    """Why workers could not be created or do not become ready."""
    blocked: WorkerProblem | None = None
    """Why the replacement of workers of an older template makes no progress."""
    rivals: tuple[str, ...] = ()
    """Other clients that set the number of workers."""
    place: str = ""
    """What has the number of workers, as a message names it, such as ``the Deployment a``."""
    first_worker: str = ""
    """How a user starts the first worker in mode External, as the end of a message."""
    queue: str = ""
    """The queue as a user's commands name it."""
    program: str = "claimq"
    """How these commands begin."""
    left_out: tuple[str, ...] = ()
    """A sentence for each part that was not injected into the app's container."""
    refusal: Fault | None = None
    """Why the platform does not accept the workers of this manifest, or did not in the previous pass."""
    conflict: str = ""
    """A message about other operators that serve the queue too."""

    def command(self, verb: str) -> str:
        """A command about the queue, as a message names it."""
        return f"{self.program} {verb} {self.queue}"

    @property
    def replicas(self) -> int:
        """The number of workers ordered last."""
        return self.ordered or 0

    @property
    def live(self) -> tuple[WorkerState, ...]:
        """The workers that were not asked to end."""
        return tuple(worker for worker in self.workers if not worker.is_terminating)

    @property
    def ready(self) -> int:
        """The number of live workers that are ready."""
        return sum(worker.is_ready for worker in self.live)

    @property
    def busy(self) -> int:
        """The number of live workers that hold claims."""
        return sum(worker.busy > 0 for worker in self.live)


@dataclass(frozen=True, slots=True)
class Termination:
    """One terminated process of a worker: a container of a pod, or a process of this machine.

    ``is_last``: no later run of an app can have claimed items when the status was written. ``ended_at``: Unix seconds
    by its node's clock; infinite if unknown. ``worker``: the name of the sidecar's worker, if the sidecar has left it.
    """

    container_id: str
    prefix: str
    is_sidecar: bool
    cause: str
    reason: Reason = Reason.CRASHED
    is_last: bool = False
    ended_at: float = math.inf
    worker: str = ""
    within: float = 60.0
    """Seconds before the call in which a crash can have this cause."""
    recounts: bool = True
    """Whether claims that its sidecar returned uncounted are counted after all: the eviction of a pod for its own usage
    starts like a drain."""


def terminated_workers(termination: Termination, workers: Iterable[WorkerInfo]) -> tuple[str, ...]:
    """The worker that no longer exists after the termination of a sidecar, if it still holds claims.

    Only the name that it has left is proof. The start in a worker's name is by the sidecar's clock, which may be
    seconds behind or ahead of the kubelet's in a virtual machine of its own.
    """
    return tuple(
        info.worker
        for info in workers
        if termination.is_sidecar
        and info.busy
        and info.worker.startswith(termination.prefix)
        and info.worker == termination.worker
    )
