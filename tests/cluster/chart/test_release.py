"""A release of the chart on a real cluster: it works, it is upgraded under load, it uses its rights and no others."""

import json
import re
from typing import Any

import pytest

import claimq.blocking
from claimq.errors import StoreUnavailable
from clusterkit import Cluster
from clusterkit.commands import eventually
from clusterkit.own_cluster import OwnCluster
from testkit import rights
from testkit.chart import Chart, of_kind
from testkit.release import Release, namespace

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


def test_helm_test_sees_an_item_done(release: Release) -> None:
    said = release.cluster.helm(
        "test", release.name, f"--namespace={release.namespace}", "--logs", "--timeout=180s"
    )
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


def test_the_operator_runs_as_nobody_and_can_write_nowhere(release: Release) -> None:
    show = "import os; print(os.getuid(), os.access('/opt/claimq', os.W_OK)); open('/opt/claimq/x', 'w')"
    words = [
        "exec",
        f"deployment/{release.operator}",
        f"--namespace={release.namespace}",
        "--",
        "python",
        "-c",
        show,
    ]
    said = release.cluster.run("kubectl", *words, check=False)
    assert said.stdout.strip() == "65532 False"
    assert "Read-only file system" in said.stderr


def test_the_operator_tells_prometheus_how_it_is(release: Release) -> None:
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    said = release.cluster.kubectl(
        "exec",
        f"deployment/{release.operator}",
        f"--namespace={release.namespace}",
        "--",
        "python",
        "-c",
        read,
    )
    assert re.search(r"^claimq_leader 1\.0$", said, re.MULTILINE)


def test_an_upgrade_under_load_loses_and_repeats_nothing(release: Release, team: str) -> None:
    count, name = 400, f"{team}.busy"
    release.cluster.apply(queue(release, "busy", team, scaling={"maxReplicas": 3, "itemsPerReplica": 50}))
    with release.server_url() as url:
        enqueue(url, name, count)
        eventually("work has begun", lambda: counters(url, name).get("done", 0) > 20, timeout=90, every=0.5)
        assert counters(url, name)["in main"] > 0, "too quick: the upgrade would have met no load"
        with release.installed_with("--set=operator.replicas=2", "--set=operator.logLevel=debug"):
            enqueue(url, name, 100)
            eventually(
                "all is done",
                lambda: counters(url, name).get("done", 0) >= count + 100,
                timeout=180,
                every=0.5,
            )
        seen = counters(url, name)
    assert seen["done"] == count + 100
    assert [seen[f"in {state}"] for state in ("main", "busy", "failed")] == [0, 0, 0]
    assert [seen.get(what, 0) for what in ("failed", "requeued", "crashes", "expired")] == [0, 0, 0, 0]


def test_items_survive_the_loss_of_valkeys_pod(release: Release, team: str) -> None:
    release.cluster.apply(queue(release, "kept", team, suspend=True))
    with release.server_url() as url:
        enqueue(url, f"{team}.kept", 50)
        release.cluster.kubectl(
            "delete",
            "pod",
            f"{release.valkey}-0",
            f"--namespace={release.namespace}",
            "--grace-period=0",
            "--force",
        )
        release.cluster.kubectl(
            "rollout",
            "status",
            f"statefulset/{release.valkey}",
            f"--namespace={release.namespace}",
            "--timeout=90s",
        )

        def is_there() -> bool:
            try:
                return counters(url, f"{team}.kept")["in main"] == 50
            except StoreUnavailable:
                return False

        eventually("the items are there again", is_there, timeout=60, every=0.5)
    patch = json.dumps({"spec": {"suspend": False, "scaling": {"maxReplicas": 1}}})
    release.cluster.kubectl("patch", "rq/kept", f"--namespace={team}", "--type=merge", f"--patch={patch}")
    with release.server_url() as url:
        eventually(
            "they are done",
            lambda: counters(url, f"{team}.kept").get("done", 0) == 50,
            timeout=120,
            every=0.5,
        )


def test_another_operator_takes_over_when_one_dies(release: Release, team: str) -> None:
    with release.installed_with("--set=operator.replicas=2", "--set=operator.leaseDuration=5s"):
        _another_takes_over(release, team)


def _another_takes_over(release: Release, team: str) -> None:
    lease = ["lease", release.operator, f"--namespace={release.namespace}"]
    eventually("somebody leads", lambda: bool(release.get(*lease)["spec"].get("holderIdentity")), timeout=60)
    first = release.get(*lease)["spec"]["holderIdentity"]
    release.cluster.kubectl(
        "delete", "pod", first, f"--namespace={release.namespace}", "--grace-period=0", "--force"
    )
    eventually(
        "another leads",
        lambda: release.get(*lease)["spec"].get("holderIdentity") not in (first, "", None),
        timeout=60,
    )
    release.cluster.apply(queue(release, "after", team))
    with release.server_url() as url:
        enqueue(url, f"{team}.after", 5)
        eventually(
            "it works", lambda: counters(url, f"{team}.after").get("done", 0) == 5, timeout=90, every=0.5
        )


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
        eventually(
            "it works", lambda: counters(url, f"{team}.all").get("done", 0) == 60, timeout=120, every=0.5
        )
    kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={team}", "--timeout=60s")
    account = f"system:serviceaccount:{release.namespace}:{release.operator}"
    wanted, refused = rights.asked(_log_of(kubernetes, release), account)
    assert refused == set()
    given = [
        release.get("clusterrole", release.operator),
        release.get("role", f"{release.operator}-leader", f"--namespace={release.namespace}"),
    ]
    assert wanted, f"the log has nothing of {account}"
    # That nothing more is given than is used, tests/cluster/crd/test_rights.py shows.
    assert wanted <= rights.granted(given)


def test_a_second_operator_serves_one_team_with_rights_there_alone(
    kubernetes: Cluster, release: Release
) -> None:
    """The first one leaves its work to this one meanwhile."""
    words = ("scale", f"deployment/{release.operator}", f"--namespace={release.namespace}", "--replicas=0")
    try:
        kubernetes.kubectl(*words, "--timeout=60s")
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
                eventually(
                    "it works", lambda: counters(url, "media.here").get("done", 0) == 3, timeout=90, every=0.5
                )
                assert counters(url, "print.here")["in main"] == 3
            assert "status" not in release.get("rq/here", f"--namespace={other}")
            assert kubernetes.kubectl("get", "clusterroles", "-o", "name").count("own-claimq") == 0
            if isinstance(kubernetes, OwnCluster):
                wanted, refused = rights.asked(
                    _log_of(kubernetes, own), f"system:serviceaccount:{media}:own-claimq"
                )
                assert wanted
                assert refused == set()
            kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={media}", "--timeout=60s")
            own.cluster.helm("uninstall", own.name, f"--namespace={media}", "--wait")
        finally:
            # Nobody serves the other team's queue, so nobody ever gave it a finalizer either.
            kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={other}", "--timeout=60s")


def test_what_a_release_makes_is_what_the_chart_renders(release: Release) -> None:
    rendered = Chart().objects("valkey.enabled=true", release=release.name, namespace=release.namespace)
    (deployment,) = of_kind(rendered, "Deployment")
    made = release.get(f"deployment/{release.operator}", f"--namespace={release.namespace}")
    assert made["metadata"]["name"] == deployment["metadata"]["name"]
    assert made["spec"]["selector"] == deployment["spec"]["selector"]
