"""Prometheus metrics of programs that use ``consume`` (``claimq[metrics]``), and the histograms of the sidecar.

metrics = ConsumerMetrics()
await queue.consume(handler, observer=metrics)
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from claimq.errors import ClaimqError, StoreMisused, StoreUnavailable
from claimq.model import Claim, Outcome, Verdict

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ImportError(
        "claimq.metrics needs the Prometheus client: in a clone, pip install './core[metrics]'",
        name=error.name,
    ) from error

_BUCKETS = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0,
)  # fmt: skip
_BOUNDS = (*map(str, _BUCKETS), "+Inf")
_PREFIX = "claimq_consumer"
_GIVEN_BACK = (
    "Items whose claims ended without a verdict, by cause: stopped (the run ended before a handler began), "
    "not_reached (claimed ahead, and waited for more than 250 ms), interrupted (the handler was cancelled), "
    "refused (the server refused the verdict), unanswered (no answer before the end)."
)
_COUNTERS = {
    "claimed_items": ("Items claimed, also those that a handler has not begun with.", "queue"),
    "verdicts": (
        "Ended claims by verdict: done, requeued, delayed, failed, dropped or lost.",
        "queue",
        "verdict",
    ),
    "given_back_items": (_GIVEN_BACK, "queue", "cause"),
    "store_errors": (
        "Calls that failed after their retries, by kind: unavailable, misused or refused.",
        "queue",
        "kind",
    ),
}
_MOST_QUEUES = 100
_OTHER_QUEUES = "(other)"  # no queue can have this name


class ItemSeconds:
    """One series of an :class:`ItemHistogram`."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUNDS)
        self._sum = 0.0

    def observe(self, *items: float, count: int = 1) -> None:
        """Adds items, by their seconds; with ``count``, so many items for each. A negative value counts as 0: clocks
        were compared a moment apart.
        """
        counts = self._counts
        for seconds in items:
            counts[bisect_left(_BUCKETS, seconds)] += count
            if seconds > 0:
                self._sum += seconds * count

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Adds the present counts, for a scrape."""
        family.add_metric(labels, list(zip(_BOUNDS, accumulate(self._counts), strict=True)), self._sum)


class ItemHistogram(Collector):
    """A histogram of seconds of items. An observation takes a third of the time that one of ``prometheus_client``
    takes, and there are tens of thousands a second. Only for one thread at a time."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._series: dict[tuple[str, ...], ItemSeconds] = {}

    def series(self, *values: str) -> ItemSeconds:
        """The series with these values of the labels."""
        return self._series.setdefault(values, ItemSeconds())

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """The present counts, for a scrape."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, series in self._series.items():
            series.add_to(family, values)
        yield family


def waiting_histogram(prefix: str, *labels: str) -> ItemHistogram:
    """The waiting time, for the metrics that begin with ``prefix``."""
    return ItemHistogram(
        f"{prefix}_item_waiting_seconds",
        "Seconds from when an item entered main to its claim, by the server's clock; 0 for bare payloads.",
        *labels,
    )


def processing_histogram(prefix: str, *labels: str) -> ItemHistogram:
    """The processing time, for the metrics that begin with ``prefix``."""
    return ItemHistogram(
        f"{prefix}_item_processing_seconds",
        "Seconds from the claim to the stored verdict, by the server's clock; not for claims without a verdict.",
        *labels,
    )


def kind_of(error: ClaimqError) -> str:
    """The value of the label ``kind`` for a failed call."""
    if isinstance(error, StoreUnavailable):
        return "unavailable"
    return "misused" if isinstance(error, StoreMisused) else "refused"


@dataclass(slots=True)
class _OfQueue:
    """What the figures of one queue are made from. ``in_flight``: token -> when it was claimed, in that order."""

    label: str
    waiting: ItemSeconds
    processing: ItemSeconds
    in_flight: dict[str, float] = field(default_factory=dict[str, float])
    clock_ahead: float = 0.0

    def now(self) -> float:
        """The server's time: as of the last claim, plus what has passed here."""
        return time.monotonic() + self.clock_ahead

    def oldest(self) -> float:
        """The age of the oldest claim in seconds; 0 if there are none."""
        claimed_at = next(iter(self.in_flight.values()), None)
        return 0.0 if claimed_at is None else max(self.now() - claimed_at, 0.0)


