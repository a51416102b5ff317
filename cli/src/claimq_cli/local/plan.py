"""What to start and what to stop, decided from what is seen. Pure; `workers` performs it.

A worker is two processes: a sidecar, and an app that gets its items from the sidecar's socket. Starting: sidecar,
its readiness, app. Ending, as a pod does: the sidecar stops claiming and says when nothing is in hand, then the app
is told to end, then the sidecar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from claimq.model import Snapshot, State
from claimq_spec.scaling import Seen


class Part(StrEnum):
    """A process of a worker."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"


class Step(StrEnum):
    """One thing to do to a worker."""

    START_SIDECAR = "start the sidecar"
    START_APP = "start the app"
    ASK_DRAIN = "ask the sidecar to drain"
    END_APP = "tell the app to end"
    KILL_APP = "kill the app"
    END_SIDECAR = "tell the sidecar to end"
    KILL_SIDECAR = "kill the sidecar"
    REMOVE = "forget the worker"


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a worker gets for each stage: to become ready, to drain, and after the signal to end."""

    start: float = 30.0
    drain: float = 25.0
    end: float = 5.0

    def hurried(self) -> Patience:
        """The same after a second signal: no time to finish what is in hand."""
        return Patience(self.start, 0.0, min(self.end, 1.0))


@dataclass(frozen=True, slots=True)
class Drain:
    """How far the end of a worker has come. Instants of the caller's clock; None: not yet."""

    since: float
    is_asked: bool = False
    is_finished: bool = False
    app_told_at: float | None = None
    sidecar_told_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """One worker as it is now. ``busy``: claims that it holds; ``*_retry_at``: not to be started before."""

    number: int
    sidecar: Part = Part.ABSENT
    app: Part = Part.ABSENT
    busy: int = 0
    sidecar_since: float = 0.0
    sidecar_retry_at: float = 0.0
    app_retry_at: float = 0.0
    is_stuck: bool = False
    drain: Drain | None = None
    ordered_at: float = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether it can claim."""
        return self.sidecar is Part.RUNNING and self.app is Part.RUNNING and self.drain is None


@dataclass(frozen=True, slots=True)
class Change:
    """How many workers to start, and which to drain."""

    start: int = 0
    drain: tuple[int, ...] = ()


def change(workers: Sequence[WorkerSeen], wanted: int | None) -> Change:
    """From the workers there are to ``wanted`` (None: leave them). Those that already drain do not count.

    Taken away first: those that cannot claim, then those that hold nothing, then those that hold least; of equals
    the newest.
    """
    there = [worker for worker in workers if worker.drain is None]
    if wanted is None or wanted == len(there):
        return Change()
    if wanted > len(there):
        return Change(start=wanted - len(there))
    by_loss = sorted(there, key=lambda worker: (worker.busy, worker.is_ready, -worker.number))
    return Change(drain=tuple(worker.number for worker in by_loss[: len(there) - wanted]))


def next_step(worker: WorkerSeen, patience: Patience, now: float) -> Step | None:
    """The one thing to do next to a worker; None: wait for something to happen."""
    if worker.drain is not None:
        return _ending(worker, worker.drain, patience, now)
    if worker.sidecar is Part.ABSENT:
        return Step.START_SIDECAR if now >= worker.sidecar_retry_at else None
    if worker.sidecar is Part.STARTING:
        return Step.KILL_SIDECAR if now >= worker.sidecar_since + patience.start else None
    if worker.app is Part.ABSENT:
        return Step.START_APP if now >= worker.app_retry_at else None
    return Step.KILL_APP if worker.is_stuck else None


def _ending(worker: WorkerSeen, drain: Drain, patience: Patience, now: float) -> Step | None:
    if worker.app is not Part.ABSENT:
        if drain.app_told_at is not None:
            return Step.KILL_APP if now >= drain.app_told_at + patience.end else None
        is_over = now >= drain.since + patience.drain
        if drain.is_finished or is_over or worker.sidecar is not Part.RUNNING:
            return Step.END_APP
        return None if drain.is_asked else Step.ASK_DRAIN
    if worker.sidecar is not Part.ABSENT:
        if drain.sidecar_told_at is None:
            return Step.END_SIDECAR
        return Step.KILL_SIDECAR if now >= drain.sidecar_told_at + patience.end else None
    return Step.REMOVE


def seen_for_scaling(snapshot: Snapshot, workers: Sequence[WorkerSeen], slots: int, now: float) -> Seen:
    """What the scaling function is told: the queue's numbers and the workers that are not on their way out.

    Delayed items that are due count as one: the reaper moves them to main within a second.
    """
    there = [worker for worker in workers if worker.drain is None]
    ready = sum(worker.is_ready for worker in there)
    return Seen(
        main=snapshot.lengths[State.MAIN],
        busy=snapshot.lengths[State.BUSY],
        replicas=len(there),
        ready=ready,
        busy_workers=sum(worker.busy > 0 for worker in there),
        starting=len(there) - ready,
        delayed_due=1 if snapshot.next_due_in == 0 else 0,
        delayed_soon=snapshot.due_soon,
        oldest_age=snapshot.ages[State.MAIN],
        claimed=snapshot.counters["claimed"],
        slots=slots,
        starting_for=tuple(max(0.0, now - worker.ordered_at) for worker in there if not worker.is_ready),
        is_paused=snapshot.paused,
    )
