"""`worker.concurrency` on a cluster: how much a worker gets at once, and what a change of it does to a live queue."""

import pytest

from testkit.on_cluster.queue_on_cluster import QueueOnCluster

pytestmark = pytest.mark.cluster

# Takes all that it is given and ends nothing.
GREEDY = """
import time, claimq.worker
held = []
with claimq.worker.connect() as worker:
    while not worker.draining:
        held += worker.claim(10, wait=1)
    time.sleep(600)
"""


def test_a_worker_holds_as_many_items_as_its_concurrency_also_after_a_change(
    queue: QueueOnCluster,
) -> None:
    queue.enqueue(20)
    worker = {"concurrency": 3, "drainTimeout": "1s"}
    queue.apply(program=GREEDY, worker=worker, scaling={"minReplicas": 1, "maxReplicas": 1})
    queue.wait("the worker has three in progress", lambda: list(queue.holders().values()) == [3])
    (first,) = queue.holders()
    queue.patch({"worker": {"concurrency": 5}})
    queue.wait(
        "another worker has five in progress and the first is gone",
        lambda: list(queue.holders().values()) == [5] and first not in queue.holders(),
    )
    counted = queue.counters()
    assert counted["in main"] + counted["in busy"] == 20
    assert (counted["crashes"], counted["fails"]) == (0, 0)