class ConsumerMetrics(Collector):
    """The metrics of all queues that a program consumes, with the prefix ``claimq_consumer_`` (docs/metrics.md).

    An observer for ``consume(observer=)`` and for ``run`` of :class:`claimq.tasks.App`. A loop of your own around
    ``claim`` can call its methods too. Safe to use from many threads. Queues after the first 100 share the label
    ``(other)``.
    """

    def __init__(self, *, registry: CollectorRegistry = REGISTRY) -> None:
        """``registry``: by default that of ``prometheus_client.start_http_server``. Raises ValueError if it has such
        metrics already."""
        self._lock = threading.Lock()
        self._waiting = waiting_histogram(_PREFIX, "queue")
        self._processing = processing_histogram(_PREFIX, "queue")
        self._counts = {name: Counter[tuple[str, ...]]() for name in _COUNTERS}
        self._queues: dict[str, _OfQueue] = {}
        try:
            registry.register(self)
        except ValueError as error:
            raise ValueError(
                "the registry has a ConsumerMetrics already: use that one for all queues, or give another registry"
            ) from error

    def claimed(self, queue: str, claims: Sequence[Claim]) -> None:
        """Adds claims that have just been made."""
        with self._lock:
            of_queue = self._of(queue)
            self._counts["claimed_items"][of_queue.label,] += len(claims)
            for claim in claims:
                of_queue.waiting.observe(claim.claimed_at - claim.item.enqueued_at)
                of_queue.in_flight[claim.token] = claim.claimed_at
            if claims:
                of_queue.clock_ahead = claims[-1].claimed_at - time.monotonic()

    def settled(self, queue: str, outcomes: Sequence[Outcome]) -> None:
        """Adds verdicts that have just been stored."""
        with self._lock:
            of_queue, verdicts = self._of(queue), self._counts["verdicts"]
            label, in_flight, now = of_queue.label, of_queue.in_flight, of_queue.now()
            for outcome in outcomes:
                verdict, claimed_at = outcome.verdict, in_flight.pop(outcome.token, None)
                verdicts[label, verdict] += 1
                if claimed_at is not None and verdict is not Verdict.LOST:
                    of_queue.processing.observe(now - claimed_at)

    def given_back(self, queue: str, claims: Sequence[Claim], cause: str) -> None:
        """Adds claims that ended without a verdict."""
        with self._lock:
            of_queue = self._of(queue)
            self._counts["given_back_items"][of_queue.label, cause] += len(claims)
            for claim in claims:
                of_queue.in_flight.pop(claim.token, None)

    def call_failed(self, queue: str, error: ClaimqError) -> None:
        """Adds a call that failed."""
        with self._lock:
            self._counts["store_errors"][self._of(queue).label, kind_of(error)] += 1

    def _of(self, queue: str) -> _OfQueue:
        if (queue_metrics := self._queues.get(queue)) is not None:
            return queue_metrics
        label = queue if len(self._queues) < _MOST_QUEUES else _OTHER_QUEUES
        new_metrics = _OfQueue(label, self._waiting.series(label), self._processing.series(label))
        return self._queues.setdefault(label, new_metrics)

    def describe(self) -> Iterable[Metric]:
        """The names, for the registry."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """The present figures, for a scrape."""
        with self._lock:
            return [*self._counters(), *self._gauges(), *self._waiting.collect(), *self._processing.collect()]

    def _counters(self) -> Iterable[Metric]:
        for name, (text, *labels) in _COUNTERS.items():
            family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
            for values, count in self._counts[name].items():
                family.add_metric(values, count)
            yield family

    def _gauges(self) -> Iterable[Metric]:
        in_flight = GaugeMetricFamily(
            f"{_PREFIX}_claims_in_flight", "Claims without a verdict.", labels=["queue"]
        )
        oldest = GaugeMetricFamily(
            f"{_PREFIX}_oldest_claim_seconds", "Age of the oldest claim in flight.", labels=["queue"]
        )
        for of_queue in self._queues.values():
            in_flight.add_metric([of_queue.label], len(of_queue.in_flight))
            oldest.add_metric([of_queue.label], of_queue.oldest())
        return in_flight, oldest
