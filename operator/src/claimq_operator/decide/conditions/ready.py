"""Ready: the others in one: whether the queue does what its manifest asks."""

from __future__ import annotations

from claimq_operator.decide.conditions.finding import FALSE, TRUE, UNKNOWN, Finding
from claimq_operator.decide.conditions.workers_available import ROLLOUT_BLOCKED, STARTING

TYPE = "Ready"


def ready(redis: Finding, workers: Finding, stalled: Finding, suspended: Finding) -> Finding:
    """True when the server answers and workers are there (or on their way) where some are wanted; else why not."""
    if stalled.status == TRUE:
        return Finding(TYPE, FALSE, stalled.reason, stalled.message)
    if redis.status != TRUE:
        return Finding(TYPE, FALSE if redis.status == FALSE else UNKNOWN, redis.reason, redis.message)
    if suspended.status == TRUE:
        return Finding(TYPE, FALSE, suspended.reason, suspended.message)
    if workers.reason == STARTING:
        return Finding(TYPE, TRUE, "WorkersStarting", workers.message)
    if workers.status != TRUE:
        return Finding(TYPE, FALSE, workers.reason, workers.message)
    if workers.reason == ROLLOUT_BLOCKED:
        return Finding(TYPE, TRUE, ROLLOUT_BLOCKED, workers.message)
    return Finding(TYPE, TRUE, "Working", "the server answers and there are workers where some are wanted")
