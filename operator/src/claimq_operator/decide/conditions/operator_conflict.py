"""Condition OperatorConflict: whether several releases of the operator serve the queue's namespace. Pure."""

from __future__ import annotations

from claimq_kubernetes.labels import NAMESPACE_LEASE
from claimq_operator.decide.conditions.condition import TRUE, Condition, View

TYPE = "OperatorConflict"


def operator_conflict(view: View) -> Condition | None:
    """True while other releases stand by; None, so that the status has no such condition, while there are none."""
    others, resource = view.observed.standing_by, view.observed.resource
    if not others:
        return None
    where = f"--namespace={resource.namespace} --type=merge"
    change = f'{{"spec":{{"holderIdentity":"{others[0]}"}}}}'
    message = (
        f"the release {', '.join(others)} of the operator also serves the namespace {resource.namespace} and stands "
        "by; let only one of them serve it (operator.namespaces in the chart), or hand over with "
        f"`kubectl patch lease {NAMESPACE_LEASE} {where} --patch='{change}'`"
    )
    return Condition(TYPE, TRUE, "OthersStandBy", message)
