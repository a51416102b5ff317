"""A node is cut off from the network with a worker on it that works on: the lease decides who may have its items."""

import time

import pytest

from claimq.model import Located, State
from testkit.on_cluster import ledger
from testkit.on_cluster.queue_on_cluster import QueueOnCluster
from testkit.on_cluster.release import Release

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

LEASE = 20.0


def test_a_node_that_is_cut_off_keeps_its_item_until_the_lease_ends(
    queue: QueueOnCluster, release: Release, far: str
) -> None:
    apply_one_on_each_node(queue)
    queue.wait("a worker is ready on each node", lambda: len(since := lives(queue)) == 2 and all(since))
    cut_off = next(name for name, pod in queue.pods().items() if pod["spec"]["nodeName"] == far)
    # So few that the other worker has nothing else to do when the lease ends.
    queue.enqueue(10, "first")
    queue.wait("it has an item", lambda: any(one.pod == cut_off for one in queue.ledger().of("began")))
    # It has one until the end of the lease and longer, and who gets it then will have it until the gate is open.
    (held,) = (claim for claim in in_flight(queue) if is_of(claim, cut_off))
    queue.open(*{f"first-{number}" for number in range(10)} - {held.item.text})

    release.cluster.cut_node(far)
    since = time.monotonic()
    seen = [held]

    def another_has_it() -> bool:
        seen.extend(claim for claim in in_flight(queue) if claim.item.id == held.item.id)
        return not is_of(seen[-1], cut_off)

    queue.wait("another has it", another_has_it, every=0.02)
    print(f"cut off to claimed by another: {time.monotonic() - since:.1f} s, with leases of {LEASE:g} s")
    last = [claim for claim in seen if is_of(claim, cut_off)][-1]
    assert last.lease_until is not None
    assert seen[-1].claimed_at is not None
    assert seen[-1].claimed_at >= last.lease_until, "two live claims"
    queue.open("first", "afterwards")
    queue.wait_until_done()
    print(f"cut off to all done: {time.monotonic() - since:.1f} s")
    counted = queue.counters()

    release.cluster.wait_for_node(far, ready=False)
    assert queue.replicas() == 2, "a node that is silent is no reason for another number of workers"
    release.cluster.restore_node(far)
    since = time.monotonic()
    late = (cut_off, "lost", held.item.id)
    queue.wait("its verdict is too late", lambda: late in reported(queue))
    print(f"on the network again to the late verdict answered: {time.monotonic() - since:.1f} s")
    assert queue.counters() == counted, "it changed something"
    assert (counted["done"], counted["crashes"], counted["expired"]) == (10, 1, 1)
    assert counted["in failed"] == 0

    def works_again() -> bool:
        # The other worker may be quicker: there is always something left.
        if queue.counters()["in main"] < 10:
            queue.enqueue(10, "afterwards")
        return any(
            one.pod == cut_off and one.text.startswith("afterwards") for one in queue.ledger().of("done")
        )

    queue.wait("it works again", works_again)
    queue.wait_until_done()
    written = queue.ledger()
    assert written.times("done") == dict.fromkeys(queue.known, 1)
    assert [one.pod == cut_off for one in written.of("lost")] == [True]
    began = {one.pod: one.at for one in written.of("began") if one.item == held.item.id}
    assert len(began) == 2
    assert max(began.values()) >= last.lease_until
    release.cluster.wait_for_node(far, ready=True)
    queue.wait("the status is right", queue.status_is_right)
    assert {count for count, _ in queue.lives().values()} == {0}, "a worker was restarted for it"


def apply_one_on_each_node(queue: QueueOnCluster) -> None:
    apart = {
        "labelSelector": {"matchLabels": {"claimq.dev/queue": queue.name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    queue.apply(
        program=ledger.GATED,
        seconds=0.3,
        busyExpiry=f"{LEASE:g}s",
        scaling={"minReplicas": 2, "maxReplicas": 2},
        worker={"template": {"spec": {"affinity": affinity}}},
    )


def lives(queue: QueueOnCluster) -> list[str]:
    """Since when each worker is ready; empty if it is not."""
    return [since for _, since in queue.lives().values()]


def in_flight(queue: QueueOnCluster) -> list[Located]:
    return queue.items.items(State.BUSY)


def is_of(claim: Located, pod: str) -> bool:
    return (claim.worker or "").partition(".")[0] == pod


def reported(queue: QueueOnCluster) -> set[tuple[str, str, str]]:
    return {(one.pod, one.what, one.item) for one in queue.ledger().entries}
