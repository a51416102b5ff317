"""The scaling decision: settings, observation and state give a number of workers and the next state."""

from __future__ import annotations

import math
from dataclasses import replace

from claimq_control.manifest.scaling_spec import ScalingMode, ScalingSpec
from claimq_control.scaling.demand import Demand, demand
from claimq_control.scaling.estimates import Estimates
from claimq_control.scaling.explanation import explained
from claimq_control.scaling.limits import Wish, down, idle_after, noted, up, window, within_bounds, workers
from claimq_control.scaling.values import Decision, Limit, Observation, ScalingRule, ScalingState
from claimq_process.duration import format_duration, readable_duration
from claimq_process.rounded import rounded

LONGEST_GAP = 60.0
"""If more seconds than this lie between two decisions, the state of the first is not used."""
_DOUBTED = 1.2
"""The reason shows the doubt about the service time from this value on."""
_FEW_CLAIMED = 0.5
"""The reason names busy keys if fewer of the items that leave main are claimed."""
_KNOWN = 10
"""Number of ended claims that replace the assumed service time. Workers that were ordered for the assumed time are
then not kept for a window."""
_SPARE_AGE = 0.2
"""Share of the target after which a second worker is ordered if the first may start too late."""


def decide(spec: ScalingSpec, observation: Observation | None, state: ScalingState, now: float) -> Decision:
    """How many workers there should be now.

    ``observation`` is None when the queue or its workers could not be observed: then nothing changes. ``now`` is
    in seconds of any clock that does not go back while the process runs; if it does go back, the instants in the
    state are ignored. A change of max, ``suspend`` or a lower number in the mode Manual removes workers even while
    they hold claims (they drain first); nothing else does.
    """
    fixed = _fixed(spec, observation)
    if fixed is not None:
        return Decision(*fixed, ScalingState(estimates=state.estimates))
    if observation is None:
        unknown = replace(state, seen_at=None, idle_since=None, wanted=())
        reason = "the queue could not be observed; the workers stay as they are"
        return Decision(None, ScalingRule.UNKNOWN, reason, unknown)
    is_new = state.seen_at is None and not state.estimates.ended
    state = replace(state, estimates=state.estimates.after_claims(observation.claimed, observation.held))
    free = replace(observation, main=math.ceil(observation.main * state.estimates.claimed_share))
    state = _remembered(spec, free, state, now)
    need = demand(spec.target_age, free, state.estimates)
    unbounded = _wanted(spec, observation, state, now, need, is_new=is_new)
    decision = _decided(spec, observation, state, now, need, unbounded)
    explanation = explained(spec, observation, state.estimates, need, unbounded.replicas)
    return replace(decision, explanation=explanation)


def _decided(
    spec: ScalingSpec,
    observation: Observation,
    state: ScalingState,
    now: float,
    need: Demand,
    unbounded: Wish,
) -> Decision:
    """The result of the rules within the bounds, the steps and the windows."""
    if _may_go_to_zero(spec, state, now):
        reason = f"idle for {readable_duration(idle_after(spec, state))} or longer"
        return Decision(0, ScalingRule.IDLE, reason, state)
    wish = within_bounds(spec, unbounded)
    state = replace(state, wanted=noted(state.wanted, now, wish.replicas, window(spec, state)))
    move = up if wish.replicas > observation.replicas else down
    decision = _with_limit(spec, observation, move(spec, observation, state, now, wish), unbounded, need)
    if decision.replicas == observation.replicas:
        return decision
    return replace(decision, state=replace(decision.state, changed_at=now))


def _fixed(spec: ScalingSpec, observation: Observation | None) -> tuple[int | None, ScalingRule, str] | None:
    """The number in the modes in which the queue does not determine it: suspended, Manual, External."""
    if spec.suspended:
        return 0, ScalingRule.SUSPENDED, "suspend is true: no claims, no workers"
    if spec.mode is ScalingMode.MANUAL:
        reason = f"mode is Manual: {workers(spec.replicas or 0)}, as replicas says"
        return spec.replicas, ScalingRule.MANUAL, reason
    if spec.mode is ScalingMode.EXTERNAL:
        number, reason = _external(spec.replicas, observation)
        return number, ScalingRule.EXTERNAL, reason
    return None


