"""The loop of one queue, on a clock that skips sleeps."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

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


def test_a_queue_that_is_idle_for_an_hour_is_not_reported_as_stuck(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    async def rest() -> tuple[list[str], list[str]]:
        cluster = cast("Cluster", None)  # nothing is asked of it: no such queue is known
        liveness = Liveness(asyncio.get_running_loop().time)
        context = Context(
            settings=replace(settings, idle_period=HOUR),
            cluster=cluster,
            cache=Cache(lambda _: None),
            connections=RedisConnections(cluster, tmp_path),
            ownership=Ownership(cluster, settings),
            recorder=EventRecorder(cluster, lambda: 0.0, "me"),
            metrics=Metrics(),
            liveness=liveness,
            wall_clock=lambda: 0.0,
        )
        runner = asyncio.create_task(Reconciler(("media", "thumbs"), context).run())
        await asyncio.sleep(HOUR - 1)
        resting = liveness.stuck()
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        return resting, liveness.stuck()

    assert run_skipping(rest()) == ([], [])
