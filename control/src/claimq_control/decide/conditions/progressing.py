"""Condition Progressing: whether items that wait are claimed. Pure."""

from __future__ import annotations

from claimq.model import Snapshot, State
from claimq_control.decide.conditions.condition import FALSE, TRUE, UNKNOWN, Condition, View
from claimq_control.decide.conditions.workers_available import ROLLOUT_BLOCKED, STARTING
from claimq_control.decide.standstill import limit_of, long_item, standstill, still_since
from claimq_process.duration import readable_duration

TYPE = "Progressing"
NO_PROGRESS = "NoProgress"
ITEM_MAY_HANG = "ItemMayHang"


def progressing(view: View, redis: Condition, workers: Condition, suspended: Condition) -> Condition:
    """False while the server cannot be used, and while items wait and nothing is claimed: at once if no worker can
    become ready, else after longer than items take. A queue that is paused or suspended does what its user asks. True
    with ``ItemMayHang`` while an item takes much longer than others and the queue has no ``processingTimeout``."""
    snapshot = view.observed.snapshot
    if snapshot is None or redis.status != TRUE:
        return Condition(TYPE, FALSE if redis.status == FALSE else UNKNOWN, redis.reason, redis.message)
    if suspended.status == TRUE:
        return Condition(TYPE, TRUE, suspended.reason, suspended.message)
    is_unavailable = workers.status != TRUE and workers.reason != STARTING
    is_blocked = workers.reason == ROLLOUT_BLOCKED and still_since(snapshot) is not None
    if (is_unavailable and snapshot.lengths[State.MAIN]) or is_blocked:
        return Condition(TYPE, FALSE, workers.reason, workers.message)
    drain = view.observed.workers.command("drain")
    if view.observed.workers.ready and (sentence := standstill(snapshot, drain) or _silence(view, snapshot)):
        return Condition(TYPE, FALSE, NO_PROGRESS, sentence)
    spec = view.observed.resource.spec
    if spec and spec.processing_timeout is None and (sentence := long_item(snapshot, drain)):
        return Condition(TYPE, TRUE, ITEM_MAY_HANG, sentence)
    return Condition(TYPE, TRUE, "Progressing", "no item waits for long while workers are ready")


def _silence(view: View, snapshot: Snapshot) -> str:
    """A sentence if workers are ready and none of them asks for the items that wait; else empty."""
    workers, since = view.observed.workers, snapshot.now - limit_of(snapshot)
    ready = [worker for worker in workers.live if worker.is_ready]
    is_new = any(max(worker.created_at, worker.ready_at) > since for worker in ready)
    is_heard = any(info.last_seen_at > since for info in view.observed.claims)
    if is_new or is_heard or snapshot.lengths[State.BUSY] or still_since(snapshot) is None:
        return ""
    return (
        f"no progress for over {readable_duration(limit_of(snapshot))}: items wait, and none of the {len(ready):,} "
        f"workers that are ready has asked for one; see the log of {ready[0].name}, then replace it: "
        f"{workers.command('drain')} {ready[0].name}"
    )
