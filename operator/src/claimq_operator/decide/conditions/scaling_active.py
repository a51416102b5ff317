"""ScalingActive: whether the operator decides on the number of workers, and can."""

from __future__ import annotations

from claimq_operator.decide.conditions.finding import FALSE, TRUE, UNKNOWN, Finding, View
from claimq_operator.kubernetes_api.labels import child_name
from claimq_spec.scaling import ScalingRule

TYPE = "ScalingActive"
_BY_OTHERS = (ScalingRule.MANUAL, ScalingRule.EXTERNAL, ScalingRule.SUSPENDED)


def scaling_active(view: View) -> Finding:
    """True while numbers are decided from the queue; False when somebody else decides, or the queue is unknown."""
    observed = view.observed
    if observed.resource.is_paused:
        said = "the pause annotation keeps the operator's hands off the workers; remove it to go on"
        return Finding(TYPE, FALSE, "Paused", said)
    if view.decision is None:
        return Finding(TYPE, UNKNOWN, "SpecInvalid", "no decision: the spec has mistakes, see Stalled")
    decision = view.decision
    if decision.rule in _BY_OTHERS or decision.rule is ScalingRule.UNKNOWN:
        return Finding(TYPE, FALSE, decision.rule.value, f"{decision.reason}{_how_to_begin(view)}")
    # The rule and its numbers change with every item; they are in status.scaling.
    return Finding(
        TYPE, TRUE, "Auto", "the number of workers follows the queue; status.scaling has the last decision"
    )


def _how_to_begin(view: View) -> str:
    """Where nobody would: an HPA takes zero for a wish, and after a suspension nobody remembers the number."""
    decision, observed = view.decision, view.observed
    if decision is None or decision.rule is not ScalingRule.EXTERNAL:
        return ""
    if decision.replicas is not None or observed.replicas:
        return ""
    name, namespace = child_name(observed.resource.name), observed.resource.namespace
    order = f"kubectl scale deployment {name} --namespace={namespace} --replicas=1"
    return f"; there is none now, and an HPA does not begin at zero: `{order}` orders a first one"
