"""A queue is deleted, alone or with its namespace: its workers end in good order and its items become what its
deletionPolicy says."""

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from clusterkit import Cluster
from clusterkit.commands import WAIT, eventually
from testkit.on_cluster import ledger
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import Release, create_namespace

pytestmark = pytest.mark.cluster

UNREACHABLE = "redis://missing.example.invalid:6379/0"
POLICIES = ("Retain", "DeleteIfEmpty", "Delete")


@contextmanager
def holding(
    release: Release, where: str, items: dict[str, tuple[str, int]], drain: str
) -> Generator[dict[str, QueueOnCluster]]:
    """Queues, name to (deletionPolicy, number of items), each with one worker that has one of its items in progress."""
    with ExitStack() as stack:
        queues = {name: stack.enter_context(queue_on(release, where, name)) for name in items}
        for name, (policy, count) in items.items():
            queues[name].apply(
                program=ledger.GATED,
                seconds=0,
                deletionPolicy=policy,
                worker={"drainTimeout": drain},
                scaling={"minReplicas": 1, "maxReplicas": 1},
            )
            queues[name].enqueue(count)
        for queue in queues.values():
            queue.wait_for_a_holder()
        yield queues


def left(cluster: Cluster, where: str) -> list[str]:
    """Objects of ours in a namespace."""
    kinds = "reliablequeues,deployments,replicasets,pods,poddisruptionbudgets,secrets,services,configmaps"
    names = cluster.kubectl("get", kinds, f"--namespace={where}", "-o", "name").split()
    return [name for name in names if name != "configmap/kube-root-ca.crt"]


def test_each_policy_does_with_items_in_flight_and_waiting_what_the_docs_say(
    release: Release, team: str
) -> None:
    made = {"retain": ("Retain", 3), "kept": ("DeleteIfEmpty", 3), "empty": ("DeleteIfEmpty", 1)}
    made["delete"] = ("Delete", 3)
    with holding(release, team, made, drain="5m") as queues:
        retain, kept, empty, delete = queues.values()
        finalizers = {name: queue.get()["metadata"].get("finalizers") for name, queue in queues.items()}
        needed = ["claimq.dev/deletion-policy"]
        assert finalizers == {"retain": None, "kept": needed, "empty": needed, "delete": needed}
        for queue in queues.values():
            queue.delete()
        for queue in queues.values():
            queue.wait("its worker is asked to end", partial(_all_end, queue))
        # Retain does not wait; the others wait for what is in progress.
        assert {name: queue.is_gone() for name, queue in queues.items()} == {
            "retain": True,
            "kept": False,
            "empty": False,
            "delete": False,
        }
        assert [sum(queue.holders().values()) for queue in queues.values()] == [1, 1, 1, 1]
        for queue in queues.values():
            # The kubelet ends a pod a moment after the API server has its deletion.
            queue.wait("claims have stopped", partial(_claims_have_stopped, queue))
        began = time.monotonic()
        for queue in queues.values():
            queue.open(*(f"item-{number}" for number in range(3)))
        for queue in queues.values():
            queue.wait("it is gone", queue.is_gone)
        eventually("nothing is left", lambda: left(release.cluster, team) == [])
        print(f"all gone {time.monotonic() - began:.1f} s after the items in progress were finished")

        for queue in queues.values():
            # What was in progress was finished, and nothing else was begun in between.
            assert list(queue.ledger().times("done").values()) == [1]
            assert queue.ledger().times("began") == queue.ledger().times("done")
        assert (empty.keys(), delete.keys()) == (set(), set())
        for queue in (retain, kept):
            seen = queue.counters()
            assert (seen["in main"], seen["in busy"], seen["done"]) == (2, 0, 1)
            assert not queue.items.snapshot().paused, "no worker could claim them"
        reported = {
            name: {"ItemsRemoved", "ItemsKept", "ItemsLeftBehind"} & queue.events().keys()
            for name, queue in queues.items()
        }
        assert reported == {
            "retain": set(),
            "kept": {"ItemsKept"},
            "empty": {"ItemsRemoved"},
            "delete": {"ItemsRemoved"},
        }
        assert delete.events()["ItemsRemoved"].endswith("with 2 items")
        # The same queue, applied again, continues with its items.
        kept.apply(scaling={"minReplicas": 1, "maxReplicas": 1})
        kept.wait_until_done(3)


def _claims_have_stopped(queue: QueueOnCluster) -> bool:
    return all(map(queue.claims_no_more, queue.pods()))


def _all_end(queue: QueueOnCluster) -> bool:
    pods = queue.pods()
    return bool(pods) and all("deletionTimestamp" in pod["metadata"] for pod in pods.values())


@contextmanager
def doomed(cluster: Cluster, name: str) -> Generator[str]:
    """A namespace that the test deletes."""
    create_namespace(cluster, name)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def delete_namespace(cluster: Cluster, name: str) -> None:
    """Deletes it and waits until it is gone; prints how long that took."""
    began = time.monotonic()
    cluster.kubectl("delete", "namespace", name, WAIT)
    print(f"the namespace {name} was gone after {time.monotonic() - began:.1f} s")


def test_a_namespace_with_a_queue_of_each_policy_goes_away_wholly(release: Release) -> None:
    with doomed(release.cluster, "doomed") as where:
        made = {policy.lower(): (policy, 3) for policy in POLICIES}
        with holding(release, where, made, drain="3s") as queues:
            # One more whose address is in a Secret, which may go before the queue does.
            secret = ("create", "secret", "generic", "redis", f"--namespace={where}")
            release.cluster.kubectl(*secret, f"--from-literal=url={release.redis_url}")
            with queue_on(release, where, "secret") as by_secret:
                redis = {"secretRef": {"name": "redis"}}
                by_secret.apply(redis=redis, deletionPolicy="Delete", scaling={"minReplicas": 1})
                by_secret.wait("it works", lambda: by_secret.condition("WorkersAvailable") == "True AllReady")
                delete_namespace(release.cluster, where)
            # The gate stayed closed: what was in progress went back, uncounted, when the drain time was over.
            for name in ("retain", "deleteifempty"):
                seen = queues[name].counters()
                assert (seen["in main"], seen["in busy"], seen["in failed"]) == (3, 0, 0)
                assert (seen["crashes"], seen["expired"]) == (0, 0)
            assert queues["delete"].keys() == set()


def test_a_deletion_gives_up_on_a_server_that_is_gone_for_good(release: Release, team: str) -> None:
    cluster = release.cluster
    with (
        release.operator_with(CLAIMQ_DELETION_PATIENCE="8s"),
        doomed(cluster, "doomed-too") as where,
        queue_on(release, team) as alone,
        queue_on(release, where) as with_namespace,
    ):
        for queue in (alone, with_namespace):
            queue.apply(redis={"url": UNREACHABLE}, deletionPolicy="Delete", scaling={"minReplicas": 1})
        for queue in (alone, with_namespace):
            queue.wait("it is reported", partial(_is_unreachable, queue))
        alone.delete()
        delete_namespace(cluster, where)
        alone.wait("it is gone", alone.is_gone)
        reported = alone.events()
        assert "ItemsLeftBehind" in reported, f"no event reports the items that are left: {reported}"
        said = reported["ItemsLeftBehind"]
        assert f"`claimq delete {alone.on_server} --redis URL`" in said, "it does not say what to run"
        assert "no server answers there" in said, "it does not say why"
        eventually("nothing is left", lambda: left(cluster, team) == [])


def _is_unreachable(queue: QueueOnCluster) -> bool:
    return queue.condition("RedisReachable") == "False Unreachable"
