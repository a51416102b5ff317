"""A release of the chart on a real cluster: it works, it is upgraded under load, it uses its rights and no others."""

import json
import re
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import claimq.blocking
from claimq.errors import StoreUnavailable
from claimq.model import State
from clusterkit import Cluster, CommandFailed
from clusterkit.commands import WAIT, eventually
from clusterkit.own_cluster import OwnCluster
from testkit.kubernetes import rights
from testkit.on_cluster.pod_status import is_ready
from testkit.on_cluster.release import Release, namespace
from testkit.repository.chart import Chart, of_kind

pytestmark = pytest.mark.cluster

WORK = """
import time, claimq.worker
with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            time.sleep(0.05)
"""


def queue(release: Release, name: str, where: str, **spec: Any) -> dict[str, Any]:
    """A queue on the release's Valkey; its worker takes 50 ms for an item."""
    worker = {
        "image": release.images.sidecar,
        "command": ["python", "-c"],
        "args": [WORK],
        "drainTimeout": "10s",
    }
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": name, "namespace": where},
        "spec": {"redis": {"url": release.redis_url}, "worker": worker, **spec},
    }


def counters(url: str, name: str) -> dict[str, int]:
    """What has happened to a queue's items, and how many there are by state."""
    with claimq.blocking.connect(url) as server:
        seen = server.queue(name).snapshot()
    return {**seen.counters, **{f"in {state.value}": count for state, count in seen.lengths.items()}}


def enqueue(url: str, name: str, count: int) -> None:
    with claimq.blocking.connect(url) as server:
        server.queue(name).enqueue_many(f"item {number}" for number in range(count))


def wait_until_done(url: str, name: str, count: int) -> None:
    """Until so many items are done; a server that is out of reach just now counts as not yet."""

    def is_done() -> bool:
        try:
            return counters(url, name).get("done", 0) >= count
        except StoreUnavailable:
            return False

    eventually(f"{count} items of {name} are done", is_done, every=0.5)


@contextmanager
def loaded(url: str, name: str) -> Generator[list[int]]:
    """Keeps hundreds of items waiting for as long as it lasts; how many it has enqueued, call by call."""
    is_over, made = threading.Event(), list[int]()

    def feed() -> None:
        with claimq.blocking.connect(url) as server:
            queue = server.queue(name)
            while not is_over.wait(0.2):
                missing = 900 - queue.snapshot().lengths[State.MAIN]
                if missing > 90:
                    made.append(len(queue.enqueue_many(f"item {number}" for number in range(missing)).ids))

    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(feed)
        try:
            yield made
        finally:
            is_over.set()
        feeding.result()


def test_helm_test_sees_an_item_done(release: Release) -> None:
    said = release.cluster.helm("test", release.name, f"--namespace={release.namespace}", "--logs", WAIT)
    assert re.search(r"Phase: +Succeeded", said)
    assert "enqueued an item in claimq-system.claimq-test" in said
    print(re.findall(r"a worker has done it, after .*", said)[0])
    left = release.cluster.kubectl("get", "reliablequeues", f"--namespace={release.namespace}", "-o", "name")
    assert left == ""


def test_the_commands_of_the_notes_work_as_they_stand(release: Release) -> None:
    notes = release.cluster.helm("get", "notes", release.name, f"--namespace={release.namespace}")
    lines = [line[2:] for line in notes.splitlines() if line.startswith("  ")]
    # What watches does not end, and the test of the release has a test of its own.
    script = "\n".join(line.removesuffix(" --watch") for line in lines if not line.startswith("helm test"))
    try:
        said = release.cluster.run("bash", "-euc", script).stdout
    finally:
        release.cluster.kubectl(
            "delete", "rq/thumbnails", f"--namespace={release.namespace}", "--ignore-not-found"
        )
    assert "successfully rolled out" in said
    assert "reliablequeue.claimq.dev/thumbnails created" in said
    assert re.search(r"^thumbnails ", said, re.MULTILINE)
    assert "requeueLimit" in said


def test_the_operator_runs_without_root_and_can_write_nowhere(release: Release) -> None:
    show = "import os; print(os.getuid(), os.access('/opt/claimq', os.W_OK)); open('/opt/claimq/x', 'w')"
    words = [
        "exec",
        release.wait_for_leader(),
        f"--namespace={release.namespace}",
        "--",
        "python",
        "-c",
        show,
    ]
    with pytest.raises(CommandFailed, match=r"(?s)^.*65532 False\n.*Read-only file system"):
        release.cluster.kubectl(*words)


