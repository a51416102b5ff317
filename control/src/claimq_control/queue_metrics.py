"""Prometheus metrics of queues. The operator and local mode export the same ones, so alerts and dashboards fit both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from claimq.limits import Neighbour
from claimq.model import COUNTERS, Snapshot, State
from claimq.waiting.reasons import WAITING_COUNTS, waiting_counts
from claimq_control.decide.books import unaccounted
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.scaling import Decision

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
_MOST_NAMED, _NAMED_SECONDS = 20, 3600.0
_RULES = {"deadlines": "deadlines", "balance": "arrivals", "items_per_replica": "items_per_replica"}
"""Fields of an explanation, and the rules under which they are exported."""
_CONDITION_VALUES = {"True": 1.0, "False": 0.0, "Unknown": _nan}

_GAUGES = {
    "claimq_queue_items": ("Items by state; NaN while the server is unreachable.", "state"),
    "claimq_queue_waiting_items": (
        "Items by what they wait for: not_due, paused, key_busy, limit, ready; NaN while the server is unreachable.",
        "reason",
    ),
    "claimq_queue_oldest_age_seconds": (
        "Age of the oldest item, by state; NaN while the server is unreachable.",
        "state",
    ),
    "claimq_queue_items_unaccounted": (
        "Items that are missing (positive) or that no call has added (negative); 0 while the books balance.",
    ),
    "claimq_queue_neighbour_share": (
        "Share (0 to 1) of slots and time (kind) of up to five clients that delay others, and of all other clients.",
        "client",
        "kind",
    ),
    "claimq_queue_neighbour_delayed_clients": ("Clients that such a client delays.", "client"),
    "claimq_queue_neighbour_delay_seconds": (
        "For how long an item of these has waited, at most.",
        "client",
    ),
    "claimq_queue_workers": ("Workers, by kind: desired, ready, busy.", "kind"),
    "claimq_queue_redis_reachable": ("1 while the queue's server is reachable, else 0.",),
    "claimq_scaling_arrivals_per_second": ("Estimated items that arrive per second.",),
    "claimq_scaling_service_seconds": ("Estimated seconds that an item takes.",),
    "claimq_scaling_start_seconds": ("Estimated seconds until a new worker claims its first item.",),
    "claimq_scaling_wanted_workers": (
        "Workers that a rule of the scaling asks for: deadlines, arrivals, items_per_replica.",
        "rule",
    ),
    "claimq_scaling_needed_workers": (
        "Workers that would meet the target; 0 while no limit keeps the queue from having them.",
    ),
    "claimq_queue_condition": (
        "1 while the condition is True, 0 while it is False, NaN while it is Unknown.",
        "condition",
    ),
    "claimq_queue_redis_warnings": (
        "Settings of the queue's server that weaken the guarantees; replication is not counted.",
    ),
    "claimq_queue_max_waiting_items": ("The bound of spec.maxWaiting.items; NaN without one.",),
    "claimq_queue_max_waiting_bytes": ("The bound of spec.maxWaiting.bytes; NaN without one.",),
    "claimq_queue_waiting_bytes": ("Bytes of the items in main and delayed; NaN without a bound on them.",),
    "claimq_queue_target_age_seconds": ("The target of spec.scaling.targetAge.",),
}
"""Name to help text and the labels after those of the queue."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client has no types for it


