"""Inputs and outputs of the scaling function."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from claimq.limits import LimitsNow
from claimq_control.scaling.estimates import Estimates


class ScalingRule(StrEnum):
    """What determined a decision: the reason for machines."""

    SUSPENDED = "Suspended"
    """`spec.suspend` removes all workers."""
    MANUAL = "Manual"
    """The mode Manual: `scaling.replicas`."""
    EXTERNAL = "External"
    """The mode External: another client sets the number."""
    UNKNOWN = "Unknown"
    """The server is unreachable: the number is kept."""
    PAUSED = "Paused"
    """Claims are paused: workers are kept; one is started if there is none and items wait."""
    NO_PROGRESS = "NoProgress"
    """Workers hang: the number is what `targetAge` or a limit asks for, but more workers are no cure."""
    FROM_ZERO = "FromZero"
    """Items wait and no worker runs."""
    ITEMS_PER_REPLICA = "ItemsPerReplica"
    """`itemsPerReplica` asks for this number."""
    TARGET_AGE = "TargetAge"
    """`targetAge` asks for this number."""
    WORK_LEFT = "WorkLeft"
    """No item waits, and some are in progress: the number is kept."""
    IDLE_WAIT = "IdleWait"
    """The queue has not been empty for `idleAfter` yet (by default 6 s; if the next item is likely to come soon, 25 s
    or as long as a worker takes to start)."""
    IDLE = "Idle"
    """No item and no claim: no worker is needed."""
    MIN_REPLICAS = "MinReplicas"
    """The minimum."""
    MAX_REPLICAS = "MaxReplicas"
    """The maximum is reached."""
    BUSY_WORKERS = "BusyWorkers"
    """Workers that hold items are not removed."""
    STABILIZING = "Stabilizing"
    """A higher number was needed within `scaleDown.stabilizationWindow` (by default a quarter of the start-up time, at
    least 6 s), or the last change is too recent."""
    STEP_UP = "StepUp"
    """The largest step per period that `scaleUp` allows."""
    STEP_DOWN = "StepDown"
    """The largest step per period that `scaleDown` allows."""


NOT_AUTO = (ScalingRule.MANUAL, ScalingRule.EXTERNAL, ScalingRule.SUSPENDED, ScalingRule.UNKNOWN)
"""Rules under which the number of workers does not follow the queue."""


class Limit(StrEnum):
    """Why no decision can meet the target."""

    MAX_REPLICAS = "MaxReplicas"
    LONG_ITEMS = "LongItems"
    """The maximum is reached because an item takes longer than the target: each needs a worker of its own."""
    SLOW_START = "SlowStart"


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a queue and its workers, all at the same moment: see :func:`observe`. Failed items do not
    count, and neither do delayed items that are not due soon.
    """

    main: int
    """Items waiting in main."""
    busy: int
    """Items in progress."""
    replicas: int
    """Workers ordered now: ready, starting, or not there yet."""
    ready: int
    """Workers that can claim."""
    busy_workers: int
    """Workers that hold at least one claim."""
    delayed_due: int
    """Delayed items that are due now and not yet in main."""
    delayed_soon: int
    """Delayed items that become due within the next seconds (``Snapshot.due_soon``)."""
    oldest_age: float | None
    """Seconds since the oldest item of main last entered it, by the server's clock; None when main is empty."""
    claimed: int | None
    """Claims since the queue began; None: unknown, and nothing is learned about arrivals and service times."""
    slots: int
    """Items that one worker works on at the same time."""
    starting_for: tuple[float, ...]
    """For workers that are starting: seconds since each was ordered."""
    next_due_in: float | None
    """Seconds until the next delayed item is due; None if there is none, or it is unknown."""
    is_paused: bool
    """Whether claims are paused: more workers would only wait, so one is enough until claims resume."""
    limits: LimitsNow | None = None
    """The limits of the queue: what they hold back needs no worker."""
    held: int = 0
    """Items that claims have moved out of main, since their keys are busy."""

    @property
    def starting(self) -> int:
        """Workers that were ordered and cannot claim yet; they count as capacity."""
        return self.replicas - self.ready

    @property
    def waiting(self) -> int:
        """Items that could be claimed now, or within moments."""
        return self.main + self.delayed_due

    @property
    def load(self) -> int:
        """Items that wait or are in progress."""
        return self.waiting + self.busy


@dataclass(frozen=True, slots=True)
class StepPeriod:
    """One period of a step limit: when it began and from how many workers."""

    since: float
    replicas: int


@dataclass(frozen=True, slots=True)
class ScalingState:
    """What a decision needs from earlier ones. Bounded. An empty state removes no worker."""

    seen_at: float | None = None
    idle_since: float | None = None
    wanted: tuple[tuple[float, int], ...] = ()
    """(when, how many were wanted), falling numbers, at most :data:`MOST_WANTED`."""
    changed_at: float | None = None
    """When the number of workers was last changed."""
    up: StepPeriod | None = None
    down: StepPeriod | None = None
    estimates: Estimates = field(default_factory=Estimates)


MOST_WANTED = 32
"""Maximum number of entries in ``wanted``."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated number, and one standard deviation of its error."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The arithmetic of one decision: estimates, and workers by rule."""

    arrivals: Estimate
    """Items per second; the error is that of a Poisson process."""
    service: Estimate
    """Seconds that an item takes; the error is for items that differ as much as their mean."""
    start: Estimate
    """Seconds until a new worker claims; the error is the spread of the observed times."""
    deadlines: int
    """Workers that start every waiting item in time."""
    balance: int
    """Workers that keep up with the arrivals and bring the queue back to its length."""
    items_per_replica: int | None
    """Workers for ``itemsPerReplica``; None: it is not set."""
    useful: int
    """More workers than that would be idle."""
    wanted: int
    """The number of workers before ``minReplicas``, ``maxReplicas``, steps and windows."""
    min_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of workers (None: no change), the rule that determined it, an explanation, and the next state."""

    replicas: int | None
    rule: ScalingRule
    reason: str
    state: ScalingState
    limit: Limit | None = None
    """Set when the target cannot be met; ``needed`` workers would be necessary."""
    needed: int = 0
    explanation: Explanation | None = None
    """The calculation; None if the queue is unknown or does not determine the number."""
