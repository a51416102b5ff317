"""Prometheus metrics: those of queues, and those of the operator itself."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from claimq_control.queue_metrics import QueueMetrics

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics(QueueMetrics):
    """The metrics of queues that local mode has too, and those of the operator itself."""

    def __init__(self) -> None:
        super().__init__()
        ProcessCollector(registry=self.registry)
        self.passes = self._counter(
            "claimq_passes_total", "Reconcile passes over a queue, by outcome.", "outcome"
        )
        self.pass_seconds = Histogram(
            "claimq_pass_duration_seconds",
            "Duration of a reconcile pass.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.pass_lag = Histogram(
            "claimq_pass_lag_seconds",
            "Delay of a reconcile pass after its scheduled time.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._of_the_process()

    def _of_the_process(self) -> None:
        self.requests = Counter(
            "claimq_kubernetes_requests_total",
            "Requests to the Kubernetes API server.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self.is_leader = Gauge(
            "claimq_leader", "1 while this process is the leader, else 0.", registry=self.registry
        )
        self.queues = Gauge("claimq_queues", "Queues that this process reconciles.", registry=self.registry)
        self.loop_age = Gauge(
            "claimq_loop_age_seconds",
            "Seconds since the last heartbeat of a loop.",
            ("loop",),
            registry=self.registry,
        )

    def count_request(self, verb: str, resource: str, code: str) -> None:
        """Counts a request to the API server."""
        self.requests.labels(verb, resource, code).inc()
