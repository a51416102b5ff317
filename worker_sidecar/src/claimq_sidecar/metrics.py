"""What the sidecar counts, for Prometheus. Labels come from fixed sets, so their number is bounded."""

from __future__ import annotations

from collections.abc import Callable

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

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client left it without types


class Metrics:
    """One sidecar's metrics, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        ProcessCollector(registry=own)
        self.claimed = Counter(
            "claimq_sidecar_claimed_items", "Items that were handed to the app.", registry=own
        )
        self.verdicts = Counter(
            "claimq_sidecar_verdicts", "What became of claims, by verdict.", ["verdict"], registry=own
        )
        self.given_back = Counter(
            "claimq_sidecar_given_back_items",
            "Claims given back for the app, by cause.",
            ["cause"],
            registry=own,
        )
        self.enqueued = Counter("claimq_sidecar_enqueued_items", "Items that the app enqueued.", registry=own)
        self._count_in_hand()
        self.sessions = Gauge("claimq_sidecar_sessions", "Sessions that are open.", registry=own)
        self.draining = Gauge("claimq_sidecar_draining", "1 while nothing is claimed any more.", registry=own)
        self.ready = Gauge(
            "claimq_sidecar_ready", "1 after the first good round trip to the store.", registry=own
        )
        self.round_trip_age = Gauge(
            "claimq_sidecar_store_round_trip_age_seconds",
            "Seconds since the store last answered well.",
            registry=own,
        )
        self.store_errors = Counter(
            "claimq_sidecar_store_errors", "Failed calls, by kind.", ["kind"], registry=own
        )
        self.rebuilds = Counter("claimq_sidecar_store_rebuilds", "Connections made anew.", registry=own)
        self.requests = Histogram(
            "claimq_sidecar_request_seconds", "Requests on the socket, without the wait of a claim.",
            ["path", "status"], buckets=_BUCKETS, registry=own,
        )  # fmt: skip

    def _count_in_hand(self) -> None:
        own = self.registry
        self.in_hand = Gauge("claimq_sidecar_in_hand", "Claims in the app's hands.", registry=own)
        self.concurrency = Gauge(
            "claimq_sidecar_concurrency",
            "The most claims that the app may have in its hands; +Inf without a limit.",
            registry=own,
        )
        self.waiting = Gauge(
            "claimq_sidecar_waiting_for_a_place",
            "Claims that wait since the app has as much in its hands as it may.",
            registry=own,
        )
        self.oldest = Gauge(
            "claimq_sidecar_oldest_in_hand_seconds", "Age of the oldest of them.", registry=own
        )
        self.overdue = Gauge("claimq_sidecar_overdue", "Claims over the processing time-out.", registry=own)

    def render(self, refresh: Callable[[Metrics], None]) -> bytes:
        """The exposition text. ``refresh`` sets the gauges to what holds now."""
        refresh(self)
        return generate_latest(self.registry)