def _external(replicas: int | None, observation: Observation | None) -> tuple[int | None, str]:
    """The number that an autoscaler has set, and the reason. It sees the items that wait and not those in progress, so
    workers that hold claims stay until they have ended."""
    if replicas is None:
        return None, "mode is External: the number of workers is left alone"
    reason = f"mode is External: {workers(replicas)}, as the scale of this queue was set"
    if observation is None:
        return None, f"{reason}; the queue could not be observed, so the workers stay as they are"
    busy = min(observation.busy_workers, observation.replicas)
    if busy > replicas:
        return busy, f"{reason}; {workers(busy)} hold claims"
    return replicas, reason


def _remembered(spec: ScalingSpec, observation: Observation, state: ScalingState, now: float) -> ScalingState:
    """The state with this observation. After a gap or a step back of the clock it begins with what is there
    now."""
    last = state.seen_at
    if last is not None and now < last:
        state, last = ScalingState(estimates=replace(state.estimates, at=None, arrivals=())), None
    if last is None or now - last > max(LONGEST_GAP, window(spec, state)):
        state = replace(state, idle_since=None, wanted=((now, observation.replicas),))
    estimates = state.estimates.after(
        now,
        main=observation.waiting,
        busy=observation.busy,
        claimed=observation.claimed,
        ready=observation.ready,
        starting_for=observation.starting_for,
        horizon=spec.target_age,
    )
    is_used = (
        observation.load > 0 or observation.busy_workers > 0 or estimates.claimed != state.estimates.claimed
    )
    is_idle = not is_used and not _is_due_soon(observation, estimates)
    if state.changed_at is not None and state.estimates.ended < _KNOWN <= estimates.ended:
        state = replace(state, wanted=(), changed_at=None)
    idle_since = (now if state.idle_since is None else state.idle_since) if is_idle else None
    return replace(state, seen_at=now, idle_since=idle_since, estimates=estimates)


