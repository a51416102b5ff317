"""The loop of one queue, by a clock that skips what is waited for."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

from claimq_operator.cluster import Cluster
from claimq_operator.liveness import Liveness
from claimq_operator.metrics import Metrics
from claimq_operator.queue_runner import QueueRunner
from claimq_operator.recorder import Recorder
from claimq_operator.redis_servers import RedisServers
from claimq_operator.settings import OperatorSettings
from claimq_operator.sightings import Sightings
from claimq_operator.surroundings import Surroundings
from claimq_operator.tenancy import Tenancy
from testkit.skipping_loop import run_skipping

HOUR = 3600.0


def test_a_queue_that_rests_for_an_hour_is_not_taken_for_silent(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    async def rest() -> tuple[list[str], list[str]]:
        cluster = cast("Cluster", None)  # nothing is asked of it: no such queue is known
        liveness = Liveness(asyncio.get_running_loop().time)
        around = Surroundings(
            settings=replace(settings, idle_period=HOUR),
            cluster=cluster,
            sightings=Sightings(lambda _: None),
            servers=RedisServers(cluster, tmp_path),
            tenancy=Tenancy(cluster, settings),
            recorder=Recorder(cluster, lambda: 0.0, "me"),
            metrics=Metrics(),
            liveness=liveness,
            wall=lambda: 0.0,
        )
        runner = asyncio.create_task(QueueRunner(("media", "thumbs"), around).run())
        await asyncio.sleep(HOUR - 1)
        resting = liveness.silent()
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        return resting, liveness.silent()

    assert run_skipping(rest()) == ([], [])
