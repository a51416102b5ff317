"""Limits of a change of the number of workers: bounds, steps, the stabilization window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from claimq_control.manifest.scaling_spec import ScalingSpec
from claimq_control.scaling.values import (
    MOST_WANTED,
    Decision,
    Observation,
    ScalingRule,
    ScalingState,
    StepPeriod,
)
from claimq_process.duration import format_duration, readable_duration

_SMALL_STEP = 0.3
"""Share of the workers that a small step changes at most: many small steps are bundled."""
_SMALL_STEP_WINDOWS = 8
"""Number of windows between a change and a small step down: removing workers one by one is not worth it."""
_LIKELY, _LONGER_KEEP = 0.5, 25.0
"""The next item is likely if this many are expected while the last worker is kept; it is then kept for at least this
many seconds."""
SHORTEST_KEEP = 6.0
"""Minimum seconds for which a worker is kept after it was last needed, unless the manifest sets them."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A number of workers, and why."""

    replicas: int
    rule: ScalingRule
    reason: str
    patience: float = 0.0
    """Seconds for which an order of more can wait."""


def idle_after(spec: ScalingSpec, state: ScalingState) -> float:
    """Seconds without items after which all workers are removed. If the next item is likely to arrive soon, the last
    worker is kept for at least the time that a start takes, so that it is not started for each item."""
    if spec.idle_after is not None:
        return spec.idle_after
    keep = max(_LONGER_KEEP, state.estimates.start)
    return keep if state.estimates.arrival_rate * keep >= _LIKELY else SHORTEST_KEEP


def window(spec: ScalingSpec, state: ScalingState) -> float:
    """Seconds for which a number of workers is kept after it was last needed."""
    chosen = spec.scale_down.stabilization_window
    return max(SHORTEST_KEEP, state.estimates.start / 4) if chosen is None else chosen


def within_bounds(spec: ScalingSpec, wish: Wish) -> Wish:
    """The wish between ``minReplicas`` and ``maxReplicas``."""
    if wish.replicas < spec.min_replicas:
        reason = f"{wish.reason}; minReplicas is {spec.min_replicas}"
        return Wish(spec.min_replicas, ScalingRule.MIN_REPLICAS, reason)
    if wish.replicas > spec.max_replicas:
        reason = f"{wish.reason}; maxReplicas is {spec.max_replicas}"
        return Wish(spec.max_replicas, ScalingRule.MAX_REPLICAS, reason)
    return wish


def up(spec: ScalingSpec, observation: Observation, state: ScalingState, now: float, wish: Wish) -> Decision:
    """Moves from the present number up to the wish, within the step limit. Small steps are at least a sixth of the
    target age apart."""
    is_above_min = observation.replicas >= spec.min_replicas
    if (
        wish.rule is ScalingRule.TARGET_AGE
        and is_above_min
        and _can_wait(spec, observation, state, now, wish)
    ):
        return Decision(observation.replicas, wish.rule, f"{wish.reason}; waiting for a larger step", state)
    step, period = spec.scale_up.max_step, spec.scale_up.period
    allowed, last = wish.replicas, None
    if step is not None:
        is_running = state.up is not None and now - state.up.since < period
        last = state.up if is_running and state.up is not None else StepPeriod(now, observation.replicas)
        allowed = min(
            wish.replicas, max(observation.replicas, min(observation.replicas, last.replicas) + step)
        )
    allowed = max(allowed, spec.min_replicas)
    state = replace(state, up=last)
    if allowed == wish.replicas:
        return Decision(allowed, wish.rule, wish.reason, state)
    reason = f"{wish.reason}; at most {step} more in {format_duration(period)}"
    return Decision(allowed, ScalingRule.STEP_UP, reason, state)


def _can_wait(
    spec: ScalingSpec, observation: Observation, state: ScalingState, now: float, wish: Wish
) -> bool:
    more, pause = wish.replicas - observation.replicas, spec.target_age / 6
    if 0 < more <= max(1, _SMALL_STEP * observation.replicas) and wish.patience > pause:
        return observation.replicas > 0
    return 0 < more <= max(1, observation.replicas) and _changed_within(state, now, pause)


def down(
    spec: ScalingSpec, observation: Observation, state: ScalingState, now: float, wish: Wish
) -> Decision:
    """Moves from the present number down to the wish, within the window, the busy workers and the step limit."""
    current = min(observation.replicas, spec.max_replicas)
    target, rule, reason = wish.replicas, wish.rule, wish.reason
    if observation.replicas > spec.max_replicas and target == current:
        rule = ScalingRule.MAX_REPLICAS
        reason = f"maxReplicas is {spec.max_replicas}, and there are {observation.replicas}"
    recent = min(current, max(count for _, count in state.wanted))
    if target < recent:
        span = readable_duration(window(spec, state))
        reason = f"{wish.reason}; {workers(recent)} were wanted within the last {span}"
        target, rule = recent, ScalingRule.STABILIZING
    if target < current and _changed_within(state, now, _pause(spec, state, current, target)):
        target, rule = current, ScalingRule.STABILIZING
        reason = f"{wish.reason}; waiting, since the last change was recent"
    busy = min(current, observation.busy_workers)
    if target < busy:
        target, rule = busy, ScalingRule.BUSY_WORKERS
        reason = f"{wish.reason}; {workers(observation.busy_workers)} hold claims"
    step, period, last = spec.scale_down.max_step, spec.scale_down.period, None
    if step is not None and target < current:
        is_running = state.down is not None and now - state.down.since < period
        last = state.down if is_running and state.down is not None else StepPeriod(now, current)
        floor = min(current, max(current, last.replicas) - step)
        if target < floor:
            target, rule = floor, ScalingRule.STEP_DOWN
            reason = f"{wish.reason}; at most {step} fewer in {format_duration(period)}"
    return Decision(target, rule, reason, replace(state, down=last if last is not None else state.down))


def _pause(spec: ScalingSpec, state: ScalingState, current: int, target: int) -> float:
    """Seconds between the last change and this step down: the smaller the step, the longer."""
    if target <= current / 2:
        return 0.0
    is_small = current - target <= max(1, _SMALL_STEP * current)
    return window(spec, state) * (_SMALL_STEP_WINDOWS if is_small else 1)


def _changed_within(state: ScalingState, now: float, seconds: float) -> bool:
    return state.changed_at is not None and now - state.changed_at < seconds


def noted(
    wishes: tuple[tuple[float, int], ...], now: float, replicas: int, seconds: float
) -> tuple[tuple[float, int], ...]:
    """What was wanted in the window, with this: falling numbers, since a later and higher one hides an
    earlier one."""
    wishes_kept = [(at, count) for at, count in wishes if now - at < seconds and count > replicas]
    wishes_kept.append((now, replicas))
    # beyond that the oldest two become one that is at least as high and lasts at least as long
    while len(wishes_kept) > MOST_WANTED:
        wishes_kept[:2] = [(wishes_kept[1][0], wishes_kept[0][1])]
    return tuple(wishes_kept)


def workers(count: int) -> str:
    """``1 worker``, ``12 workers``."""
    return "1 worker" if count == 1 else f"{count} workers"
