"""The calculation of a decision: the estimates, and the number of workers by rule."""

from __future__ import annotations

import math
from typing import Any

from claimq_control.manifest.scaling_spec import ScalingSpec
from claimq_control.scaling.demand import Demand
from claimq_control.scaling.estimates import Estimates
from claimq_control.scaling.values import Decision, Estimate, Explanation, Seen

Json = dict[str, Any]


def explained(spec: ScalingSpec, seen: Seen, estimates: Estimates, asked: Demand, wanted: int) -> Explanation:
    """The explanation of a decision. ``wanted``: the number of workers before limits."""
    for_items = None if spec.items_per_replica is None else -(-seen.load // spec.items_per_replica)
    is_fast = asked.rate != estimates.slow
    span = estimates.span / 4 if is_fast else estimates.span
    return Explanation(
        arrivals=Estimate(asked.rate, math.sqrt(asked.rate / (2 * span))),
        service=Estimate(asked.service, asked.service / math.sqrt(max(1.0, estimates.ended))),
        start=Estimate(estimates.start, math.sqrt(estimates.start_variance)),
        deadlines=asked.fewest + asked.more,
        balance=asked.balance,
        items_per_replica=for_items,
        useful=asked.most,
        wanted=wanted,
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
    )


def document(decision: Decision, seen: Seen | None) -> Json:
    """The decision as JSON: ``status.scaling`` of a ReliableQueue, and what `claimq why` prints."""
    found: Json = {"rule": decision.rule.value, "reason": decision.reason}
    if decision.replicas is not None:
        found["replicas"] = decision.replicas
    if decision.limit is not None:
        found |= {"limit": decision.limit.value, "needed": decision.needed}
    if seen is not None:
        found["inputs"] = _inputs(seen)
        found["estimates"] = decision.state.estimates.to_json()
    if decision.explanation is not None:
        found["demand"] = _demand(decision.explanation)
    return found


def _inputs(seen: Seen) -> Json:
    inputs: Json = {
        "main": seen.main,
        "busy": seen.busy,
        "delayedDue": seen.delayed_due,
        "replicas": seen.replicas,
        "ready": seen.ready,
        "starting": seen.starting,
        "busyWorkers": seen.busy_workers,
    }
    if seen.delayed_soon:
        inputs["delayedSoon"] = seen.delayed_soon
    if seen.oldest_age is not None:
        inputs["oldestAge"] = round(seen.oldest_age, 1)
    return inputs


def _demand(explanation: Explanation) -> Json:
    found: Json = {}
    for name, one in (
        ("arrivalsPerSecond", explanation.arrivals),
        ("secondsPerItem", explanation.service),
        ("secondsToStart", explanation.start),
    ):
        found |= {name: _rounded(one.value), f"{name}Error": _rounded(one.error)}
    found |= {"forDeadlines": explanation.deadlines, "forArrivals": explanation.balance}
    if explanation.items_per_replica is not None:
        found["forItemsPerReplica"] = explanation.items_per_replica
    return found | {
        "mostUseful": explanation.useful,
        "wanted": explanation.wanted,
        "minReplicas": explanation.min_replicas,
        "maxReplicas": explanation.max_replicas,
    }


def _rounded(value: float) -> float:
    """Three significant digits, for people; the estimates that the next process reads have more."""
    return float(f"{value:.3g}")
