"""Balances the books of a queue: guarantee 12. Pure."""

from __future__ import annotations

from claimq.model import Snapshot, State

_LEAVING = ("done", "dropped", "failed_removed", "flushed")


def unaccounted(snapshot: Snapshot) -> int:
    """How many items are missing (positive), or are there although no call has added them (negative); 0 in order.

    The counters and lengths of a snapshot are of one instant, so nothing in flight is missing. Payloads that another
    client pushes are not counted before they have become items: as many as wait in main are taken for those.
    """
    counters, lengths = snapshot.counters, snapshot.lengths
    added = counters["enqueued"] + counters["adopted"]
    difference = added - sum(lengths.values()) - sum(counters[name] for name in _LEAVING)
    return min(difference + lengths[State.MAIN], 0) if difference < 0 else difference