class QueueMetrics:
    """The metrics of queues, in a registry of their own. All labels are bounded: the series of a queue are removed with
    it, and other labels have fixed sets of values, or at most 20 of an hour (clients)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters: list[Counter] = []
        self._named: dict[QueueKey, dict[str | None, float]] = {}
        self._gauges = _Gauges()
        self.registry.register(self._gauges)
        self._transitions = _Transitions()
        self.registry.register(self._transitions)
        self.decisions = self._counter(
            "claimq_scaling_decisions_total", "Scaling decisions, by rule.", "rule"
        )
        self.released = self._counter(
            "claimq_claims_given_back_total", "Claims of terminated containers that were returned.", "reason"
        )

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        counter = Counter(name, doc, (*QUEUE_LABELS, *labels), registry=self.registry)
        self._counters.append(counter)
        return counter

    def set_queue(self, key: QueueKey, snapshot: Snapshot | None, workers: Mapping[str, int]) -> None:
        """Sets the gauges of a queue. Without a snapshot, those of items are NaN."""
        gauges = self._gauges.of(key)
        gauges["claimq_queue_redis_reachable",] = snapshot is not None
        for kind, count in workers.items():
            gauges["claimq_queue_workers", kind] = count
        for state in State:
            age = None if snapshot is None else snapshot.ages[state]
            length = _nan if snapshot is None else snapshot.lengths[state]
            gauges["claimq_queue_items", state.value] = length
            gauges["claimq_queue_oldest_age_seconds", state.value] = _nan if snapshot is None else age or 0.0
        counts = {} if snapshot is None else waiting_counts(snapshot)
        for reason in WAITING_COUNTS:
            gauges["claimq_queue_waiting_items", reason] = counts.get(reason, _nan)
        self._set_neighbours(key, snapshot)
        gauges["claimq_queue_items_unaccounted",] = _nan if snapshot is None else unaccounted(snapshot)
        if snapshot is not None:
            self._transitions.counts[key] = snapshot.counters

    def _set_neighbours(self, key: QueueKey, snapshot: Snapshot | None) -> None:
        """Sets the gauges of the clients that delay others."""
        gauges = self._gauges.of(key)
        for series in [series for series in gauges if series[0].startswith("claimq_queue_neighbour_")]:
            del gauges[series]
        if snapshot is None or not snapshot.neighbours:
            return
        others = {"slots": 1.0, "time": 1.0}
        for client in self._with_series(key, snapshot):
            label = client.client or "no client"
            for kind, share in (("slots", client.slots), ("time", client.time)):
                gauges["claimq_queue_neighbour_share", label, kind] = share
                others[kind] -= share
            gauges["claimq_queue_neighbour_delayed_clients", label] = client.delayed_clients
            gauges["claimq_queue_neighbour_delay_seconds", label] = client.delay
        for kind, share in others.items():
            gauges["claimq_queue_neighbour_share", "other clients", kind] = max(share, 0.0)

    def _with_series(self, key: QueueKey, snapshot: Snapshot) -> list[Neighbour]:
        """Those of the neighbours that have series of their own: in an hour at most 20 clients of a queue."""
        named, now = self._named.setdefault(key, {}), snapshot.now
        for client in [client for client, at in named.items() if at < now - _NAMED_SECONDS]:
            del named[client]
        for neighbour in snapshot.neighbours:
            if neighbour.client in named or len(named) < _MOST_NAMED:
                named[neighbour.client] = now
        return [neighbour for neighbour in snapshot.neighbours if neighbour.client in named]

    def set_scaling(self, key: QueueKey, decision: Decision) -> None:
        """Sets the inputs of a decision. Where the queue does not decide, or is unknown, they are NaN."""
        why, gauges = decision.explanation, self._gauges.of(key)
        gauges["claimq_scaling_needed_workers",] = decision.needed
        gauges["claimq_scaling_arrivals_per_second",] = _nan if why is None else why.arrivals.value
        gauges["claimq_scaling_service_seconds",] = _nan if why is None else why.service.value
        gauges["claimq_scaling_start_seconds",] = _nan if why is None else why.start.value
        for field, rule in _RULES.items():
            count = None if why is None else getattr(why, field)
            gauges["claimq_scaling_wanted_workers", rule] = _nan if count is None else count

    def set_status(self, key: QueueKey, status: Mapping[str, Any], target_age: float | None) -> None:
        """Sets the gauges that come from the status of a ReliableQueue: ``conditions`` and ``redis.warnings``.
        ``target_age``: seconds; None if the spec is invalid."""
        gauges = self._gauges.of(key)
        values = {one["type"]: _CONDITION_VALUES[one["status"]] for one in status["conditions"]}
        ended = {series[1]: 0.0 for series in gauges if series[0] == "claimq_queue_condition"}
        for kind, value in (ended | values).items():
            gauges["claimq_queue_condition", kind] = value
        warnings = status.get("redis", {}).get("warnings", ())
        settings = [warning for warning in warnings if not warning.startswith(_OF_EVERY_REPLICATED_SERVER)]
        gauges["claimq_queue_redis_warnings",] = len(settings)
        if target_age is not None:
            gauges["claimq_queue_target_age_seconds",] = target_age

    def set_pass(self, key: QueueKey, observed: Observed, planned: Plan) -> None:
        """Sets the gauges of a queue to what a pass has observed and planned, and counts its decision."""
        spec, workers = observed.resource.spec, planned.status["workers"]
        self.set_queue(key, observed.snapshot, {kind: workers[kind] for kind in ("desired", "ready", "busy")})
        self.set_status(key, planned.status, None if spec is None else spec.scaling.target_age)
        if spec is not None:
            gauges, seen = self._gauges.of(key), observed.snapshot
            gauges["claimq_queue_max_waiting_items",] = spec.max_waiting.items or _nan
            gauges["claimq_queue_max_waiting_bytes",] = spec.max_waiting.bytes or _nan
            waiting = None if seen is None else seen.waiting_bytes
            gauges["claimq_queue_waiting_bytes",] = _nan if waiting is None else waiting
        if planned.decision is not None:
            self.decisions.labels(*key, planned.decision.rule.value).inc()
            self.set_scaling(key, planned.decision)

    def forget_queue(self, key: QueueKey) -> None:
        """Removes every series of a queue that is gone."""
        self._transitions.counts.pop(key, None)
        self._named.pop(key, None)
        self._gauges.forget(key)
        for metric in self._counters:
            metric.remove_by_labels(dict(zip(QUEUE_LABELS, key, strict=True)))

    def render(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    """Exports the gauges of all queues. A queue has some thirty series: here they take 4 kB, as objects of
    prometheus_client ten times as much.
    """

    def __init__(self) -> None:
        self._values: dict[QueueKey, dict[tuple[str, ...], float]] = {}

    def of(self, key: QueueKey) -> dict[tuple[str, ...], float]:
        """The values of a queue, to be set: by name, and the labels after those of the queue."""
        return self._values.setdefault(key, {})

    def forget(self, key: QueueKey) -> None:
        """Removes the values of a queue."""
        self._values.pop(key, None)

    def collect(self) -> Iterable[Metric]:
        """One family for each name."""
        families = {
            name: GaugeMetricFamily(name, text, labels=(*QUEUE_LABELS, *labels))
            for name, (text, *labels) in _GAUGES.items()
        }
        for key, values in list(self._values.items()):
            for (name, *labels), value in list(values.items()):
                families[name].add_metric((*key, *labels), value)
        return families.values()


class _Transitions(Collector):
    """Exports the counters that the server keeps for each queue; they outlive this process."""

    def __init__(self) -> None:
        self.counts: dict[QueueKey, Mapping[str, int]] = {}

    def collect(self) -> Iterable[Metric]:
        """One series for each queue, kind and reason."""
        family = CounterMetricFamily(
            "claimq_queue_transitions",
            "Transitions of items since the queue was created. Of attempt_failed the reason is fail, crash or expired.",
            labels=(*QUEUE_LABELS, "kind", "reason"),
        )
        for key, counts in list(self.counts.items()):
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
