"""Workers come when items do, as many as the rules say, and go: the idle ones, and never with an item in progress."""

import time
from collections.abc import Iterable

import pytest

from claimq_kubernetes.port import Json
from testkit.kubernetes.watching import watched
from testkit.on_cluster import ledger
from testkit.on_cluster.queue_on_cluster import QueueOnCluster

pytestmark = pytest.mark.cluster
AT_ONCE = {"stabilizationWindow": "0s"}


def decided(body: Json) -> tuple[str, int]:
    """Rule and number of the last decision in the object's status."""
    scaling: Json = body.get("status", {}).get("scaling", {})
    return scaling.get("rule", ""), scaling.get("replicas", -1)


def decision(queue: QueueOnCluster) -> tuple[str, int]:
    """Rule and number of the last decision."""
    return decided(queue.get())


def marked(pods: Iterable[Json]) -> set[str]:
    """The pods that the operator offers for a scale-down."""
    cost = "controller.kubernetes.io/pod-deletion-cost"
    return {
        pod["metadata"]["name"]
        for pod in pods
        if pod["metadata"].get("annotations", {}).get(cost, "0") != "0"
    }


def ending(pods: dict[str, Json]) -> set[str]:
    return {name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]}


def test_from_zero_by_age_to_the_maximum_and_back_to_zero(queue: QueueOnCluster) -> None:
    scaling = {"maxReplicas": 3, "targetAge": "2s", "idleAfter": "20s", "scaleDown": AT_ONCE}
    # Nothing is done before all are there: where pods start slowly, the items would not last.
    queue.apply(program=ledger.GATED, seconds=0, scaling=scaling)
    queue.wait("it rests", lambda: (queue.replicas(), queue.condition("Ready")) == (0, "True Working"))
    began = time.monotonic()
    began_at = time.time()  # noqa: TID251 - compared with what workers wrote by the clock of this machine's nodes
    queue.enqueue(1)
    queue.wait("a worker is ordered", lambda: queue.replicas() == 1, every=0.01)
    patched = time.monotonic() - began
    queue.wait("the item has a claim", lambda: bool(queue.ledger().of("began")), every=0.1)
    claimed = queue.ledger().of("began")[0].at - began_at
    print(
        f"from the first item to the Deployment patched {patched:.2f} s, to the first claim {claimed:.2f} s"
    )

    where = f"/apis/claimq.dev/v1alpha1/namespaces/{queue.namespace}/reliablequeues"
    with watched(queue.cluster, where) as bodies:

        def seen() -> list[tuple[str, int]]:
            return list(dict.fromkeys(map(decided, tuple(bodies))))

        queue.enqueue(45)
        queue.wait("there are as many as may be", lambda: queue.replicas() == 3)
        queue.wait("the last step is reported", lambda: decided(bodies[-1])[1] == 3)
        # Far more than three workers could start 45 items within 2 s.
        assert ("MaxReplicas", 3) in seen(), seen()
        queue.wait("the limit is reported", lambda: queue.condition("ScalingLimited") == "True MaxReplicas")
        queue.wait("each of them has an item", lambda: sorted(queue.holders().values()) == [1, 1, 1])
        queue.open(*(f"item-{number}" for number in range(45)))
        queue.wait_until_done()
        queue.wait("the workers are gone", lambda: not queue.pods())
        queue.wait("that is reported", lambda: decided(bodies[-1]) == ("Idle", 0))
        # All three were idle at once, and one stayed for idleAfter.
        assert ("IdleWait", 1) in seen(), seen()
        print(f"decisions: {seen()}")
    assert queue.ledger().times("done") == dict.fromkeys(queue.known, 1)
    assert queue.row()["WORKERS"] == "0/0"


