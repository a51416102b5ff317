"""A runner for each queue, and one alone."""

import asyncio
from pathlib import Path
from typing import Any, cast

from claimq_operator.cluster import Cluster, ClusterUnavailable
from claimq_operator.fleet import Fleet
from claimq_operator.liveness import Liveness
from claimq_operator.metrics import Metrics
from claimq_operator.recorder import Recorder
from claimq_operator.redis_servers import RedisServers
from claimq_operator.settings import OperatorSettings
from claimq_operator.sightings import Sightings
from claimq_operator.surroundings import Surroundings
from claimq_operator.tenancy import Tenancy
from testkit.waiting import eventually

Json = dict[str, Any]


class Silent:
    """A cluster whose API server does not answer."""

    async def apply(self, body: Json, *, manager: str, subresource: str = "") -> Json:
        raise ClusterUnavailable("no answer")


def queue(version: int, uid: str) -> Json:
    head = {"name": "thumbs", "namespace": "media", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": head, "spec": {}}


def runners() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "queue media/thumbs"]


async def test_a_queue_made_anew_has_a_runner_of_its_own_after_the_first_ones_end(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    fleet, metrics = Fleet(), Metrics()
    cluster = cast("Cluster", Silent())
    liveness = Liveness(asyncio.get_running_loop().time)
    sightings = Sightings(fleet.changed)
    fleet.settle_in(
        Surroundings(
            settings=settings,
            cluster=cluster,
            sightings=sightings,
            servers=RedisServers(cluster, tmp_path),
            tenancy=Tenancy(cluster, settings),
            recorder=Recorder(cluster, lambda: 0.0, "me"),
            metrics=metrics,
            liveness=liveness,
            wall=lambda: 0.0,
        )
    )
    fleet.listed.set()
    working = asyncio.create_task(fleet.work())
    sightings.see_queue(queue(1, "old"))
    await eventually(lambda: "queue media/thumbs" in liveness.ages())
    (first,) = runners()
    sightings.see_queue(queue(2, "new"))
    await eventually(first.done)
    (second,) = runners()
    assert second is not first
    # What the first let go of at its end, it did before the second took it.
    await eventually(lambda: "queue media/thumbs" in liveness.ages())
    sightings.see_queue(queue(2, "new"), is_gone=True)
    await eventually(lambda: runners() == [])
    assert "queue media/thumbs" not in liveness.ages()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
