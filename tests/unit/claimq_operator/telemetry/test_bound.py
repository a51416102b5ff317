"""The bounds on what waits in a queue, as metrics."""

from collections.abc import Callable
from dataclasses import replace

from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, plan
from claimq_control.queue_metrics import QueueMetrics
from testkit.kubernetes.kubernetes_objects import snapshot


def test_bounds_and_bytes_are_exported_and_are_not_a_number_without_one(
    observed: Callable[..., Observed],
) -> None:
    metrics = QueueMetrics()
    bounded = observed(seen=replace(snapshot(), waiting_bytes=77), maxWaiting={"items": 100, "bytes": 2048})
    for look, values in ((bounded, ("100.0", "2048.0", "77.0")), (observed(), ("NaN", "NaN", "NaN"))):
        metrics.set_pass(("media", "thumbs"), look, plan(look, Memory(), now=0.0, clock=0.0))
        text = metrics.render().decode()
        for name, value in zip(
            ("max_waiting_items", "max_waiting_bytes", "waiting_bytes"), values, strict=True
        ):
            assert f'claimq_queue_{name}{{name="thumbs",namespace="media"}} {value}' in text