def test_the_operator_reports_its_state_to_prometheus(release: Release) -> None:
    # It is ready before it leads: one that has just ended may hold the lease still.
    leader = release.wait_for_leader()
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    asking = ("exec", leader, f"--namespace={release.namespace}", "--", "python", "-c", read)

    def says_so() -> bool:
        return bool(re.search(r"^claimq_leader 1\.0$", release.cluster.kubectl(*asking), re.MULTILINE))

    eventually("its metrics say that it leads", says_so, every=0.5)


def test_an_upgrade_under_load_loses_and_repeats_nothing(release: Release, team: str) -> None:
    name = f"{team}.busy"
    release.cluster.apply(queue(release, "busy", team, scaling={"maxReplicas": 3, "itemsPerReplica": 50}))
    with release.server_url() as url:
        done: list[int] = []

        def note() -> None:
            seen = counters(url, name)
            assert seen["in main"] > 0, "nothing waits: there is no load"
            done.append(seen["done"])

        with loaded(url, name) as made:
            eventually("work has begun", lambda: counters(url, name).get("done", 0) > 20, every=0.5)
            note()
            with release.installed_with("--set=operator.replicas=2", "--set=operator.logLevel=debug"):
                note()
            note()
        assert done == sorted(set(done)), "the upgrade, or the way back, met no load"
        print(f"done before, after the upgrade and after the way back: {done}; enqueued {sum(made)}")
        wait_until_done(url, name, sum(made))
        seen = counters(url, name)
    assert seen["done"] == sum(made)
    assert [seen[f"in {state}"] for state in ("main", "busy", "failed")] == [0, 0, 0]
    assert [seen.get(what, 0) for what in ("failed", "requeued", "crashes", "expired")] == [0, 0, 0, 0]
    revision = _revision_after_a_pass(release, "busy", team)
    assert revision == "1", "it replaced the workers, though it brought no other sidecar"


