"""The calculation of a decision: the estimates, and the number of workers by rule."""

from __future__ import annotations

import math
from typing import Any

from claimq_control.manifest.scaling_spec import ScalingSpec
from claimq_control.scaling.demand import Demand
from claimq_control.scaling.estimates import Estimates
from claimq_control.scaling.values import Decision, Estimate, Explanation, Observation

Json = dict[str, Any]


def explained(
    spec: ScalingSpec, observation: Observation, estimates: Estimates, need: Demand, workers: int
) -> Explanation:
    """The explanation of a decision. ``workers``: the number of workers before limits."""
    for_items = None if spec.items_per_replica is None else -(-observation.load // spec.items_per_replica)
    is_fast = need.rate != estimates.slow
    span = estimates.span / 4 if is_fast else estimates.span
    return Explanation(
        arrivals=Estimate(need.rate, math.sqrt(need.rate / (2 * span))),
        service=Estimate(need.service, need.service / math.sqrt(max(1.0, estimates.ended))),
        start=Estimate(estimates.start, math.sqrt(estimates.start_variance)),
        deadlines=need.fewest + need.more,
        balance=need.balance,
        items_per_replica=for_items,
        useful=need.most,
        wanted=workers,
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
    )


def document(decision: Decision, observation: Observation | None) -> Json:
    """The decision as JSON: ``status.scaling`` of a ReliableQueue, and what `claimq why` prints."""
    fields: Json = {"rule": decision.rule.value, "reason": decision.reason}
    if decision.replicas is not None:
        fields["replicas"] = decision.replicas
    if decision.limit is not None:
        fields |= {"limit": decision.limit.value, "needed": decision.needed}
    if observation is not None:
        fields["inputs"] = _inputs(observation)
        fields["estimates"] = decision.state.estimates.to_json()
    if decision.explanation is not None:
        fields["demand"] = _demand(decision.explanation)
    return fields


def _inputs(observation: Observation) -> Json:
    inputs: Json = {
        "main": observation.main,
        "busy": observation.busy,
        "delayedDue": observation.delayed_due,
        "replicas": observation.replicas,
        "ready": observation.ready,
        "starting": observation.starting,
        "busyWorkers": observation.busy_workers,
    }
    if observation.delayed_soon:
        inputs["delayedSoon"] = observation.delayed_soon
    if observation.oldest_age is not None:
        inputs["oldestAge"] = round(observation.oldest_age, 1)
    return inputs


def _demand(explanation: Explanation) -> Json:
    fields: Json = {}
    for name, estimate in (
        ("arrivalsPerSecond", explanation.arrivals),
        ("secondsPerItem", explanation.service),
        ("secondsToStart", explanation.start),
    ):
        fields |= {name: _rounded(estimate.value), f"{name}Error": _rounded(estimate.error)}
    fields |= {"forDeadlines": explanation.deadlines, "forArrivals": explanation.balance}
    if explanation.items_per_replica is not None:
        fields["forItemsPerReplica"] = explanation.items_per_replica
    return fields | {
        "mostUseful": explanation.useful,
        "wanted": explanation.wanted,
        "minReplicas": explanation.min_replicas,
        "maxReplicas": explanation.max_replicas,
    }


def _rounded(number: float) -> float:
    """Three significant digits, more only of a whole number, and at most six decimals, for people. The estimates that
    the next process reads have more."""
    return round(number) if number >= 999.5 else float(f"{round(number, 6):.3g}")
