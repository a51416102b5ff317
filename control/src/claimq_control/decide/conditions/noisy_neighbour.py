"""Condition NoisyNeighbour: whether a client takes many slots while others wait. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import TRUE, Condition, View
from claimq_control.decide.neighbours_note import neighbours_note
from claimq_process.timestamps import parse_time

TYPE = "NoisyNeighbour"
REASON = "ClientTakesSlots"
_LEAST_SECONDS = 60.0


def noisy_neighbour(view: View) -> Condition | None:
    """True while the snapshot names such clients, and for a minute at least: each change of a condition is a write to
    the API server. Otherwise None, so that the status has no such condition."""
    snapshot, workers = view.observed.snapshot, view.observed.workers
    if snapshot is None:
        return None
    if note := neighbours_note(snapshot, workers.command("limits")):
        return Condition(TYPE, TRUE, REASON, note)
    before = view.condition_before(TYPE)
    since = parse_time(before.get("lastTransitionTime"))
    if since is not None and 0 <= snapshot.now - since < _LEAST_SECONDS:
        return Condition(TYPE, TRUE, REASON, before["message"])
    return None
