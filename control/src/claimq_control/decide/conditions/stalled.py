"""Condition Stalled: whether the queue makes no progress until a user acts. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import FALSE, TRUE, Condition, View

TYPE = "Stalled"


def stalled(view: View) -> Condition:
    """True for problems that retrying does not solve: an invalid spec, a rejected child, a misconfigured server."""
    observed = view.observed
    if observed.resource.problems:
        problems = "; ".join(str(problem) for problem in observed.resource.problems)
        return Condition(TYPE, TRUE, "SpecInvalid", problems)
    for fault in (observed.redis_fault, observed.workers.refusal):
        if fault is not None and fault.needs_action:
            return Condition(TYPE, TRUE, fault.reason, fault.message)
    if observed.full:
        return Condition(TYPE, TRUE, "Full", observed.full)
    return Condition(TYPE, FALSE, "NotStalled", "no action required")
