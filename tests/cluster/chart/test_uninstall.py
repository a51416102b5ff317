"""What an uninstall does with queues, and what it leaves of all that a release has made."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clusterkit import Cluster, CommandFailed, HarnessError
from clusterkit.commands import WAIT, eventually
from testkit.on_cluster.queue_on_cluster import queue_on
from testkit.on_cluster.release import CRD, Release

pytestmark = pytest.mark.cluster

HOLD = "example.com/hold"
# Records of what has happened, and the volumes of a StatefulSet, which Kubernetes keeps for the next one.
KEPT = {"Event", "PersistentVolume", "PersistentVolumeClaim"}
NAMESPACES = {"Namespace"}


def everything(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Every object of the cluster, of every kind that can be listed."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    # Each event is there twice, by its old name and by its new one.
    wanted = ",".join(kind for kind in kinds if kind != "events.events.k8s.io")
    yield from json.loads(cluster.kubectl("get", wanted, "--all-namespaces", "-o", "json"))["items"]


def traces(cluster: Cluster) -> set[str]:
    """Objects that were made by a release or by its operator, or that still say something of it."""
    found: set[str] = set()
    for one in everything(cluster):
        # The namespaces that tests work in, and whose name each object in them bears, are the tests'.
        metadata = {key: value for key, value in one["metadata"].items() if key != "namespace"}
        if one["kind"] not in KEPT | NAMESPACES and "claimq" in json.dumps(metadata):
            found.add(f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}")
        if {"claimq.dev/deletion-policy"} & set(one["metadata"].get("finalizers", ())):
            found.add(f"finalizer of {one['metadata']['name']}")
    return found


def wait_for_no_trace(cluster: Cluster, is_meant: Callable[[str], bool] = lambda _: True) -> None:
    """Until nothing is left of a release. A kind that goes while it is listed makes the listing fail: not yet."""
    seen = ["nothing could be listed"]

    def is_clean() -> bool:
        try:
            seen[:] = [one for one in traces(cluster) if is_meant(one)]
        except CommandFailed as error:
            seen[:] = [str(error)]
        return not seen

    eventually("nothing of the release is left", is_clean, every=1.0, why_not=lambda: str(seen))


def uninstall(release: Release) -> None:
    release.cluster.helm("uninstall", release.name, f"--namespace={release.namespace}", "--wait", WAIT)


def test_an_uninstall_keeps_queues_and_workers_for_the_next_install(
    kubernetes: Cluster, release: Release, team: str
) -> None:
    with queue_on(release, team) as queue:
        queue.apply(scaling={"minReplicas": 1, "maxReplicas": 1})
        queue.enqueue(10)
        queue.wait_until_done()
        before = set(queue.pods())
    try:
        _uninstalled_but_for_the_queue(kubernetes, release, team)
    finally:
        release.install_as_usual()
    with queue_on(release, team) as queue:
        queue.enqueue(10, "more")
        queue.wait_until_done(20)
        assert set(queue.pods()) == before


def _uninstalled_but_for_the_queue(kubernetes: Cluster, release: Release, team: str) -> None:
    uninstall(release)
    assert CRD in kubernetes.kubectl("get", "crd", "-o", "name")
    # Its worker goes on: with the server back it would work.
    assert release.get("deployment/work-worker", f"--namespace={team}")["spec"]["replicas"] == 1
    release.delete_the_tests_pod()
    left = {
        f"CustomResourceDefinition /{CRD}",
        "APIService /v1alpha1.claimq.dev",
        f"ReliableQueue {team}/work",
        f"Deployment {team}/work-worker",
        f"PodDisruptionBudget {team}/work-worker",
    }

    def is_unexpected(one: str) -> bool:
        # Namespaces in which other tests had queues keep their Leases too.
        is_lease = one.startswith("Lease ") and one.endswith("/queues.claimq.dev")
        return one not in left and not is_lease and f" {team}/work-worker-" not in one

    wait_for_no_trace(kubernetes, is_unexpected)


def test_an_uninstall_without_keep_deletes_the_queues_first_and_leaves_nothing(
    kubernetes: Cluster, release: Release, team: str
) -> None:
    with release.installed_with("--set=crds.keep=false", "--set=crds.deleteTimeout=15s"):
        _uninstalled_with_its_queues(kubernetes, release, team)
    with queue_on(release, team, "kept") as kept, queue_on(release, team, "removed") as removed:
        assert kept.counters()["done"] == 5
        assert removed.counters()["done"] == 0


def _uninstalled_with_its_queues(kubernetes: Cluster, release: Release, team: str) -> None:
    with queue_on(release, team, "kept") as kept, queue_on(release, team, "removed") as removed:
        for queue, policy in ((kept, "Retain"), (removed, "Delete")):
            queue.apply(deletionPolicy=policy, scaling={"minReplicas": 1, "maxReplicas": 1})
            queue.enqueue(5)
        kept.wait_until_done()
        removed.wait_until_done()
    hold = json.dumps({"metadata": {"finalizers": [HOLD]}})
    kubernetes.kubectl("patch", "rq/kept", f"--namespace={team}", "--type=merge", f"--patch={hold}")
    try:
        with pytest.raises(HarnessError, match="claimq-uninstall failed"):
            uninstall(release)
    finally:
        let_go = json.dumps({"metadata": {"finalizers": None}})
        kubernetes.kubectl("patch", "rq/kept", f"--namespace={team}", "--type=merge", f"--patch={let_go}")
    said = kubernetes.kubectl("logs", "job/claimq-uninstall", f"--namespace={release.namespace}")
    assert f"kubectl describe reliablequeue kept --namespace {team}" in said
    assert "so nothing was uninstalled" in said
    assert release.get(f"deployment/{release.operator}", f"--namespace={release.namespace}")
    # The Job waits for the queues only 15 s, and this one may need longer where the machine is slow.
    where = f"--namespace={team}"
    kubernetes.kubectl("wait", "rq/removed", where, "--for=delete", WAIT)
    uninstall(release)
    release.delete_the_tests_pod()
    wait_for_no_trace(kubernetes)
