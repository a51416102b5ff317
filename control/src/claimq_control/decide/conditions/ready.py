"""Condition Ready: whether the queue works as its manifest asks; a summary of the other conditions. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import FALSE, TRUE, UNKNOWN, Condition
from claimq_control.decide.conditions.progressing import NO_PROGRESS
from claimq_control.decide.conditions.workers_available import ROLLOUT_BLOCKED, STARTING

TYPE = "Ready"


def ready(
    redis: Condition,
    workers: Condition,
    stalled: Condition,
    suspended: Condition,
    progress: Condition,
    conflict: Condition | None = None,
    bound: Condition | None = None,
) -> Condition:
    """True when the server is reachable and the desired workers are ready or starting; else the first cause.

    A suspended or paused queue does what its user asks, so it is Ready, with that reason. Tools for GitOps would wait
    for a queue that is not Ready.
    """
    if stalled.status == TRUE:
        return Condition(TYPE, FALSE, stalled.reason, stalled.message)
    if redis.status != TRUE:
        return Condition(TYPE, FALSE if redis.status == FALSE else UNKNOWN, redis.reason, redis.message)
    if suspended.status == TRUE:
        return Condition(TYPE, TRUE, suspended.reason, suspended.message)
    if workers.reason == STARTING:
        return Condition(TYPE, TRUE, "WorkersStarting", workers.message)
    if workers.status != TRUE:
        return Condition(TYPE, FALSE, workers.reason, workers.message)
    if workers.reason == ROLLOUT_BLOCKED:
        return Condition(TYPE, TRUE, ROLLOUT_BLOCKED, workers.message)
    if progress.reason == NO_PROGRESS:
        return Condition(TYPE, TRUE, NO_PROGRESS, progress.message)
    if bound is not None:
        return Condition(TYPE, TRUE, bound.reason, bound.message)
    if conflict is not None:
        return Condition(TYPE, TRUE, conflict.type, conflict.message)
    return Condition(TYPE, TRUE, "Working", "the server is reachable and the desired workers are available")
