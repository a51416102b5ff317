"""Counts the workers with an item that scale-downs stop while idle ones could go, over many scale-downs."""

import time
from dataclasses import dataclass, field
from typing import Any

from claimq_bench.meter import must
from claimq_bench.on_cluster.deaths import LONGEST, finished, settled
from claimq_bench.on_cluster.place import QUEUES
from claimq_bench.on_cluster.reaction import accounted_for
from testkit.on_cluster import ledger
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import Release

WORKERS, BUSY = 4, 2
"""Workers before each scale-down, and those of them that have an item. As many stay as have one."""


@dataclass
class Found:
    """``busy_stopped``: workers with an item that were stopped. ``newest_busy``: those among the newest workers, which
    a ReplicaSet alone would have stopped. ``took``: seconds from the change of the manifest to the end of the pods.
    """

    busy_stopped: int = 0
    newest_busy: int = 0
    took: list[float] = field(default_factory=list[float])


def measure(release: Release, rounds: int) -> Found:
    """WrongResult if an item is lost, failed or done twice."""
    found = Found()
    with queue_on(release, QUEUES, "shrinking") as queue:
        queue.apply(program=ledger.GATED, seconds=0, scaling=_scaling(WORKERS))
        for number in range(rounds):
            _round(queue, number, found)
        accounted_for(queue)
        queue.cluster.kubectl("delete", "rq", queue.name, f"--namespace={QUEUES}")
    return found


def _round(queue: QueueOnCluster, number: int, found: Found) -> None:
    settled(queue, WORKERS)
    texts = [f"round-{number}-{at}" for at in range(BUSY)]
    queue.enqueue(BUSY, f"round-{number}")
    queue.wait("the items are claimed", lambda: len(queue.holders()) == BUSY, timeout=LONGEST, every=0.1)
    busy, pods = set(queue.holders()), queue.pods()
    by_age = sorted(pods, key=lambda name: str(pods[name]["metadata"]["creationTimestamp"]))
    found.newest_busy += len(busy.intersection(by_age[BUSY:]))

    began = time.monotonic()
    queue.patch({"scaling": _scaling(BUSY)})
    queue.wait("the others end", lambda: len(_staying(queue)) <= BUSY, timeout=LONGEST, every=0.1)
    found.took.append(time.monotonic() - began)
    found.busy_stopped += len(busy - _staying(queue))

    queue.open(*texts)
    finished(queue)
    must(len(_staying(queue)) == BUSY, "there are fewer workers than the manifest asks for")
    queue.patch({"scaling": _scaling(WORKERS)})


def _staying(queue: QueueOnCluster) -> set[str]:
    """The pods that are not asked to end."""
    return {name for name, pod in queue.pods().items() if "deletionTimestamp" not in pod["metadata"]}


def _scaling(workers: int) -> dict[str, Any]:
    return {"minReplicas": workers, "maxReplicas": workers, "scaleDown": {"stabilizationWindow": "0s"}}
