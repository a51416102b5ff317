"""Stalled: whether a person has to do something before this queue can get on."""

from __future__ import annotations

from claimq_operator.decide.conditions.finding import FALSE, TRUE, Finding, View

TYPE = "Stalled"


def stalled(view: View) -> Finding:
    """True for what no waiting mends: mistakes in the spec, a refusal of the API server, a server used wrongly."""
    observed = view.observed
    if observed.resource.problems:
        return Finding(
            TYPE, TRUE, "SpecInvalid", "; ".join(str(problem) for problem in observed.resource.problems)
        )
    for fault in (observed.redis_fault, observed.refusal):
        if fault is not None and fault.needs_person:
            return Finding(TYPE, TRUE, fault.reason, fault.message)
    if observed.full:
        return Finding(TYPE, TRUE, "Full", observed.full)
    return Finding(TYPE, FALSE, "NothingInTheWay", "nothing waits for a person")
