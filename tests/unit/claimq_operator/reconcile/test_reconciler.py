"""The loop of one queue, on a clock that skips sleeps."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Sample

from claimq_operator.kubernetes_api.port import Cluster
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.reconciler import Reconciler
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache
from testkit.skipping_loop import run_skipping

HOUR = 3600.0


def make_context(settings: OperatorSettings, directory: Path) -> Context:
    """A context without a cluster: nothing is asked of it, since no queue is known."""
    cluster = cast("Cluster", None)
    return Context(
        settings=replace(settings, idle_period=HOUR),
        cluster=cluster,
        cache=Cache(lambda _: None),
        connections=RedisConnections(cluster, directory),
        ownership=Ownership(cluster, settings),
        recorder=EventRecorder(cluster, lambda: 0.0, "me"),
        metrics=Metrics(),
        liveness=Liveness(asyncio.get_running_loop().time),
        wall_clock=lambda: 0.0,
    )


def test_a_queue_that_is_idle_for_an_hour_is_not_reported_as_stuck(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    async def rest() -> tuple[list[str], list[str]]:
        context = make_context(settings, tmp_path)
        runner = asyncio.create_task(Reconciler(("media", "thumbs"), context).run())
        await asyncio.sleep(HOUR - 1)
        resting = context.liveness.stuck()
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        return resting, context.liveness.stuck()

    assert run_skipping(rest()) == ([], [])


def test_a_queue_whose_turn_comes_late_is_late_but_not_stuck(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    async def wait() -> tuple[list[str], list[float], float]:
        context = make_context(settings, tmp_path)
        async with AsyncExitStack() as others:
            for _ in range(16):
                await others.enter_async_context(context.pass_limit)
            runner = asyncio.create_task(Reconciler(("media", "thumbs"), context).run())
            await asyncio.sleep(HOUR)
            stuck, begun = context.liveness.stuck(), [passes(context)]
        await asyncio.sleep(1)
        begun.append(passes(context))
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        return stuck, begun, lag(context)

    stuck, begun, late = run_skipping(wait())
    assert (stuck, begun) == ([], [0, 1])
    assert HOUR <= late < HOUR + 1


def passes(context: Context) -> float:
    """The number of passes."""
    return sum(one.value for one in samples(context.metrics.passes) if one.name.endswith("_total"))


def lag(context: Context) -> float:
    """How late all passes were together, in seconds."""
    return sum(one.value for one in samples(context.metrics.pass_lag) if one.name.endswith("_sum"))


def samples(metric: MetricWrapperBase) -> list[Sample]:
    return [one for family in metric.collect() for one in family.samples]
