"""A process dies with items in hand: the items go back at once, whole, and for the reason that it was."""

import pytest

from testkit.queue_on_cluster import QueueOnCluster

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]


def test_an_app_that_is_killed_costs_one_repeat(queue: QueueOnCluster) -> None:
    # A lease of five minutes: whatever comes back during the test comes back because somebody knew.
    queue.apply(seconds=2, busyExpiry="5m", scaling={"minReplicas": 1, "maxReplicas": 1})
    ids = queue.enqueue(3)
    pod = queue.wait_for_a_holder()
    queue.kill_container(pod)
    queue.wait_until_done()
    seen = queue.counters()
    assert (seen["done"], seen["in failed"], seen.get("expired", 0)) == (3, 0, 0)
    assert seen["crashes"] == 1
    ledger = queue.ledger()
    assert ledger.times("done") == dict.fromkeys(ids, 1)
