"""Condition OperatorConflict: whether several operators serve the queue. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import TRUE, Condition, View

TYPE = "OperatorConflict"


def operator_conflict(view: View) -> Condition | None:
    """True while others stand by; None, so that the status has no such condition, while there are none."""
    message = view.observed.workers.conflict
    return Condition(TYPE, TRUE, "OthersStandBy", message) if message else None
