"""The operator's own metrics beside those of queues."""

from claimq_operator.telemetry.metrics import Metrics


def test_the_passes_over_a_queue_are_removed_with_it() -> None:
    metrics = Metrics()
    for name in ("thumbs", "videos"):
        metrics.passes.labels("team", name, "ok").inc()
    metrics.forget_queue(("team", "thumbs"))
    assert b'name="thumbs"' not in metrics.render()
    assert b'claimq_passes_total{name="videos",namespace="team",outcome="ok"} 1.0' in metrics.render()