def _revision_after_a_pass(release: Release, name: str, where: str) -> str:
    """How many templates the workers of a queue have had, once the operator of now has acted on the queue."""
    patch = json.dumps({"spec": {"scaling": {"maxReplicas": 2}}})
    release.cluster.kubectl("patch", f"rq/{name}", f"--namespace={where}", "--type=merge", f"--patch={patch}")

    def is_acted_on() -> bool:
        found = release.get(f"rq/{name}", f"--namespace={where}")
        return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])

    eventually("the operator has acted on the queue", is_acted_on, every=0.5)
    made = release.get(f"deployment/{name}-worker", f"--namespace={where}")
    return str(made["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


def test_items_survive_the_loss_of_valkeys_pod(release: Release, team: str) -> None:
    def ready() -> set[str]:
        """Its pods that are ready: a new one has the old one's name."""
        pods = release.pods("valkey").values()
        return {
            pod["metadata"]["uid"] for pod in pods if any(map(is_ready, pod["status"].get("conditions", [])))
        }

    release.cluster.apply(queue(release, "kept", team, suspend=True))
    with release.server_url() as url:
        enqueue(url, f"{team}.kept", 50)
        lost = ready()
        where = f"--namespace={release.namespace}"
        release.cluster.kubectl("delete", "pod", f"{release.valkey}-0", where, "--grace-period=0", "--force")
        # Until then it may still be the lost one that answers.
        eventually("another pod is ready", lambda: bool(ready() - lost), every=0.5)

        def is_there() -> bool:
            try:
                return counters(url, f"{team}.kept")["in main"] == 50
            except StoreUnavailable:
                return False

        eventually("the items are there again", is_there, every=0.5)
        patch = json.dumps({"spec": {"suspend": False, "scaling": {"maxReplicas": 1}}})
        release.cluster.kubectl("patch", "rq/kept", f"--namespace={team}", "--type=merge", f"--patch={patch}")
        wait_until_done(url, f"{team}.kept", 50)
        assert counters(url, f"{team}.kept")["done"] == 50


def test_another_operator_takes_over_when_one_dies(release: Release, team: str) -> None:
    with release.installed_with("--set=operator.replicas=2", "--set=operator.leaseDuration=5s"):
        release.wait_for_operators(2)
        first = release.wait_for_leader()
        where = f"--namespace={release.namespace}"
        release.cluster.kubectl("delete", "pod", first, where, "--grace-period=0", "--force")
        release.wait_for_leader(after=first)
        release.cluster.apply(queue(release, "after", team))
        with release.server_url() as url:
            enqueue(url, f"{team}.after", 5)
            wait_until_done(url, f"{team}.after", 5)


def _log_of(kubernetes: OwnCluster, release: Release) -> list[dict[str, Any]]:
    """The API server's log since the operator's Deployment was made: helm makes that after its rights. Operators of
    releases before it were refused things while they were being uninstalled."""
    made = release.get(f"deployment/{release.operator}", f"--namespace={release.namespace}")
    since = made["metadata"]["creationTimestamp"].removesuffix("Z")
    log = [json.loads(line) for line in kubernetes.audit_log().splitlines()]
    return [entry for entry in log if entry["requestReceivedTimestamp"] > since]


@pytest.mark.own_cluster
def test_the_operator_is_refused_nothing(release: Release, kubernetes: Cluster, team: str) -> None:
    assert isinstance(kubernetes, OwnCluster)
    secret = {"url": release.redis_url}
    kubernetes.kubectl(
        "create", "secret", "generic", "redis", f"--namespace={team}", f"--from-literal=url={secret['url']}"
    )
    by_secret = queue(release, "all", team, scaling={"maxReplicas": 2, "itemsPerReplica": 5})
    by_secret["spec"]["redis"] = {"secretRef": {"name": "redis"}}
    kubernetes.apply(by_secret)
    with release.server_url() as url:
        enqueue(url, f"{team}.all", 60)
        wait_until_done(url, f"{team}.all", 60)
    kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={team}", WAIT)
    account = f"system:serviceaccount:{release.namespace}:{release.operator}"
    wanted, refused = rights.asked(_log_of(kubernetes, release), account)
    assert refused == set()
    given = [
        release.get("clusterrole", release.operator),
        release.get("role", f"{release.operator}-leader", f"--namespace={release.namespace}"),
        release.get("role", f"{release.operator}-cluster-id", "--namespace=kube-system"),
    ]
    assert wanted, f"the log has nothing of {account}"
    # That nothing more is given than is used, tests/cluster/crd/test_rights.py shows.
    assert wanted <= rights.granted(given)


def test_a_second_operator_serves_one_team_with_rights_there_alone(
    kubernetes: Cluster, release: Release
) -> None:
    """The first one leaves its work to this one during the test."""
    try:
        # One that is still ending would look after the other team's queue too.
        release.stop_operators()
        _serve_one_team(kubernetes, release)
    finally:
        release.install_as_usual()


def _serve_one_team(kubernetes: Cluster, release: Release) -> None:
    with namespace(kubernetes, "media") as media, namespace(kubernetes, "print") as other:
        own = Release(kubernetes, release.images, "own", media)
        try:
            own.install("--set=crds.install=false", f"--set=operator.namespaces={{{media}}}")
            for where in (media, other):
                kubernetes.apply(queue(release, "here", where))
            with release.server_url() as url:
                for where in (media, other):
                    enqueue(url, f"{where}.here", 3)
                wait_until_done(url, "media.here", 3)
                assert counters(url, "print.here")["in main"] == 3
            # No operator has written its status: this is the default of the CRD.
            untouched = release.get("rq/here", f"--namespace={other}")["status"]
            assert untouched == {"observedGeneration": -1}
            assert kubernetes.kubectl("get", "clusterroles", "-o", "name").count("own-claimq") == 0
            if isinstance(kubernetes, OwnCluster):
                wanted, refused = rights.asked(
                    _log_of(kubernetes, own), f"system:serviceaccount:{media}:own-claimq"
                )
                assert wanted
                assert refused == set()
            kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={media}", WAIT)
            own.cluster.helm("uninstall", own.name, f"--namespace={media}", "--wait")
        finally:
            # No operator serves the other team's queue, so it never got a finalizer either.
            kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={other}", WAIT)


def test_what_a_release_makes_is_what_the_chart_renders(release: Release) -> None:
    rendered = Chart().objects("valkey.enabled=true", release=release.name, namespace=release.namespace)
    (deployment,) = of_kind(rendered, "Deployment")
    made = release.get(f"deployment/{release.operator}", f"--namespace={release.namespace}")
    assert made["metadata"]["name"] == deployment["metadata"]["name"]
    assert made["spec"]["selector"] == deployment["spec"]["selector"]
