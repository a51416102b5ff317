"""The histograms of items: what Prometheus reads."""

from prometheus_client import CollectorRegistry, generate_latest

from claimq_sidecar.metrics import ItemHistogram


def test_an_observation_is_in_its_bucket_and_in_all_above() -> None:
    histogram = ItemHistogram("item_seconds", "Time of items.")
    for seconds in (-0.01, 0.5, 0.51, 100_000.0):
        histogram.observe(seconds)
    registry = CollectorRegistry()
    registry.register(histogram)
    lines = dict(line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines())
    assert lines['item_seconds_bucket{le="0.001"}'] == "1.0"
    assert lines['item_seconds_bucket{le="0.5"}'] == "2.0"
    assert lines['item_seconds_bucket{le="1.0"}'] == "3.0"
    assert lines['item_seconds_bucket{le="86400.0"}'] == "3.0"
    assert lines['item_seconds_bucket{le="+Inf"}'] == lines["item_seconds_count"] == "4.0"
    assert lines["item_seconds_sum"] == "100001.01"
