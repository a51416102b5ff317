"""How many workers a queue should have: a pure function of what is wanted, what is seen, what was, and the time.

Whoever performs the decision calls :func:`decide` every few seconds (at least once a minute, and at once when an
item comes to an empty queue) and passes the state of the last decision back in. A sharper rule can take the place
of the present one behind the same function.

The rule: enough workers for the items (``itemsPerReplica``), more and more of them while the oldest item is older than
``targetAge``, never more than there are items, within min and max. Up at once, down after a window without a higher
wish, never below the workers that hold claims, to zero after ``idleAfter``. What is unknown changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from claimq.duration import format_duration
from claimq.manifest.scaling_spec import ScalingMode, ScalingSpec

LONGEST_GAP = 60.0
"""Seconds between two decisions beyond which what happened meanwhile counts as unknown."""

MOST_WISHES = 32
"""Entries of the memory of what was wanted in the stabilization window."""


class ScalingRule(StrEnum):
    """What limited a decision: the reason for machines."""

    SUSPENDED = "Suspended"
    MANUAL = "Manual"
    EXTERNAL = "External"
    UNKNOWN = "Unknown"
    FROM_ZERO = "FromZero"
    ITEMS_PER_REPLICA = "ItemsPerReplica"
    TARGET_AGE = "TargetAge"
    WORK_LEFT = "WorkLeft"
    IDLE_WAIT = "IdleWait"
    IDLE = "Idle"
    MIN_REPLICAS = "MinReplicas"
    MAX_REPLICAS = "MaxReplicas"
    BUSY_WORKERS = "BusyWorkers"
    STABILIZING = "Stabilizing"
    STEP_UP = "StepUp"
    STEP_DOWN = "StepDown"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was observed of one queue, all at the same moment. Failed items and items that are not due have no
    place here.

    ``oldest_age``: seconds since the oldest item of main last entered it, by the server's clock; None when main is
    empty.
    """

    main: int
    """Items waiting in main."""
    busy: int
    """Items in hand."""
    replicas: int
    """Workers ordered now: ready, starting, or not yet there."""
    ready: int
    """Workers that can claim."""
    busy_workers: int = 0
    """Workers that hold at least one claim."""
    starting: int = 0
    """Workers that were ordered and cannot claim yet; they count as capacity."""
    delayed_due: int = 0
    """Delayed items that are due now and not yet in main."""
    oldest_age: float | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """One period of a step limit: when it began and from how many workers."""

    since: float
    replicas: int


@dataclass(frozen=True, slots=True)
class ScalingState:
    """What a decision needs to know of those before it. Bounded; an empty one is a fresh start, taking nobody away."""

    seen_at: float | None = None
    idle_since: float | None = None
    wishes: tuple[tuple[float, int], ...] = ()
    """(when, how many were wanted), falling numbers, at most :data:`MOST_WISHES`."""
    aged_at: float | None = None
    """The last step that the age of the oldest item asked for."""
    up: Burst | None = None
    down: Burst | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """How many workers (None: leave them as they are), what limited the number, why in words, and the next state."""

    replicas: int | None
    rule: ScalingRule
    reason: str
    state: ScalingState


@dataclass(frozen=True, slots=True)
class _Wish:
    replicas: int
    rule: ScalingRule
    reason: str


def decide(spec: ScalingSpec, seen: Seen | None, state: ScalingState, now: float) -> Decision:
    """How many workers there should be now.

    ``seen`` is None when the queue or its workers could not be observed: then nothing changes. ``now`` is in
    seconds of any clock that does not go back while the process lives; if it does go back, the state counts as
    lost. A change of max or
    ``suspend`` takes workers away even while they hold claims (they drain first); nothing else does.
    """
    told = _told(spec)
    if told is not None:
        return Decision(told[0], told[1], told[2], ScalingState())
    if seen is None:
        forgotten = replace(state, seen_at=None, idle_since=None, wishes=())
        return Decision(
            None,
            ScalingRule.UNKNOWN,
            "the queue could not be observed; the workers stay as they are",
            forgotten,
        )
    state = _remembered(spec, seen, state, now)
    wish = _within_bounds(spec, _wanted(spec, seen, state, now))
    if _may_go_to_zero(spec, state, now):
        reason = f"no item and no claim for {format_duration(spec.idle_after)} or longer"
        return Decision(0, ScalingRule.IDLE, reason, state)
    state = replace(
        state, wishes=_noted(state.wishes, now, wish.replicas, spec.scale_down.stabilization_window)
    )
    if wish.replicas > seen.replicas:
        return _up(spec, seen, state, now, wish)
    return _down(spec, seen, state, now, wish)


