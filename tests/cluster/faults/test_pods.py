"""A pod ends with items in progress, by a user's will or the kubelet's: nothing is lost, only its own fault counts."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusterkit import Cluster
from testkit.on_cluster import ledger
from testkit.on_cluster.cluster_images import TAG
from testkit.on_cluster.queue_on_cluster import QueueOnCluster
from testkit.workers.one_worker import LEASE, ONE, TEXTS

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

GREEDY = (
    """
import time

def work(item):
    if item.text.startswith("bad"):
        while not server.sismember(ledger + ":gate", item.text):
            time.sleep(0.05)
        with open("/tmp/much", "wb") as file:
            file.write(bytes(40_000_000))
        time.sleep(3600)
"""
    + ledger.WORKER
)
SHELL = """
trap '' TERM
ask() { curl -sS --fail-with-body --unix-socket "$CLAIMQ_SOCKET" "http://claimq$1" -d "$2"; }
field() { printf %s "$reply" | sed -n "s/.*\\"$1\\":\\"\\([^\\"]*\\)\\".*/\\1/p"; }
note() {
  printf 'XADD %s * at %s pod %s what %s item %s text -\\r\\nQUIT\\r\\n' \\
    "$LEDGER" "$(date +%s.%N)" "$HOSTNAME" "$1" "$2" | curl -s -m 10 "telnet://$SERVER" >/dev/null
}
is_open() {
  printf 'SISMEMBER %s:gate %s\\r\\nQUIT\\r\\n' "$LEDGER" "$1" | curl -s -m 10 "telnet://$SERVER" | grep -q '^:1'
}
while reply=$(ask /v1/claim '{"max": 1, "wait": 5}'); do
  case $reply in *'"draining":true'*) break ;; esac
  token=$(field token)
  [ -n "$token" ] || continue
  id=$(field id)
  note began "$id"
  until is_open "$id"; do sleep 0.1; done
  note ended "$id"
  reply=$(ask /v1/done "{\\"tokens\\": [\\"$token\\"]}")
  note "$(field outcome)" "$id"
done
note left -
"""


def test_a_pod_deleted_by_force_gives_back_what_it_held(queue: QueueOnCluster) -> None:
    queue.apply(program=ledger.GATED, chunk=3, busyExpiry=LEASE, scaling=ONE)
    queue.enqueue(5)
    pod = queue.wait_for_a_holder(3)
    held = queue.in_flight(pod)
    with queue.timed_return(held.values(), "the pod is deleted by force", LEASE):
        queue.force_delete(pod)
    queue.open(*TEXTS)
    queue.wait_until_done()
    queue.prove_whole(held)
    print(f"\nas {'crashes' if queue.counters()['crashes'] else 'interruptions'}")


@contextmanager
def cordoned(cluster: Cluster, *nodes: str) -> Generator[None]:
    """No new pods on these nodes."""
    try:
        cluster.kubectl("cordon", *nodes)
        yield
    finally:
        cluster.kubectl("uncordon", *nodes)


def test_claims_of_a_pod_that_outlives_its_deletion_stay_its_own(queue: QueueOnCluster, far: str) -> None:
    # On a node that no other test needs: after 20 s without its kubelet its pods count as not ready.
    with cordoned(queue.cluster, queue.cluster.nodes[0]):
        queue.apply(program=ledger.GATED, busyExpiry=LEASE, scaling=ONE)
        (first,) = queue.enqueue(1)
        pod = queue.wait_for_a_holder()
    held = queue.in_flight(pod)
    with cordoned(queue.cluster, far):
        queue.cluster.stop_kubelet(far)
        try:
            queue.force_delete(pod)
            (second,) = queue.enqueue(1)
            queue.wait("another pod has come and works", lambda: len(queue.holders()) == 2)
            assert queue.in_flight(pod).keys() == held.keys() == {first}
            assert queue.in_flight(pod)[first].name == held[first].name
            queue.open(*TEXTS)
            queue.wait_until_done()
        finally:
            queue.cluster.start_kubelet(far)
    queue.prove_whole()
    assert queue.ledger().pods_of("done")[first] == {pod}
    assert queue.ledger().pods_of("done")[second] != {pod}
    assert queue.counters()["claimed"] == 2


def test_an_item_for_which_its_pod_is_evicted_counts_and_ends_in_failed(queue: QueueOnCluster) -> None:
    limits = {"limits": {"ephemeral-storage": "10Mi"}}
    queue.apply(program=GREEDY, busyExpiry=LEASE, requeueLimit=0, scaling=ONE, worker={"resources": limits})
    bad = queue.enqueue(1, "bad")
    queue.enqueue(2, "good")
    pod = queue.wait_for_a_holder()
    held = queue.in_flight(pod)
    # It goes back before the cause is known: no other worker may claim it in between, as it would be evicted too.
    with cordoned(queue.cluster, *queue.cluster.nodes):
        with queue.timed_return(held.values(), "the pod is evicted for what it used", LEASE):
            queue.open("bad-0")
        queue.wait("the item is in failed", lambda: queue.counters()["in failed"] == 1)
    queue.wait_until_done(2)
    (failed,) = queue.items.items("failed")
    queue.prove_whole(bad, failed=bad)
    words = failed.item.last_error or ""
    assert "evicted (Pod ephemeral local storage usage exceeds the total limit of containers 10Mi.)" in words
    assert f"pod {pod}, node " in words
    assert (failed.item.crash_count, failed.item.interrupted_count) == (1, 0)
    print(f"\n{words}")


def test_a_pod_that_is_evicted_finishes_what_it_holds(queue: QueueOnCluster) -> None:
    # Its drain takes as long as it takes another one to come.
    queue.apply(program=ledger.GATED, busyExpiry=LEASE, scaling=ONE, worker={"drainTimeout": "5m"})
    queue.enqueue(3)
    pod = queue.wait_for_a_holder()
    (held,) = queue.in_flight(pod)
    queue.evict(pod)
    queue.wait("the pod is asked to end", lambda: "deletionTimestamp" in queue.pods()[pod]["metadata"])
    queue.wait("another one works", lambda: len(queue.holders()) == 2)
    queue.open(*TEXTS)
    queue.wait_until_done()
    queue.prove_whole()
    assert queue.ledger().pods_of("done")[held] == {pod}
    assert queue.counters()["claimed"] == 3


def test_an_eviction_that_an_item_outlasts_is_an_interruption(queue: QueueOnCluster) -> None:
    queue.apply(
        program=ledger.GATED, busyExpiry=LEASE, requeueLimit=0, scaling=ONE, worker={"drainTimeout": "1s"}
    )
    queue.enqueue(1)
    pod = queue.wait_for_a_holder()
    held = queue.in_flight(pod)
    with queue.timed_return(held.values(), "the pod is evicted by the API", LEASE):
        queue.evict(pod)
    (item,) = (queue.item(one) for one in held)
    assert item is not None
    assert (item.interrupted_count, item.crash_count, item.requeue_count) == (1, 0, 0)
    assert [entry.kind for entry in item.history] == ["interrupt"]
    queue.open(*TEXTS)
    queue.wait_until_done()
    queue.prove_whole(held)
    assert queue.counters()["crashes"] == 0


@pytest.fixture(scope="session")
def shell_image(kubernetes: Cluster) -> str:
    """A shell and curl: an app that knows nothing of claimq."""
    dockerfile = Path(__file__).parents[1] / "images" / "shell.Dockerfile"
    return kubernetes.load_image(kubernetes.build_image(dockerfile, f"claimq-test-shell:{TAG}"))


def test_a_shell_loop_that_ignores_sigterm_drains_without_a_repeat(
    queue: QueueOnCluster, shell_image: str
) -> None:
    server = queue.release.redis_url.removeprefix("redis://").removesuffix("/0")
    env = {"LEDGER": ledger.key(queue.on_server), "SERVER": server}
    queue.apply(
        busyExpiry=LEASE,
        scaling=ONE,
        worker={
            "image": shell_image,
            "command": ["/bin/sh", "-c"],
            "args": [SHELL],
            "drainTimeout": "5m",
            "env": [{"name": name, "value": value} for name, value in env.items()],
        },
    )
    numbers = queue.enqueue(3)
    pod = queue.wait_for_a_holder()
    (held,) = queue.in_flight(pod)
    grace = queue.pods()[pod]["spec"]["terminationGracePeriodSeconds"]
    queue.cluster.kubectl("delete", "pod", pod, f"--namespace={queue.namespace}", "--wait=false")
    queue.wait("it drains", lambda: queue.claims_no_more(pod))
    queue.open(held)
    since = time.monotonic()
    queue.wait_until_gone(pod)
    took = time.monotonic() - since
    print(f"\nthe shell's pod was gone {took:.1f} s after its item's end; its grace is {grace} s")
    # It left by itself: the kubelet, which would have waited for the whole grace, did not have to kill it.
    assert [entry.pod for entry in queue.ledger().of("left")] == [pod]
    queue.open(*numbers)
    queue.wait_until_done()
    queue.prove_whole()
    assert queue.ledger().pods_of("done")[held] == {pod}
    assert queue.counters()["claimed"] == 3
