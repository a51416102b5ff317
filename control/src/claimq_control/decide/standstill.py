"""Whether a queue stands still, or an item takes much longer than others. Pure.

A queue stands still while items wait, workers hold claims, and nothing is claimed or done.
"""

from __future__ import annotations

from claimq.limits import shown_limits
from claimq.model import Snapshot, State
from claimq.tokens import number_of
from claimq.waiting.texts import changes_text, instant_text
from claimq_process.names import pod_of_worker

LEAST_SECONDS = 60.0
"""A queue stands still after this time, or after the longest that an item took lately."""
FIRST_SECONDS = 600.0
"""The same while no item has ended and one is held: how long items take is not known yet. An item that is in progress
for less is never called long."""
_MUCH_LONGER = 3.0
"""An item may hang if it takes this many times the longest that an item took lately."""
_MOST_NAMED = 4
"""Workers beside the one with the oldest claim."""


def still_since(snapshot: Snapshot) -> float | None:
    """Since when nothing was claimed although items wait, if that is longer than items take; else None. A paused queue
    does not stand still, and items of paused clients do not count."""
    waited = snapshot.ages[State.MAIN]
    if not snapshot.claimable or waited is None:
        return None
    since = max(snapshot.now - waited, snapshot.moved_at or 0.0)
    return since if snapshot.now - since > limit_of(snapshot) else None


def limit_of(snapshot: Snapshot) -> float:
    """Seconds without a claim after which a queue whose items wait stands still."""
    has_ended = snapshot.counters["done"] or snapshot.counters["fails"] or not snapshot.lengths[State.BUSY]
    by_rate = 0.0 if snapshot.limits is None else snapshot.limits.longest_interval
    return max(LEAST_SECONDS if has_ended else FIRST_SECONDS, snapshot.longest) + by_rate


def standstill(snapshot: Snapshot, drain: str) -> str:
    """A sentence with the workers, the oldest item and the commands that help. Empty unless the queue stands still and
    claims are held. ``drain``: the command that replaces a worker, without the worker. The sentence has instants, not
    ages, so that it stays the same."""
    since, held_for = still_since(snapshot), snapshot.ages[State.BUSY] or 0.0
    if since is None or not snapshot.oldest_claim or held_for <= limit_of(snapshot):
        return ""
    claimer, claims = snapshot.oldest_claim.rpartition("/")[0], snapshot.lengths[State.BUSY]
    worker, *others = dict.fromkeys(_pod_or_worker(name) for name in (claimer, *sorted(snapshot.holders)))
    more = len(others) - _MOST_NAMED
    return (
        f"no progress since {instant_text(since)}: items wait, and {_claim_text(snapshot, worker)}"
        + (f", the first of {claims:,} in progress" if claims > 1 else "")
        + f"; {_advice(worker, drain)}"
        + ("; the same for the others with items: " if others else "")
        + "; ".join(f"{drain} {other}" for other in others[:_MOST_NAMED])
        + (f" and {more:,} more" if more > 0 else "")
    )


def long_item(snapshot: Snapshot, drain: str) -> str:
    """A sentence with the oldest item in progress, if it takes ten minutes and much longer than items took lately. Else
    empty. No other item has to wait for that. The sentence has an instant, as that of :func:`standstill`."""
    held_for = snapshot.ages[State.BUSY] or 0.0
    if not snapshot.oldest_claim or held_for <= max(FIRST_SECONDS, _MUCH_LONGER * snapshot.longest):
        return ""
    worker = _pod_or_worker(snapshot.oldest_claim.rpartition("/")[0])
    return (
        f"long item: {_claim_text(snapshot, worker)}, much longer than items take; {_advice(worker, drain)}; "
        "with processingTimeout set, the app of such an item is killed"
    )


def _claim_text(snapshot: Snapshot, worker: str) -> str:
    item = f"the item {snapshot.oldest_item}" if snapshot.oldest_item else "an item"
    return f"{worker} has held {item} since {instant_text(number_of(snapshot.oldest_claim) / 1e6)}"


def _advice(worker: str, drain: str) -> str:
    return f"see the log of {worker}, and if it hangs, replace it: {drain} {worker}"


def _pod_or_worker(name: str) -> str:
    return (pod_of_worker(name) or (name, ""))[0]


def held_back_note(snapshot: Snapshot) -> str:
    """That limits hold back what waits; empty if they do not."""
    now = snapshot.limits
    if now is None or now.startable or not snapshot.claimable:
        return ""
    holding = now.holding(snapshot.lengths[State.BUSY]) or now.limits
    note = f"items wait for the limits of the queue: {shown_limits(holding)}"
    note += changes_text(snapshot.temporary_limits, holding)
    if now.next_start_in is None or now.next_start_in < 1:
        return note
    return f"{note}; the next one may start at {instant_text(snapshot.now + now.next_start_in)}"