def _told(spec: ScalingSpec) -> tuple[int | None, ScalingRule, str] | None:
    if spec.suspended:
        return 0, ScalingRule.SUSPENDED, "suspend is true: no claims, no workers"
    if spec.mode is ScalingMode.MANUAL:
        return (
            spec.replicas,
            ScalingRule.MANUAL,
            f"mode is Manual: {_workers(spec.replicas or 0)}, as replicas says",
        )
    if spec.mode is ScalingMode.EXTERNAL:
        if spec.replicas is None:
            return None, ScalingRule.EXTERNAL, "mode is External: the number of workers is left alone"
        reason = f"mode is External: {_workers(spec.replicas)}, as the scale of this queue was set"
        return spec.replicas, ScalingRule.EXTERNAL, reason
    return None


def _remembered(spec: ScalingSpec, seen: Seen, state: ScalingState, now: float) -> ScalingState:
    """The state with this observation; after a gap or a step back of the clock it begins with what is there now."""
    last = state.seen_at
    if last is not None and now < last:
        state, last = ScalingState(), None
    if last is None or now - last > max(LONGEST_GAP, spec.scale_down.stabilization_window):
        state = replace(state, idle_since=None, wishes=((now, seen.replicas),))
    is_idle = _load(seen) == 0 and seen.busy_workers == 0
    idle_since = (now if state.idle_since is None else state.idle_since) if is_idle else None
    return replace(state, seen_at=now, idle_since=idle_since)


