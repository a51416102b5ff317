"""Decides which process of a worker to start or stop next. Pure; `worker` performs the steps.

A worker is two processes: a sidecar, and an app that gets its items from the sidecar's socket. Start: the sidecar,
then, when it is ready, the app. An app that items are sent to is starting until it listens. Stop, as in a pod: the
sidecar stops claiming and waits until no claim is left, then the app gets SIGTERM, then the sidecar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

LISTEN_SECONDS = 5.0
"""How long an app that has listened for its items may not do so, before that is a problem."""
FIRST_LISTEN_SECONDS = 30.0
"""The same for one that has not listened yet: it starts."""


class Part(StrEnum):
    """A process of a worker."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"


class Step(StrEnum):
    """A step of starting or stopping a worker."""

    START_SIDECAR = "start the sidecar"
    START_APP = "start the app"
    ASK_DRAIN = "ask the sidecar to drain"
    STOP_APP = "stop the app"
    KILL_APP = "kill the app"
    STOP_SIDECAR = "stop the sidecar"
    KILL_SIDECAR = "kill the sidecar"
    REMOVE = "remove the worker"


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts in seconds: to become ready, to drain, and to exit after SIGTERM."""

    start: float = 30.0
    drain: float = 25.0
    end: float = 5.0

    def hurried(self) -> Patience:
        """The timeouts after a second signal: no time to finish items, but to give them back."""
        return replace(self, drain=0.0)


@dataclass(frozen=True, slots=True)
class Drain:
    """Progress of stopping a worker. Instants of the caller's clock; None: not yet.

    ``is_accepted``: the sidecar drains, so it returns the claims of an app that ends uncounted.
    """

    since: float
    is_asked: bool = False
    is_accepted: bool = False
    is_finished: bool = False
    app_stopped_at: float | None = None
    sidecar_stopped_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """Observed state of a worker. ``*_retry_at``: earliest time of the next start."""

    number: int
    sidecar: Part = Part.ABSENT
    app: Part = Part.ABSENT
    sidecar_since: float = 0.0
    app_since: float = 0.0
    has_listened: bool = False
    """Whether its app, in this run, has listened for the items that are sent to it."""
    sidecar_retry_at: float = 0.0
    app_retry_at: float = 0.0
    is_stuck: bool = False
    drain: Drain | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it can claim."""
        return self.sidecar is Part.RUNNING and self.app is Part.RUNNING and self.drain is None

    def stage(self, now: float) -> str:
        """The state in one word."""
        if self.drain is not None:
            return "draining"
        if self.is_ready:
            return "ready"
        return "waiting" if self.waits_to_restart(now) or self.waits_for_app(now) else "starting"

    def waits_to_restart(self, now: float) -> bool:
        """Whether one of its processes has ended and is not restarted yet."""
        if self.is_ready:
            return False
        return (self.sidecar_retry_at if self.sidecar is Part.ABSENT else self.app_retry_at) > now

    def waits_for_app(self, now: float) -> bool:
        """Whether its app runs and does not listen for pushed items, for longer than it may take."""
        longest = LISTEN_SECONDS if self.has_listened else FIRST_LISTEN_SECONDS
        return self.app is Part.STARTING and now >= max(self.app_since, self.sidecar_since) + longest


def next_step(worker: WorkerSeen, patience: Patience, now: float) -> Step | None:
    """The next step for a worker; None: wait for an event."""
    if worker.drain is not None:
        return _next_stop_step(worker, worker.drain, patience, now)
    if worker.sidecar is Part.ABSENT:
        return Step.START_SIDECAR if now >= worker.sidecar_retry_at else None
    if worker.sidecar is Part.STARTING:
        return Step.KILL_SIDECAR if now >= worker.sidecar_since + patience.start else None
    if worker.app is Part.ABSENT:
        return Step.START_APP if now >= worker.app_retry_at else None
    return Step.KILL_APP if worker.is_stuck else None


def _next_stop_step(worker: WorkerSeen, drain: Drain, patience: Patience, now: float) -> Step | None:
    if worker.app is not Part.ABSENT:
        if drain.app_stopped_at is not None:
            return Step.KILL_APP if now >= drain.app_stopped_at + patience.end else None
        longest = patience.drain if drain.is_accepted else max(patience.drain, patience.end)
        is_over = now >= drain.since + longest
        if drain.is_finished or is_over or worker.sidecar is not Part.RUNNING:
            return Step.STOP_APP
        return None if drain.is_asked else Step.ASK_DRAIN
    if worker.sidecar is not Part.ABSENT:
        if drain.sidecar_stopped_at is None:
            return Step.STOP_SIDECAR
        return Step.KILL_SIDECAR if now >= drain.sidecar_stopped_at + patience.end else None
    return Step.REMOVE
