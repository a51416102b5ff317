"""A process dies with items in progress: the items go back at once, whole, and for the reason that it was.

The lease is five minutes in all of these: what comes back during the test comes back because its end was noticed.
"""

import pytest

from testkit.on_cluster import ledger
from testkit.on_cluster.queue_on_cluster import APP, SIDECAR, QueueOnCluster
from testkit.workers.one_worker import LEASE, ONE, TEXTS

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

OUT_OF_MEMORY = (
    """
import time

def work(item):
    if item.text.startswith("bad"):
        while item.crash_count and not server.sismember(ledger + ":gate", item.text):
            time.sleep(0.05)
        bytearray(200_000_000)
"""
    + ledger.WORKER
)
STUCK = (
    """
import time

def work(item):
    if not item.crash_count and not item.requeue_count:
        time.sleep(3600)
"""
    + ledger.WORKER
)


RENEWED = "15s"
"""A lease that a sidecar renews in time, also on a busy machine."""


def last_words(queue: QueueOnCluster, number: str) -> str:
    """What the newest line of an item's history says."""
    item = queue.item(number)
    return item.history[-1].error if item is not None and item.history else ""


def test_an_app_that_is_killed_costs_one_repeat_of_what_it_held(queue: QueueOnCluster) -> None:
    queue.apply(program=ledger.GATED, chunk=3, busyExpiry=LEASE, scaling=ONE)
    queue.enqueue(5)
    pod = queue.wait_for_a_holder(3)
    held = queue.in_flight(pod)
    with queue.timed_return(held.values(), "the app is killed", LEASE):
        queue.kill_container(pod)
    cause = f"{APP} ended: exit code 137 (signal 9); pod {pod}, node {queue.pods()[pod]['spec']['nodeName']}, image "
    queue.wait(
        "the items know the cause", lambda: all(last_words(queue, one).startswith(cause) for one in held)
    )
    queue.open(*TEXTS)
    queue.wait_until_done()
    queue.prove_whole(held)
    assert queue.counters()["crashes"] == len(held) == 3
    queue.wait(
        "it is reported as an event",
        lambda: (
            f"returned 3 claims of terminated containers: {cause}"
            in (queue.events().get("ClaimsGivenBack", ""))
        ),
    )


def test_a_sidecar_that_is_killed_costs_one_repeat_of_what_its_app_held(queue: QueueOnCluster) -> None:
    queue.apply(program=ledger.GATED, chunk=3, busyExpiry=LEASE, scaling=ONE)
    queue.enqueue(5)
    pod = queue.wait_for_a_holder(3)
    held = queue.in_flight(pod)
    with queue.timed_return(held.values(), "the sidecar is killed", LEASE):
        queue.kill_container(pod, SIDECAR)
    cause = f"{SIDECAR} ended: exit code 137 (signal 9); pod {pod},"
    queue.wait(
        "the items know the cause", lambda: all(last_words(queue, one).startswith(cause) for one in held)
    )
    # The kubelet knows whose claims they were: the next run may have begun in the second in which this one did.
    (sidecar,) = queue.pods()[pod]["status"]["initContainerStatuses"]
    ended = sidecar["state"].get("terminated") or sidecar["lastState"]["terminated"]
    assert {ended["message"]} == {one.worker for one in held.values()}
    queue.open(*TEXTS)
    queue.wait_until_done()
    queue.prove_whole(held)
    assert queue.counters()["crashes"] == 3


def test_an_item_that_always_runs_out_of_memory_ends_in_failed_with_the_reason(queue: QueueOnCluster) -> None:
    limits = {"limits": {"memory": "64Mi"}}
    queue.apply(
        program=OUT_OF_MEMORY, busyExpiry=LEASE, requeueLimit=1, scaling=ONE, worker={"resources": limits}
    )
    bad = queue.enqueue(1, "bad")
    queue.enqueue(4, "good")

    def reported() -> list[str]:
        item = queue.item(bad[0])
        return [] if item is None else [entry.error for entry in item.history]

    # The kubelet reports one end at a time, the last: the next run waits until the first end is recorded.
    queue.wait(
        "the first run's end is recorded", lambda: reported()[:1] and reported()[0].startswith(f"{APP} ended")
    )
    ((pod, body),) = queue.pods().items()
    where = (
        f"pod {pod}, node {body['spec']['nodeName']}, image {body['status']['containerStatuses'][0]['image']}"
    )
    wanted = [f"{APP} ended: OOMKilled, exit code 137 (signal 9); {where}, run {run}" for run in (1, 2)]

    assert reported() == wanted[:1]
    queue.open("bad-0")
    queue.wait_until_done(4)
    (failed,) = queue.items.items("failed")
    queue.wait("each run's end is recorded", lambda: reported() == wanted)
    queue.prove_whole(bad, failed=bad)
    assert (failed.item.id, failed.item.crash_count, failed.item.requeue_count) == (bad[0], 2, 1)
    print(f"\n{reported()}")


def test_an_item_over_its_processing_time_restarts_the_app_and_is_one_crash(queue: QueueOnCluster) -> None:
    # The lease of such an item is renewed no more, so here it is the lease that gives it back; the app is ended for it.
    queue.apply(
        program=STUCK,
        busyExpiry=RENEWED,
        processingTimeout="20s",
        scaling=ONE,
        worker={"drainTimeout": "1s"},
    )
    (number,) = queue.enqueue(1)
    pod = queue.wait_for_a_holder()
    held = queue.in_flight(pod)
    with queue.timed_return(held.values(), "the app is stuck", f"{RENEWED} after its processing time of 20s"):
        pass
    queue.wait("the app is started again", lambda: restarts(queue, pod) == 1)
    queue.wait_until_done()
    seen, written = queue.counters(), queue.ledger()
    assert (seen["done"], seen["crashes"], seen["expired"], seen["in failed"]) == (1, 1, 1, 0)
    assert (written.times("done"), written.times("began")) == ({number: 1}, {number: 2})
    assert set(queue.pods()) == {pod}


def test_an_app_that_hangs_with_an_item_that_was_requeued_is_started_again(queue: QueueOnCluster) -> None:
    queue.apply(program=STUCK, busyExpiry=RENEWED, processingTimeout="20s", scaling=ONE)
    (number,) = queue.enqueue(1)
    pod = queue.wait_for_a_holder()
    queue.items.requeue([one.name for one in queue.in_flight(pod).values()])
    queue.wait("the app is started again", lambda: restarts(queue, pod) == 1)
    queue.wait_until_done()
    seen, written = queue.counters(), queue.ledger()
    assert (seen["done"], seen["crashes"], seen["in failed"]) == (1, 0, 0)
    assert (written.times("done"), written.times("began")) == ({number: 1}, {number: 2})


def restarts(queue: QueueOnCluster, pod: str) -> int:
    """How often the app's container has been started again."""
    return int(queue.pods()[pod]["status"]["containerStatuses"][0]["restartCount"])
