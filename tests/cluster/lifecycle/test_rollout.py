"""The workers' template changes under load: old workers finish what they hold; nothing is lost, failed or repeated."""

import time
from uuid import uuid4

import pytest

import claimq
from claimq_kubernetes.port import Json
from testkit.on_cluster.queue_on_cluster import APP, QueueOnCluster

pytestmark = pytest.mark.cluster

# Only the first pod that asks is ever ready: a change to it stays in its middle for as long as a test wants.
ONLY_THE_FIRST = """
import os, socket, redis
server = redis.Redis.from_url(os.environ["LEDGER_URL"])
key, own = os.environ["LEDGER"] + ":first", socket.gethostname()
server.set(key, own, nx=True)
raise SystemExit(server.get(key) != own.encode())
"""


def never_through() -> Json:
    """A worker whose change reaches one pod and never a second."""
    probe = {"exec": {"command": ["python", "-c", ONLY_THE_FIRST]}, "periodSeconds": 2, "timeoutSeconds": 30}
    return {"template": {"spec": {"containers": [{"name": APP, "readinessProbe": probe}]}}}


def keep_loaded(queue: QueueOnCluster) -> None:
    """More items whenever hardly any waits: the workers are never without. Under ids from here, and until the server
    has answered: as a part of a wait it may be out of reach, and an item that it took all the same would be unknown."""
    if queue.counters()["in main"] < 20:
        items = [claimq.NewItem(f"item-{number}", id=uuid4().hex) for number in range(30)]
        queue.wait("more items are enqueued", lambda: queue.items.enqueue_many(items))
        queue.known.extend(str(item.id) for item in items)


def versions(queue: QueueOnCluster, what: str = "done") -> list[str]:
    return sorted({entry.version for entry in queue.ledger().of(what)})


def test_two_overlapping_rollouts_cost_no_item_an_attempt(
    queue: QueueOnCluster,
) -> None:
    scaling = {"minReplicas": 3, "maxReplicas": 3}
    patient = {"drainTimeout": "3m"}  # a machine that is busy takes longer than the usual 20 s for an item
    queue.apply(version="1", seconds=0.3, scaling=scaling, worker=patient)
    queue.enqueue(60)
    queue.wait("version 1 works", lambda: versions(queue) == ["1"])

    (first,) = queue.revisions()

    def is_in_its_middle() -> bool:
        keep_loaded(queue)
        left = queue.revisions().get(first, set())
        return len(left) == 2 and "2" in versions(queue, "began")

    queue.apply(version="2", seconds=0.3, scaling=scaling, worker=never_through() | patient)
    queue.wait("version 2 works too, in the place of one of version 1", is_in_its_middle)
    queue.apply(version="3", seconds=0.3, scaling=scaling, worker=patient)

    def only_the_last_is_left() -> bool:
        keep_loaded(queue)
        pods = queue.pods()
        writers = {entry.pod for entry in queue.ledger().of("began") if entry.version == "3"}
        return len(pods) == 3 and set(pods) <= writers

    queue.wait("three workers of version 3 work and no other is left", only_the_last_is_left)
    queue.wait_until_done()
    seen = queue.counters()
    assert queue.ledger().not_once(queue.known) == {}
    assert versions(queue) == ["1", "2", "3"]
    assert seen["done"] == len(queue.known)
    assert [seen.get(what, 0) for what in ("failed", "requeued", "crashes", "expired")] == [0, 0, 0, 0]
    queue.wait("all is well", lambda: queue.condition("WorkersAvailable") == "True AllReady")


def test_an_image_that_does_not_exist_leaves_the_old_workers_at_work_and_says_so(
    queue: QueueOnCluster,
) -> None:
    scaling = {"minReplicas": 2, "maxReplicas": 2}
    queue.apply(scaling=scaling)
    queue.wait("both work", lambda: queue.condition("WorkersAvailable") == "True AllReady")
    before = set(queue.pods())
    queue.patch({"worker": {"image": "registry.example/missing:1"}})

    def says_so() -> bool:
        said = queue.message("WorkersAvailable")
        verdicts = {queue.condition(kind) for kind in ("WorkersAvailable", "Ready")}
        is_named = ("ImagePullBackOff" in said or "ErrImagePull" in said) and "spec.worker.image" in said
        return is_named and verdicts == {"True RolloutBlocked"}

    queue.wait("the conditions name the fault and the field", says_so)
    queue.enqueue(40)
    queue.wait_until_done()
    assert {entry.pod for entry in queue.ledger().of("done")} <= before
    queue.patch({"worker": {"image": queue.release.images.sidecar}})
    queue.wait("all is well again", lambda: queue.condition("WorkersAvailable") == "True AllReady")
    queue.wait("the broken pod is gone", lambda: set(queue.pods()) == before)
    queue.wait("that is reported", lambda: queue.condition("Ready") == "True Working")


def allow(queue: QueueOnCluster, kind: str, spec: Json) -> None:
    """Limits the pods of the queue's namespace."""
    limit = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "limit"}, "spec": spec}
    queue.cluster.apply(limit, namespace=queue.namespace)


def test_a_rollout_that_a_full_quota_stops_is_reported_with_the_field_for_it(
    queue: QueueOnCluster,
) -> None:
    scaling = {"minReplicas": 2, "maxReplicas": 2}
    allow(queue, "ResourceQuota", {"hard": {"pods": "2"}})
    queue.apply(version="1", scaling=scaling)
    queue.wait("both work", lambda: queue.condition("WorkersAvailable") == "True AllReady")
    before = set(queue.pods())
    queue.apply(version="2", scaling=scaling)

    def is_blocked() -> bool:
        verdicts = {queue.condition(kind) for kind in ("WorkersAvailable", "Ready")}
        return verdicts == {"True RolloutBlocked"} and "exceeded quota" in queue.message("WorkersAvailable")

    queue.wait("the conditions name the quota", is_blocked)
    assert "spec.worker.maxUnavailable" in queue.message("WorkersAvailable")
    assert set(queue.pods()) == before
    queue.patch({"worker": {"maxUnavailable": 1}})

    def is_done_after_a_nudge() -> bool:
        # As docs/reference/status.md says: without it, Kubernetes tries after pauses that grow to 16 minutes.
        nudge = f"again={time.monotonic_ns()}"
        queue.cluster.kubectl(
            "annotate", "replicaset", "--all", nudge, "--overwrite", f"--namespace={queue.namespace}"
        )
        return not before & set(queue.pods()) and queue.condition("WorkersAvailable") == "True AllReady"

    queue.wait("the rollout is done", is_done_after_a_nudge)


def test_a_limit_range_that_refuses_the_sidecar_is_reported_with_its_field(queue: QueueOnCluster) -> None:
    allow(queue, "LimitRange", {"limits": [{"type": "Container", "max": {"memory": "200Mi"}}]})
    queue.apply(scaling={"minReplicas": 1, "maxReplicas": 1})

    def says_so() -> bool:
        message = queue.message("WorkersAvailable")
        return (
            "maximum memory usage per Container is 200Mi" in message and "spec.sidecar.resources" in message
        )

    queue.wait("the condition names the limit and the field", says_so)
    assert queue.condition("WorkersAvailable") == "False FailedCreate"
    queue.patch({"sidecar": {"resources": {"limits": {"memory": "128Mi"}}}})
    queue.wait("the worker is ready", lambda: queue.condition("WorkersAvailable") == "True AllReady")
