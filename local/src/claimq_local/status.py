"""The status of a queue in local mode, as far as its metrics need it: the conditions of a ReliableQueue without their
messages, and the warnings of the server. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from claimq.model import ServerReport, Snapshot
from claimq_control.manifest import QueueSpec
from claimq_control.scaling import NOT_AUTO, Decision, Limit, ScalingRule
from claimq_local.plan import WorkerSeen

_OF_MAXIMUM = (Limit.MAX_REPLICAS, Limit.LONG_ITEMS)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a pass over a queue observed and decided. ``workers``: those that do not drain.

    ``snapshot`` is None while the server cannot be used; ``is_misused``: because of its data or its settings.
    ``now``: monotonic seconds.
    """

    spec: QueueSpec
    snapshot: Snapshot | None
    decision: Decision
    workers: Sequence[WorkerSeen]
    now: float
    limit: Limit | None = None
    report: ServerReport | None = None
    is_misused: bool = False

    @property
    def worker_counts(self) -> dict[str, int]:
        """Workers by kind, as the status of a ReliableQueue has them."""
        wanted = self.decision.replicas
        return {
            "desired": len(self.workers) if wanted is None else wanted,
            "ready": sum(one.is_ready for one in self.workers),
            "busy": sum(one.busy > 0 for one in self.workers),
        }


def lasting_limit(decision: Decision, before: Limit | None, most: int) -> Limit | None:
    """The limit that a queue has after a decision. At the maximum (``most`` workers) the one of ``before`` stays until
    fewer are wanted: a queue near its limit reports it once."""
    if decision.limit is not None:
        return decision.limit
    return before if before in _OF_MAXIMUM and decision.replicas == most else None


def status(seen: Observation) -> dict[str, Any]:
    """``conditions`` and ``redis`` of the status that the operator would write."""
    warnings = () if seen.report is None else seen.report.warnings
    return {
        "conditions": [
            {"type": name, "status": "Unknown" if value is None else str(value)}
            for name, value in _conditions(seen).items()
        ],
        "redis": {"warnings": [f"{one.code}: {one.message}" for one in warnings]},
    }


def _conditions(seen: Observation) -> dict[str, bool | None]:
    """The state of each condition by its type; None: unknown while the server cannot be used."""
    is_reachable = seen.snapshot is not None
    warnings = () if seen.report is None or not is_reachable else seen.report.warnings
    is_stalled = seen.is_misused or any(one.code == "Full" for one in warnings)
    is_suspended = seen.spec.suspend or (None if seen.snapshot is None else seen.snapshot.paused)
    counts = seen.worker_counts
    has_workers = counts["desired"] == 0 or counts["ready"] > 0
    is_failing = any(one.waits_to_restart(seen.now) for one in seen.workers)
    return {
        "Ready": is_reachable and not is_stalled and (is_suspended or has_workers or not is_failing),
        "RedisReachable": is_reachable,
        "WorkersAvailable": has_workers,
        "ScalingActive": seen.decision.rule not in NOT_AUTO,
        "ScalingLimited": None if seen.decision.rule is ScalingRule.UNKNOWN else seen.limit is not None,
        "Stalled": is_stalled,
        "Suspended": is_suspended,
    }
