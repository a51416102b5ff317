"""The metrics of programs that consume: what Prometheus reads."""

import subprocess
import sys
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from claimq.errors import NotReplicated, StoreFull, StoreMisused
from claimq.metrics import ConsumerMetrics, ItemHistogram
from claimq.model import Claim, Outcome, Verdict
from claimq.testing import make_item


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> ConsumerMetrics:
    return ConsumerMetrics(registry=registry)


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """The samples of a scrape, by name and labels."""
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, _, value in (one.rpartition(" ") for one in lines if one[0] != "#")}


def a_claim(token: str, *, enqueued_at: float = 0.0, claimed_at: float) -> Claim:
    item = make_item("a", enqueued_at=enqueued_at)
    return Claim(token, item, "w1", claimed_at, claimed_at + 30)


def test_an_observation_is_in_its_bucket_and_in_all_above(registry: CollectorRegistry) -> None:
    histogram = ItemHistogram("item_seconds", "Time of items.")
    registry.register(histogram)
    histogram.series().observe(-0.01)
    histogram.series().observe(0.5, 0.51, 100_000.0)
    found = samples(registry)
    bounds = ("0.001", "0.5", "1.0", "86400.0", "+Inf")
    assert [found[f'item_seconds_bucket{{le="{bound}"}}'] for bound in bounds] == [1, 2, 3, 3, 4]
    assert (found["item_seconds_count"], found["item_seconds_sum"]) == (4, 100001.01)


def test_times_are_those_of_the_server(metrics: ConsumerMetrics, registry: CollectorRegistry) -> None:
    """Its clock is known from the last claim."""
    began = time.monotonic()
    metrics.claimed("q", [a_claim("1", enqueued_at=1000.0, claimed_at=1005.0)])
    metrics.claimed("q", [a_claim("2", enqueued_at=1000.0, claimed_at=2005.0)])
    oldest = samples(registry)['claimq_consumer_oldest_claim_seconds{queue="q"}']
    metrics.settled("q", [Outcome("1", Verdict.FAILED)])
    passed = time.monotonic() - began
    assert 1000.0 <= oldest <= 1000.0 + passed
    found = samples(registry)
    assert found['claimq_consumer_item_waiting_seconds_sum{queue="q"}'] == 5 + 1005
    assert 1000.0 <= found['claimq_consumer_item_processing_seconds_sum{queue="q"}'] <= 1000.0 + passed
    assert found['claimq_consumer_item_processing_seconds_count{queue="q"}'] == 1
    assert found['claimq_consumer_claims_in_flight{queue="q"}'] == 1
    assert found['claimq_consumer_oldest_claim_seconds{queue="q"}'] < 1000.0


def test_a_lost_claim_is_counted_and_has_no_processing_time(
    metrics: ConsumerMetrics, registry: CollectorRegistry
) -> None:
    metrics.claimed("q", [])
    metrics.claimed("q", [a_claim("1", claimed_at=5.0)])
    metrics.settled("q", [Outcome("1", Verdict.LOST), Outcome("not claimed here", Verdict.DONE)])
    found = samples(registry)
    assert found['claimq_consumer_verdicts_total{queue="q",verdict="lost"}'] == 1
    assert found['claimq_consumer_verdicts_total{queue="q",verdict="done"}'] == 1
    assert found['claimq_consumer_item_processing_seconds_count{queue="q"}'] == 0
    assert found['claimq_consumer_oldest_claim_seconds{queue="q"}'] == 0


def test_failed_calls_are_counted_by_kind(metrics: ConsumerMetrics, registry: CollectorRegistry) -> None:
    for error in (NotReplicated("no replica", []), StoreMisused("no right"), StoreFull("full")):
        metrics.call_failed("q", error)
    found = samples(registry)
    for kind in ("unavailable", "misused", "refused"):
        assert found[f'claimq_consumer_store_errors_total{{kind="{kind}",queue="q"}}'] == 1


def test_the_number_of_series_is_bounded(metrics: ConsumerMetrics, registry: CollectorRegistry) -> None:
    for number in range(150):
        metrics.claimed(f"q{number}", [a_claim(str(number), claimed_at=5.0)])
    counts = {name: value for name, value in samples(registry).items() if "claimed_items_total" in name}
    assert len(counts) == 101
    assert counts['claimq_consumer_claimed_items_total{queue="q99"}'] == 1
    assert counts['claimq_consumer_claimed_items_total{queue="(other)"}'] == 50


def test_a_registry_has_one_object_of_metrics(metrics: ConsumerMetrics, registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="use that one for all queues"):
        ConsumerMetrics(registry=registry)
    assert samples(registry) == {}


WITHOUT_THE_PACKAGE = """
import sys
sys.modules["prometheus_client"] = None  # each import of it is an error
import claimq.blocking, claimq.tasks, claimq.worker
claimq.tasks.App("q"), claimq.ReliableQueue, claimq.ConsumeObserver
try:
    import claimq.metrics
except ImportError as error:
    print(error)
"""


def test_without_the_package_an_error_names_the_extra() -> None:
    run = [sys.executable, "-c", WITHOUT_THE_PACKAGE]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert (
        printed == "claimq.metrics needs the Prometheus client: in a clone, pip install './core[metrics]'\n"
    )
