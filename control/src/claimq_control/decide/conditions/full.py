"""Condition Full: whether about as much waits as spec.maxWaiting allows. Pure."""

from __future__ import annotations

from claimq.model import State
from claimq_control.decide.conditions.condition import TRUE, Condition, View
from claimq_process.size import format_size

TYPE = "Full"
NEAR = 0.9
"""The share of the bound from which on calls that add several items may be refused."""
_UNTIL = 0.8


def full(view: View) -> Condition | None:
    """True from 90 % of a bound on, until less than 80 % of it waits. None, so that the status has no such condition,
    otherwise and without a bound."""
    spec, snapshot = view.observed.resource.spec, view.observed.snapshot
    if spec is None or snapshot is None:
        return None
    share = _UNTIL if view.condition_before(TYPE) else NEAR
    bound, items = spec.max_waiting, snapshot.lengths[State.MAIN] + snapshot.lengths[State.DELAYED]
    if bound.items is not None and items >= share * bound.items:
        words, field = "items", f"items: {bound.items:,}"
    elif bound.bytes is not None and (snapshot.waiting_bytes or 0) >= share * bound.bytes:
        words, field = "bytes", f"bytes: {format_size(bound.bytes)}"
    else:
        return None
    message = (
        f"about as many {words} wait as may (spec.maxWaiting.{field}), so new ones are refused with QueueFull: "
        "add workers, slow the producers, or raise the bound"
    )
    return Condition(TYPE, TRUE, "MaxWaiting", message)
