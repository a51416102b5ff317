"""Condition ScalingLimited: whether a limit keeps workers from starting items within the target age. Pure."""

from __future__ import annotations

from claimq_operator.decide.conditions.condition import FALSE, TRUE, Condition, View
from claimq_spec.duration import format_duration
from claimq_spec.scaling import Limit

TYPE = "ScalingLimited"


def scaling_limited(view: View) -> Condition:
    """True while no decision of the operator can meet the target; the message has the number of workers needed."""
    decision, spec = view.decision, view.observed.resource.spec
    if decision is None or spec is None or decision.limit is None:
        return Condition(
            TYPE, FALSE, "NotLimited", "no limit keeps the number of workers below the number needed"
        )
    scaling, target = spec.scaling, format_duration(spec.scaling.target_age)
    if decision.limit is Limit.MAX_REPLICAS:
        message = (
            f"{decision.needed} workers are needed to start every item within {target}, but spec.scaling.maxReplicas "
            f"is {scaling.max_replicas}: raise it, or accept a longer spec.scaling.targetAge"
        )
        return Condition(TYPE, TRUE, decision.limit.value, message)
    start = format_duration(round(decision.state.estimates.start))
    message = (
        f"a worker takes {start} to start, longer than spec.scaling.targetAge ({target}): keep at least "
        f"{decision.needed} with spec.scaling.minReplicas, or make workers start faster"
    )
    return Condition(TYPE, TRUE, decision.limit.value, message)
