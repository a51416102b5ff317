"""ScalingLimited: whether something keeps the workers from starting items within the target."""

from __future__ import annotations

from claimq_operator.decide.conditions.finding import FALSE, TRUE, Finding, View
from claimq_spec.duration import format_duration
from claimq_spec.scaling import Limit

TYPE = "ScalingLimited"


def scaling_limited(view: View) -> Finding:
    """True while the target cannot be met whatever the operator decides; the message has the number it
    would take."""
    decision, spec = view.decision, view.observed.resource.spec
    if decision is None or spec is None or decision.limit is None:
        return Finding(
            TYPE, FALSE, "NotLimited", "nothing limits the number of workers below what the target needs"
        )
    scaling, target = spec.scaling, format_duration(spec.scaling.target_age)
    if decision.limit is Limit.MAX_REPLICAS:
        message = (
            f"{decision.needed} workers would start every item within {target}, and spec.scaling.maxReplicas is "
            f"{scaling.max_replicas}: raise it, or accept a longer spec.scaling.targetAge"
        )
        return Finding(TYPE, TRUE, decision.limit.value, message)
    start = format_duration(round(decision.state.estimates.start))
    message = (
        f"a worker takes {start} to start, longer than spec.scaling.targetAge ({target}): keep "
        f"{decision.needed} or more with spec.scaling.minReplicas, or make the worker start faster"
    )
    return Finding(TYPE, TRUE, decision.limit.value, message)
