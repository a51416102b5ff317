"""Prometheus metrics. All label values come from fixed sets, so the number of series is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from claimq.metrics import ItemHistogram, ItemSeconds, processing_histogram, waiting_histogram
from claimq.model import Claim

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_GIVEN_BACK = (
    "Items that the sidecar gave back, by cause: crashed (a session's connection closed), drained, unread (the client "
    "did not read them), stopped (the request ended before it got them), alone (an item that crashed a worker is "
    "claimed alone), not_reached (claimed ahead, and not begun)."
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client has no types for it


class PushMetrics:
    """The metrics of pushes, beside those of a sidecar that makes any."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pushes = Counter(
            "claimq_sidecar_pushes",
            "Requests to the app by result: 2xx to 5xx, timeout, broken, not_http, or refused (no connection).",
            ["result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "claimq_sidecar_push_seconds",
            "Duration of requests to the app.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.ready = Gauge(
            "claimq_sidecar_app_ready", "1 while the app is ready for items.", registry=registry
        )
        self.paused = Gauge(
            "claimq_sidecar_pushes_paused",
            "1 while a Retry-After of the app that closes no queue has not ended.",
            registry=registry,
        )
        self.limit = Gauge(
            "claimq_sidecar_push_limit", "Requests to the app that may be in progress.", registry=registry
        )
        self._of_result = cache(self._pushes.labels)  # labels() takes longer than what follows

    def count(self, outcome: str) -> None:
        """Adds a request: ``2xx`` to ``9xx`` by its status, or why there is no response."""
        self._of_result(outcome).inc()

    def observe(self, seconds: float) -> None:
        """Adds the duration of a request."""
        self._seconds.observe(seconds)


class Metrics:
    """The metrics of one sidecar, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.claimed = self._counter("claimed_items", "Items given to the app.")
        self.verdicts = self._counter("verdicts", "Ended and renewed claims, by outcome.", "verdict")
        self.given_back = self._counter("given_back_items", _GIVEN_BACK, "cause")
        self.enqueued = self._counter("enqueued_items", "Items enqueued by the app.")
        self.in_flight = self._gauge("claims_in_flight", "Claims that the app is working on.")
        self.concurrency = self._gauge(
            "concurrency", "Maximum number of claims in flight; +Inf without a limit."
        )
        self.waiting = self._gauge(
            "claims_waiting", "Claim requests that wait because the concurrency limit is reached."
        )
        self.oldest = self._gauge("oldest_claim_seconds", "Age of the oldest claim in flight.")
        self.overdue = self._gauge(
            "claims_overdue", "Items on which the app works for too long: /worker/livez returns 503 then."
        )
        self.sessions = self._gauge("sessions", "Open sessions and streams.")
        self.draining = self._gauge("draining", "1 during a drain.")
        self.ready = self._gauge("ready", "1 after the first successful call to the server.")
        self.response_age = self._gauge(
            "store_response_age_seconds", "Time since the last successful call to the server."
        )
        self.store_errors = self._counter("store_errors", "Failed calls to the server, by kind.", "kind")
        self.scripts_refused = self._gauge("scripts_refused", "1 while the server refuses the scripts.")
        self.reconnects = self._counter(
            "store_reconnects", "Connections replaced because the server did not respond."
        )
        self.requests = Histogram(
            "claimq_sidecar_request_seconds",
            "Duration of requests on the socket, without the time that claims waited.",
            ["path", "status"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._item_waiting = self._series(waiting_histogram("claimq_sidecar"))
        self._item_processing = self._series(processing_histogram("claimq_sidecar"))
        self._of_request = cache(self.requests.labels)
        self._of_verdict = cache(self.verdicts.labels)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """Adds a request."""
        self._of_request(path, status).observe(seconds)

    def count_verdict(self, verdict: str, count: int = 1) -> None:
        """Adds verdicts of one kind."""
        self._of_verdict(verdict).inc(count)

    def count_claims(self, claims: Sequence[Claim]) -> None:
        """Adds claims that the app gets."""
        self.claimed.inc(len(claims))
        self._item_waiting.observe(*[claim.claimed_at - claim.item.enqueued_at for claim in claims])

    def observe_processing(self, ages: Iterable[tuple[float, int]]) -> None:
        """Adds items on which the app has given its verdict: how many seconds after the claim, and how many items."""
        for seconds, count in ages:
            self._item_processing.observe(seconds, count=count)

    def _series(self, histogram: ItemHistogram) -> ItemSeconds:
        self.registry.register(histogram)
        return histogram.series()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"claimq_sidecar_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"claimq_sidecar_{name}", text, registry=self.registry)

    def render(self, refresh: Callable[[Metrics], None]) -> bytes:
        """Returns the metrics in Prometheus text format. ``refresh`` sets the gauges first."""
        refresh(self)
        return generate_latest(self.registry)