def test_a_scale_down_takes_idle_workers_first_and_lets_busy_ones_finish(queue: QueueOnCluster) -> None:
    scaling = {"maxReplicas": 4, "itemsPerReplica": 1, "targetAge": "1h", "scaleDown": AT_ONCE}
    queue.apply(program=ledger.GATED, seconds=0, worker={"drainTimeout": "5m"}, scaling=scaling)
    queue.enqueue(4, "long")
    queue.wait("each of four has an item", lambda: sorted(queue.holders().values()) == [1, 1, 1, 1])
    # A worker writes down what it has a moment after the server has given it.
    queue.wait("each has written which", lambda: len(queue.ledger().of("began")) == 4)
    holder = {entry.text: entry.pod for entry in queue.ledger().of("began")}
    # Those that came first, which a ReplicaSet would rather keep, are the ones that become idle.
    ages = {name: pod["metadata"]["creationTimestamp"] for name, pod in queue.pods().items()}
    texts = sorted(holder, key=lambda text: ages[holder[text]])
    idle, busy = {holder[text] for text in texts[:2]}, {holder[text] for text in texts[2:]}

    def only_busy_ones_are_left() -> bool:
        pods = queue.pods()
        assert not busy & ending(pods), "a busy worker was chosen while an idle one was there"
        return set(pods) == busy

    selected = f"/api/v1/namespaces/{queue.namespace}/pods?labelSelector=claimq.dev/queue%3D{queue.name}"
    with watched(queue.cluster, selected) as states:
        queue.open(*texts[:2])
        queue.wait("the idle ones are gone", only_busy_ones_are_left)
        queue.wait("they were offered for it", lambda: marked(states) >= idle)
        assert marked(states) == idle
    limits = [("ItemsPerReplica", 2), ("WorkLeft", 2), ("BusyWorkers", 2)]
    queue.wait("the decision is reported", lambda: decision(queue) in limits)

    queue.patch({"scaling": {"maxReplicas": 1}})
    queue.wait("one of the busy ones is asked to end", lambda: len(ending(queue.pods())) == 1)
    # It is asked to end, and ends only with its item.
    chosen = ending(queue.pods()).pop()
    assert sorted(queue.holders().values()) == [1, 1]
    queue.open(*texts)
    queue.wait_until_done()
    queue.wait("it is gone", lambda: chosen not in queue.pods())
    assert queue.ledger().not_once(queue.known) == {}
    assert queue.counters()["crashes"] == 0


def test_by_hand_by_others_and_not_at_all(queue: QueueOnCluster) -> None:
    kubectl, where = queue.cluster.kubectl, f"--namespace={queue.namespace}"
    worker = {"drainTimeout": "5m"}
    queue.apply(program=ledger.GATED, seconds=0, worker=worker, scaling={"mode": "Manual", "replicas": 1})
    queue.wait("one as the manifest says", lambda: queue.replicas() == 1)
    kubectl("scale", f"rq/{queue.name}", where, "--replicas=2")
    queue.wait("two as a person says", lambda: (queue.replicas(), len(queue.pods())) == (2, 2))
    queue.wait("it is reported", lambda: queue.condition("ScalingActive") == "False Manual")

    queue.enqueue(5)
    queue.wait("both hold an item", lambda: sorted(queue.holders().values()) == [1, 1])
    queue.patch({"suspend": True})
    queue.wait("both are asked to end", lambda: len(ending(queue.pods())) == 2)
    assert sorted(queue.holders().values()) == [1, 1], "what is in progress is finished first"
    queue.open(*(f"item-{number}" for number in range(5)))
    queue.wait("they are gone", lambda: not queue.pods())
    queue.wait("it is reported", lambda: queue.condition("Suspended") == "True SpecSuspend")
    seen = queue.counters()
    assert (seen["done"], seen["in main"], seen["in busy"]) == (2, 3, 0)
    assert queue.items.claim(1) == [], "a suspended queue gives no claims to anybody"

    queue.patch({"suspend": False, "scaling": {"mode": "External", "replicas": None}})
    queue.wait("it is reported", lambda: queue.condition("ScalingActive") == "False External")
    assert (queue.replicas(), queue.counters()["in main"]) == (0, 3)
    kubectl("scale", f"deployment/{queue.name}-worker", where, "--replicas=1")
    queue.wait_until_done()
    # A pass over a changed spec, with all children applied, and with nothing to do: the number is not ours.
    before = set(queue.revisions())
    queue.patch({"worker": {"env": [*queue.get()["spec"]["worker"]["env"], {"name": "MORE", "value": "1"}]}})

    def is_acted_on() -> bool:
        body, now = queue.get(), set(queue.revisions())
        is_seen = body["status"]["observedGeneration"] == body["metadata"]["generation"]
        return is_seen and len(now) == 1 and not now & before and queue.row()["WORKERS"] == "1/1"

    queue.wait("the change is acted on", is_acted_on)
    assert queue.replicas() == 1
    assert queue.ledger().not_once(queue.known) == {}
