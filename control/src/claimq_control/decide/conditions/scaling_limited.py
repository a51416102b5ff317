"""Condition ScalingLimited: whether a limit keeps workers from starting items within the target age. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import FALSE, NOT_OBSERVED, TRUE, UNKNOWN, Condition, View
from claimq_control.decide.conditions.progressing import NO_PROGRESS
from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Decision, Limit, ScalingRule
from claimq_process.duration import format_duration

TYPE = "ScalingLimited"
_OF_MAXIMUM = (Limit.MAX_REPLICAS.value, Limit.LONG_ITEMS.value)


def scaling_limited(view: View, progress: Condition) -> Condition:
    """True while no decision can meet the target; the message has the number of workers needed.

    Unknown while the queue cannot be observed. At the maximum it stays True until fewer workers are wanted: a queue
    near its limit reports it once. While workers hang or the queue is paused, more of them are no cure: it is False.
    """
    decision, spec = view.decision, view.observed.resource.spec
    if decision is not None and decision.rule is ScalingRule.UNKNOWN:
        message = "the queue could not be observed; see RedisReachable"
        return Condition(TYPE, UNKNOWN, NOT_OBSERVED, message)
    if progress.reason == NO_PROGRESS:
        message = "the workers that there are make no progress; see Progressing"
        return Condition(TYPE, FALSE, NO_PROGRESS, message)
    if decision is not None and spec is not None:
        if decision.limit is not None:
            return Condition(TYPE, TRUE, decision.limit.value, _message(decision, spec.scaling))
        is_at_most = (
            decision.replicas == spec.scaling.max_replicas and decision.rule is not ScalingRule.PAUSED
        )
        if is_at_most and (before := _limited_before(view)) is not None:
            return before
    return Condition(
        TYPE, FALSE, "NotLimited", "no limit keeps the number of workers below the number needed"
    )


def _limited_before(view: View) -> Condition | None:
    """The condition of the status, if it reports that the maximum is reached."""
    condition = view.condition_before(TYPE)
    reason = condition.get("reason")
    if condition.get("status") == TRUE and reason in _OF_MAXIMUM:
        return Condition(TYPE, TRUE, reason, str(condition.get("message", "")))
    return None


def _message(decision: Decision, scaling: ScalingSpec) -> str:
    target = format_duration(scaling.target_age)
    if decision.limit is Limit.SLOW_START:
        start = format_duration(round(decision.state.estimates.start))
        return (
            f"a worker takes {start} to start, longer than spec.scaling.targetAge ({target}): keep at least "
            f"{decision.needed} with spec.scaling.minReplicas, or make workers start faster"
        )
    long = ", and an item takes longer than that" if decision.limit is Limit.LONG_ITEMS else ""
    shorter = "make items shorter, " if decision.limit is Limit.LONG_ITEMS else ""
    return (
        f"{decision.needed} workers are needed to start every item within {target}{long}, but "
        f"spec.scaling.maxReplicas is {scaling.max_replicas}: raise it, {shorter}or accept a longer "
        "spec.scaling.targetAge"
    )
