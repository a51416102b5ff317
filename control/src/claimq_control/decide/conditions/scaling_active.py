"""Condition ScalingActive: whether the number of workers is set from the queue. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import FALSE, TRUE, UNKNOWN, Condition, View
from claimq_control.scaling import NOT_AUTO, ScalingRule

TYPE = "ScalingActive"
CONTESTED = "Contested"


def scaling_active(view: View) -> Condition:
    """True while the number of workers follows the queue; False in other modes or while the queue is unknown."""
    observed = view.observed
    if observed.resource.is_paused:
        message = (
            "the annotation claimq.dev/pause-reconcile stops changes of the workers; remove it to resume"
        )
        return Condition(TYPE, FALSE, "Paused", message)
    if view.decision is None:
        return Condition(TYPE, UNKNOWN, "SpecInvalid", "no decision: the spec is invalid, see Stalled")
    decision = view.decision
    if view.contested_by:
        status = FALSE if decision.rule in NOT_AUTO else TRUE
        return Condition(TYPE, status, CONTESTED, _contested(view))
    if decision.rule in NOT_AUTO:
        return Condition(TYPE, FALSE, decision.rule.value, f"{decision.reason}{_first_worker(view)}")
    # The rule and its numbers change with every item; they are in status.scaling.
    message = "the number of workers follows the queue; see status.scaling for the last decision"
    return Condition(TYPE, TRUE, "Auto", f"{message}{view.wait}")


def _contested(view: View) -> str:
    return (
        f'"{view.contested_by}" also sets the number of replicas of {view.observed.workers.place}, and the operator '
        "sets it back: delete that autoscaler, or let it decide with spec.scaling.mode: External"
    )


def _first_worker(view: View) -> str:
    """How to start the first worker in mode External: an HPA does not scale up from zero."""
    decision, workers = view.decision, view.observed.workers
    is_external = decision is not None and decision.rule is ScalingRule.EXTERNAL and decision.replicas is None
    return workers.first_worker if is_external and not workers.replicas else ""