def _wanted(spec: ScalingSpec, seen: Seen, state: ScalingState, now: float) -> _Wish:
    """What the items ask for, before bounds, window and steps: the larger of the wishes."""
    load = _load(seen)
    if state.idle_since is not None:
        if seen.replicas == 0 or spec.min_replicas > 0:
            return _Wish(0, ScalingRule.IDLE, "no item and no claim")
        left = max(0.0, spec.idle_after - (now - state.idle_since))
        return _Wish(
            1,
            ScalingRule.IDLE_WAIT,
            f"no item and no claim; one worker stays for {format_duration(left)} more",
        )
    wishes = [_for_age(spec, seen, state, now)]
    if spec.items_per_replica is not None:
        enough = -(-load // spec.items_per_replica)
        reason = f"{_items(seen)} at {spec.items_per_replica} a worker ask for {_workers(enough)}"
        if not _waiting(seen):  # what is in hand has its worker already, even one that is on its way out
            enough = min(enough, seen.replicas)
        wishes.insert(0, _Wish(enough, ScalingRule.ITEMS_PER_REPLICA, reason))
    wish = max(wishes, key=lambda one: one.replicas)
    if seen.replicas == 0 and wish.replicas <= 1 and _waiting(seen):
        return _Wish(1, ScalingRule.FROM_ZERO, f"{_items(seen)} and no worker: one is started")
    return wish


def _for_age(spec: ScalingSpec, seen: Seen, state: ScalingState, now: float) -> _Wish:
    """One step more while the oldest item is too old; nobody less until its age is below half the target."""
    load, age, target = _load(seen), max(0.0, seen.oldest_age or 0.0), spec.target_age
    if not _waiting(seen):
        keep = min(seen.replicas, max(1, seen.busy_workers))
        return _Wish(keep, ScalingRule.WORK_LEFT, f"no item waits; {_items(seen)}")
    old = f"{_items(seen)}, the oldest {_rounded(age)} old"
    if age > target:
        count, why = _older(spec, seen, state, now)
        reason = f"{old}, over the target of {format_duration(target)}{why}"
    elif spec.items_per_replica is not None and age <= target / 2:
        return _Wish(1, ScalingRule.WORK_LEFT, f"{old}, well within the target of {format_duration(target)}")
    else:
        count, reason = seen.replicas, f"{old}, within the target of {format_duration(target)}"
    if count > load:
        count, reason = load, f"{reason}; more workers than items would be idle"
    return _Wish(max(1, count), ScalingRule.TARGET_AGE, reason)


def _older(spec: ScalingSpec, seen: Seen, state: ScalingState, now: float) -> tuple[int, str]:
    """A step is half of the workers that are ready, at least one; those still starting are part of it."""
    grown = seen.ready + max(1, -(-seen.ready // 2))
    if grown <= seen.replicas:
        return seen.replicas, f"; {_workers(max(seen.starting, seen.replicas - seen.ready))} still starting"
    if state.aged_at is not None and now - state.aged_at < spec.scale_up.period:
        return seen.replicas, f"; the last step was less than {format_duration(spec.scale_up.period)} ago"
    return grown, ""


def _within_bounds(spec: ScalingSpec, wish: _Wish) -> _Wish:
    if wish.replicas < spec.min_replicas:
        reason = f"{wish.reason}; minReplicas is {spec.min_replicas}"
        return _Wish(spec.min_replicas, ScalingRule.MIN_REPLICAS, reason)
    if wish.replicas > spec.max_replicas:
        reason = f"{wish.reason}; maxReplicas is {spec.max_replicas}"
        return _Wish(spec.max_replicas, ScalingRule.MAX_REPLICAS, reason)
    return wish


def _may_go_to_zero(spec: ScalingSpec, state: ScalingState, now: float) -> bool:
    return (
        spec.min_replicas == 0 and state.idle_since is not None and now - state.idle_since >= spec.idle_after
    )


def _up(spec: ScalingSpec, seen: Seen, state: ScalingState, now: float, wish: _Wish) -> Decision:
    step, period = spec.scale_up.max_step, spec.scale_up.period
    allowed, burst = wish.replicas, None
    if step is not None:
        burst = (
            state.up if state.up is not None and now - state.up.since < period else Burst(now, seen.replicas)
        )
        allowed = min(wish.replicas, max(seen.replicas, min(seen.replicas, burst.replicas) + step))
    allowed = max(allowed, spec.min_replicas)
    aged_at = now if wish.rule is ScalingRule.TARGET_AGE and allowed > seen.replicas else state.aged_at
    state = replace(state, up=burst, aged_at=aged_at)
    if allowed == wish.replicas:
        return Decision(allowed, wish.rule, wish.reason, state)
    reason = f"{wish.reason}; at most {step} more in {format_duration(period)}"
    return Decision(allowed, ScalingRule.STEP_UP, reason, state)


def _down(spec: ScalingSpec, seen: Seen, state: ScalingState, now: float, wish: _Wish) -> Decision:
    """From what is there to the wish, as far as the window, the busy workers and the step limit let it."""
    current = min(seen.replicas, spec.max_replicas)
    target, rule, reason = wish.replicas, wish.rule, wish.reason
    if seen.replicas > spec.max_replicas and target == current:
        rule, reason = (
            ScalingRule.MAX_REPLICAS,
            f"maxReplicas is {spec.max_replicas}, and there are {seen.replicas}",
        )
    window = min(current, max(count for _, count in state.wishes))
    if target < window:
        span = format_duration(spec.scale_down.stabilization_window)
        reason = f"{wish.reason}; {_workers(window)} were wanted within the last {span}"
        target, rule = window, ScalingRule.STABILIZING
    held = min(current, seen.busy_workers)
    if target < held:
        target, rule = held, ScalingRule.BUSY_WORKERS
        reason = f"{wish.reason}; {_workers(seen.busy_workers)} hold claims"
    step, period, burst = spec.scale_down.max_step, spec.scale_down.period, None
    if step is not None and target < current:
        burst = (
            state.down if state.down is not None and now - state.down.since < period else Burst(now, current)
        )
        floor = min(current, max(current, burst.replicas) - step)
        if target < floor:
            target, rule = floor, ScalingRule.STEP_DOWN
            reason = f"{wish.reason}; at most {step} fewer in {format_duration(period)}"
    return Decision(target, rule, reason, replace(state, down=burst if burst is not None else state.down))


def _noted(
    wishes: tuple[tuple[float, int], ...], now: float, replicas: int, window: float
) -> tuple[tuple[float, int], ...]:
    """The wishes of the window with this one: falling numbers, since a later and higher one hides an earlier one."""
    kept = [(at, count) for at, count in wishes if now - at < window and count > replicas]
    kept.append((now, replicas))
    # beyond that the oldest two become one that is at least as high and lasts at least as long
    while len(kept) > MOST_WISHES:
        kept[:2] = [(kept[1][0], kept[0][1])]
    return tuple(kept)


def _waiting(seen: Seen) -> int:
    return seen.main + seen.delayed_due


def _load(seen: Seen) -> int:
    return _waiting(seen) + seen.busy


def _items(seen: Seen) -> str:
    waiting = _waiting(seen)
    noun = "item" if waiting == 1 else "items"
    return f"{waiting} {noun} waiting, {seen.busy} in hand" if waiting else f"{seen.busy} in hand"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _rounded(seconds: float) -> str:
    return format_duration(round(seconds) if seconds >= 10 else round(seconds, 1))