def _wanted(
    spec: ScalingSpec,
    observation: Observation,
    state: ScalingState,
    now: float,
    need: Demand,
    *,
    is_new: bool,
) -> Wish:
    """The number of workers for the items, before bounds, window and steps: the larger of the two rules."""
    if state.idle_since is not None:
        if observation.replicas == 0 or spec.min_replicas > 0:
            return Wish(0, ScalingRule.IDLE, "idle: no item and no claim")
        remaining = readable_duration(idle_after(spec, state) - (now - state.idle_since))
        reason = f"idle; scales to 0 in {remaining}"
        return Wish(1, ScalingRule.IDLE_WAIT, reason)
    if observation.is_paused:
        reason = f"the queue is paused; {_items(observation)}"
        return Wish(max(1, observation.replicas), ScalingRule.PAUSED, reason)
    for_target = _for_target(spec, observation, state.estimates, need)
    wishes = [_careful(observation, for_target) if is_new else for_target]
    if spec.items_per_replica is not None:
        enough = -(-observation.load // spec.items_per_replica)
        reason = f"{_items(observation)} at {spec.items_per_replica} per worker need {workers(enough)}"
        if observation.limits is not None:
            enough = min(enough, max(1, need.most))
        if not observation.waiting:  # items in progress already have a worker, even if it is stopping
            enough = min(enough, observation.replicas)
        wishes.insert(0, Wish(enough, ScalingRule.ITEMS_PER_REPLICA, reason))
    wish = max(wishes, key=lambda wish: wish.replicas)
    is_due = _is_due_soon(observation, state.estimates)
    if observation.replicas == 0 and wish.replicas <= 1 and (observation.waiting or is_due):
        return Wish(1, ScalingRule.FROM_ZERO, f"{_items(observation)} and no worker; starting 1")
    return wish


def _careful(observation: Observation, wish: Wish) -> Wish:
    """The first decision with workers that another process ordered, before any estimate of the items."""
    most = 2 * observation.replicas
    if wish.rule is not ScalingRule.TARGET_AGE or observation.replicas == 0 or wish.replicas <= most:
        return wish
    reason = f"{wish.reason}; at most twice as many until a service time is known"
    return replace(wish, replicas=most, reason=reason)


def _is_due_soon(observation: Observation, estimates: Estimates) -> bool:
    """Whether a delayed item becomes due before a worker that is ordered now could claim it."""
    return observation.delayed_soon > 0 or (
        observation.next_due_in is not None and observation.next_due_in <= estimates.slow_start
    )


def _for_target(spec: ScalingSpec, observation: Observation, estimates: Estimates, need: Demand) -> Wish:
    """The workers that start every item within the target."""
    if (
        not observation.waiting
        and not observation.delayed_soon
        and observation.replicas <= observation.busy_workers
    ):
        return Wish(observation.replicas, ScalingRule.WORK_LEFT, f"no item waits; {_items(observation)}")
    count = need.replicas
    if not observation.waiting and not observation.delayed_soon:  # nothing to start: no reason to add workers
        count = min(count, observation.replicas)
    old = (
        ""
        if observation.oldest_age is None
        else f", the oldest {readable_duration(observation.oldest_age)} old"
    )
    takes = readable_duration(need.service)
    if need.more and estimates.doubt >= _DOUBTED:
        takes += f" (maybe {readable_duration(need.service * estimates.doubt)}: that was learned long ago)"
    reason = (
        f"{_items(observation)}{old}; {rounded(need.rate)} arrive per second, an item takes {takes}: "
        f"{workers(max(1, count))} for the target of {format_duration(spec.target_age)}"
    )
    if estimates.claimed_share < _FEW_CLAIMED:
        reason += ", since most of these items wait for their keys"
    if need.is_limited:
        reason += ", as many as the limits of the queue let work"
    if _needs_spare(spec, observation, estimates):
        longest = readable_duration(estimates.start + 2.5 * math.sqrt(estimates.start_variance))
        reason += f"; 2, since a worker may take {longest} to start"
        return Wish(max(2, count), ScalingRule.TARGET_AGE, reason)
    return Wish(max(1, count), ScalingRule.TARGET_AGE, reason, need.patience)


def _needs_spare(spec: ScalingSpec, observation: Observation, estimates: Estimates) -> bool:
    """Whether the oldest item waits for the only worker to start, whose start may take too long. It does in one start
    of a hundred."""
    is_old = (observation.oldest_age or 0.0) >= _SPARE_AGE * spec.target_age
    is_single = observation.ready == 0 and 1 <= observation.replicas <= 2
    return is_old and is_single and estimates.may_start_late(spec.target_age)


def _may_go_to_zero(spec: ScalingSpec, state: ScalingState, now: float) -> bool:
    is_idle = state.idle_since is not None and now - state.idle_since >= idle_after(spec, state)
    return spec.min_replicas == 0 and is_idle


def _with_limit(
    spec: ScalingSpec, observation: Observation, decision: Decision, unbounded: Wish, need: Demand
) -> Decision:
    """The decision with the reason why the target cannot be met, if it cannot."""
    is_by_items = unbounded.rule in (ScalingRule.TARGET_AGE, ScalingRule.ITEMS_PER_REPLICA)
    if (
        is_by_items
        and (observation.waiting or observation.delayed_soon)
        and need.replicas > spec.max_replicas
    ):
        limit = Limit.LONG_ITEMS if need.service > spec.target_age else Limit.MAX_REPLICAS
        return replace(decision, limit=limit, needed=need.replicas)
    start = decision.state.estimates
    if start.starts >= 1 and start.start > spec.target_age and spec.min_replicas == 0:
        return replace(decision, limit=Limit.SLOW_START, needed=max(1, need.balance))
    return decision


def _items(observation: Observation) -> str:
    parts: list[str] = []
    if observation.waiting:
        parts.append(f"{observation.waiting:,} {'item' if observation.waiting == 1 else 'items'} waiting")
    if observation.delayed_soon:
        parts.append(f"{observation.delayed_soon:,} due soon")
    return ", ".join([*parts, f"{observation.busy:,} in progress"])
