"""Prometheus metrics of queues. The operator and local mode export the same ones, so alerts and dashboards fit both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from claimq.model import COUNTERS, Snapshot, State
from claimq_spec.scaling import Decision

CONTENT_TYPE = CONTENT_TYPE_LATEST
QueueKey = tuple[str, str]
"""The labels of a queue: namespace and name of its ReliableQueue."""
QUEUE_LABELS = ("namespace", "name")
_ATTEMPTS = ("fails", "crashes", "expired")
"""Counters that are exported as failed attempts, by reason; the others are exported under their own names."""
_ATTEMPT_FAILED = "attempt_failed"
_OF_EVERY_REPLICATED_SERVER = "AsynchronousReplication: "
"""Beginning of the warning that no setting ends; an alert on it would never end either."""
_nan = float("nan")
_RULES = {"deadlines": "deadlines", "balance": "arrivals", "items_per_replica": "items_per_replica"}
"""Fields of an explanation, and the rules under which they are exported."""
_CONDITION_VALUES = {"True": 1.0, "False": 0.0, "Unknown": _nan}

disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client has no types for it


class QueueMetrics:
    """The metrics of queues, in a registry of their own. All labels are bounded: the series of a queue are removed with
    it, and other labels have fixed sets of values."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._per_queue: list[Gauge | Counter] = []
        self.items = self._gauge("claimq_queue_items", "Items by state.", "state")
        self.age = self._gauge(
            "claimq_queue_oldest_age_seconds", "Age of the oldest item, by state.", "state"
        )
        self._transitions = _Transitions()
        self.registry.register(self._transitions)
        self.workers = self._gauge("claimq_queue_workers", "Workers, by kind: desired, ready, busy.", "kind")
        self.reachable = self._gauge(
            "claimq_queue_redis_reachable", "1 while the queue's server is reachable, else 0."
        )
        self.decisions = self._counter(
            "claimq_scaling_decisions_total", "Scaling decisions, by rule.", "rule"
        )
        self._of_scaling()
        self.released = self._counter(
            "claimq_claims_given_back_total", "Claims of terminated containers that were returned.", "reason"
        )
        self._of_the_status()

    def _of_scaling(self) -> None:
        self.arrivals = self._gauge(
            "claimq_scaling_arrivals_per_second", "Estimated items that arrive per second."
        )
        self.service = self._gauge("claimq_scaling_service_seconds", "Estimated seconds that an item takes.")
        self.start = self._gauge(
            "claimq_scaling_start_seconds", "Estimated seconds until a new worker claims its first item."
        )
        self.wanted = self._gauge(
            "claimq_scaling_wanted_workers",
            "Workers that a rule of the scaling asks for: deadlines, arrivals, items_per_replica.",
            "rule",
        )
        self.needed = self._gauge(
            "claimq_scaling_needed_workers",
            "Workers that would meet the target; 0 while no limit keeps the queue from having them.",
        )

    def _of_the_status(self) -> None:
        self.conditions = self._gauge(
            "claimq_queue_condition",
            "1 while the condition is True, 0 while it is False, NaN while it is Unknown.",
            "condition",
        )
        self.redis_warnings = self._gauge(
            "claimq_queue_redis_warnings",
            "Settings of the queue's server that weaken the guarantees; replication is not counted.",
        )
        self.target_age = self._gauge(
            "claimq_queue_target_age_seconds", "The target of spec.scaling.targetAge."
        )

    def _gauge(self, name: str, doc: str, *labels: str) -> Gauge:
        made = Gauge(name, doc, (*QUEUE_LABELS, *labels), registry=self.registry)
        self._per_queue.append(made)
        return made

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        made = Counter(name, doc, (*QUEUE_LABELS, *labels), registry=self.registry)
        self._per_queue.append(made)
        return made

    def set_queue(self, key: QueueKey, snapshot: Snapshot | None, workers: Mapping[str, int]) -> None:
        """Sets the gauges of a queue. Without a snapshot, items and ages are NaN."""
        self.reachable.labels(*key).set(snapshot is not None)
        for kind, count in workers.items():
            self.workers.labels(*key, kind).set(count)
        for state in State:
            age = None if snapshot is None else snapshot.ages[state]
            self.items.labels(*key, state.value).set(_nan if snapshot is None else snapshot.lengths[state])
            self.age.labels(*key, state.value).set(_nan if snapshot is None else age or 0.0)
        if snapshot is not None:
            self._transitions.counts[key] = snapshot.counters

    def set_scaling(self, key: QueueKey, decision: Decision) -> None:
        """Sets the inputs of a decision. Where the queue does not decide, or is unknown, they are NaN."""
        why = decision.explanation
        self.needed.labels(*key).set(decision.needed)
        self.arrivals.labels(*key).set(_nan if why is None else why.arrivals.value)
        self.service.labels(*key).set(_nan if why is None else why.service.value)
        self.start.labels(*key).set(_nan if why is None else why.start.value)
        for field, rule in _RULES.items():
            count = None if why is None else getattr(why, field)
            self.wanted.labels(*key, rule).set(_nan if count is None else count)

    def set_status(self, key: QueueKey, status: Mapping[str, Any], target_age: float | None) -> None:
        """Sets the gauges that come from the status of a ReliableQueue: ``conditions`` and ``redis.warnings``.
        ``target_age``: seconds; None if the spec is invalid."""
        for condition in status["conditions"]:
            value = _CONDITION_VALUES[condition["status"]]
            self.conditions.labels(*key, condition["type"]).set(value)
        warnings = status.get("redis", {}).get("warnings", ())
        settings = [one for one in warnings if not one.startswith(_OF_EVERY_REPLICATED_SERVER)]
        self.redis_warnings.labels(*key).set(len(settings))
        if target_age is not None:
            self.target_age.labels(*key).set(target_age)

    def forget_queue(self, key: QueueKey) -> None:
        """Removes every series of a queue that is gone."""
        self._transitions.counts.pop(key, None)
        for metric in self._per_queue:
            metric.remove_by_labels(dict(zip(QUEUE_LABELS, key, strict=True)))

    def render(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self.registry)


class _Transitions(Collector):
    """Exports the counters that the server keeps for each queue; they outlive this process."""

    def __init__(self) -> None:
        self.counts: dict[QueueKey, Mapping[str, int]] = {}

    def collect(self) -> Iterable[Metric]:
        """One series for each queue, kind and reason."""
        family = CounterMetricFamily(
            "claimq_queue_transitions",
            "Transitions of items since the queue was created; failed attempts by reason.",
            labels=(*QUEUE_LABELS, "kind", "reason"),
        )
        for key, counts in self.counts.items():
            for kind in COUNTERS:
                if kind not in _ATTEMPTS:
                    family.add_metric((*key, kind, ""), counts[kind])
            for reason, count in _failed_attempts(counts).items():
                family.add_metric((*key, _ATTEMPT_FAILED, reason), count)
        yield family


def _failed_attempts(counts: Mapping[str, int]) -> dict[str, int]:
    """Failed attempts by reason. The queue counts an expired lease as a crash as well."""
    expired = counts["expired"]
    return {
        "fail": counts["fails"],
        "crash": max(counts["crashes"] - expired, 0),
        "expired": expired,
    }
