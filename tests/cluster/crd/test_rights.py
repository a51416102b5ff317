"""The operator with the rights that the chart gives it, and no others, on a real API server and a real Valkey.

No pod runs here: what a kubelet would say of pods, the test says.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit import HarnessError
from testkit import tiers
from testkit.kubernetes import rights
from testkit.kubernetes.api_server import ApiServer
from testkit.kubernetes.kubernetes_objects import replica_set
from testkit.plugin import ServerFactory
from testkit.programs.forked import ForkedProcess
from testkit.programs.ports import free_port
from testkit.programs.processes import Process
from testkit.repository.chart import Chart, of_kind
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

ACCOUNT = "system:serviceaccount:ns:release-claimq"
WHOLE = ()
TEAM = ('operator.namespaces=["media"]',)
FEW_SECRETS = (
    'operator.namespaces=["media"]',
    'rbac.secrets.names=["redis"]',
    'rbac.secrets.namespaces=["media"]',
)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    try:
        server = ApiServer(ACCOUNT)
    except HarnessError as error:
        tiers.skip_missing(error)
    try:
        server.start()
        for name in ("ns", "media"):
            server.kubectl("create", "namespace", name)
        server.define_queues()
        yield server
    finally:
        server.close()


def roles(values: tuple[str, ...]) -> list[dict[str, Any]]:
    """What the chart gives the operator: roles and their bindings."""
    objects = Chart().objects(*values, "crds.install=false", "rbac.userRoles=false")
    kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    return [one for kind in kinds for one in of_kind(objects, kind)]


def started(api: ApiServer, namespaces: str, log: Path) -> Process:
    env = {
        "KUBECONFIG": str(api.kubeconfig(ACCOUNT)),
        "CLAIMQ_SIDECAR_IMAGE": "sidecar:1",
        "CLAIMQ_OPERATOR_NAMESPACE": "ns",
        "CLAIMQ_LEASE_NAME": "release-claimq",
        "CLAIMQ_LEASE_DURATION": "3s",
        "CLAIMQ_HTTP_HOST": "127.0.0.1",
        "CLAIMQ_HTTP_PORT": str(free_port()),
        "CLAIMQ_NAMESPACES": namespaces,
        "CLAIMQ_RESYNC_PERIOD": "5s",
    }
    return ForkedProcess("claimq_operator", env=env, log=log)


def queue() -> dict[str, Any]:
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "thumbs", "namespace": "media"},
        "spec": {
            "redis": {"secretRef": {"name": "redis"}},
            "worker": {"image": "app:1"},
            "scaling": {"mode": "Manual", "replicas": 2},
            "deletionPolicy": "Delete",
        },
    }


def worker_pod(api: ApiServer, number: int) -> None:
    """A ready worker pod, as a ReplicaSet and a kubelet would have made it."""
    deployment = api.get("deployment/thumbs-worker", "--namespace=media")
    name = f"thumbs-worker-{number}"
    labels = {**deployment["spec"]["template"]["metadata"]["labels"], "pod-template-hash": "a"}
    owners = [replica_set("thumbs", "a")]
    metadata = {"name": name, "namespace": "media", "labels": labels, "ownerReferences": owners}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": deployment["spec"]["template"]["spec"],
    }
    api.kubectl("create", "-f", "-", stdin=json.dumps(body))
    status = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")
        ],
        "containerStatuses": [_running("worker")],
        "initContainerStatuses": [_running("claimq-sidecar")],
    }
    code, answer = api.request("PATCH", f"/api/v1/namespaces/media/pods/{name}/status", {"status": status})
    assert code == 200, answer


def _running(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "x",
        "imageID": "x",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "containerID": f"containerd://{name}",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }


@pytest.mark.parametrize(
    "values", [WHOLE, TEAM, FEW_SECRETS], ids=["whole cluster", "one team", "one team's own Secret"]
)
def test_the_operator_asks_for_what_the_chart_lets_it_and_for_nothing_else(
    api: ApiServer, start_server: ServerFactory, tmp_path: Path, values: tuple[str, ...]
) -> None:
    store = start_server("valkey", tcp=True)
    given = roles(values)
    api.kubectl("create", "-f", "-", stdin="\n---\n".join(json.dumps(one) for one in given))
    _secret(api, store)
    log = tmp_path / "operator.log"
    with started(api, "media" if values else "", log) as operator:
        _life_of_a_queue(api, log)
        operator.terminate()
    wanted, refused = rights.asked(api.audit_log(), ACCOUNT)
    assert refused == set()
    assert wanted == rights.granted(one for one in given if one["kind"].endswith("Role"))


def test_a_deleted_namespace_does_not_stop_the_operator_in_the_others(
    api: ApiServer, start_server: ServerFactory, tmp_path: Path
) -> None:
    given = roles(TEAM)
    api.kubectl("create", "-f", "-", stdin="\n---\n".join(json.dumps(one) for one in given))
    _secret(api, start_server("valkey", tcp=True))
    log = tmp_path / "operator.log"
    # As after the end of a namespace that the chart's values still name: the operator starts without a role there.
    with started(api, "gone,media", log):
        api.kubectl("create", "-f", "-", stdin=json.dumps(queue()))
        made = ("get", "deployment/thumbs-worker", "--namespace=media")
        eventually_sync(lambda: api.kubectl_run(*made).returncode == 0, why="media is served")
    assert "event=namespace_not_listed namespace=gone" in log.read_text()


def _secret(api: ApiServer, store: Server) -> None:
    api.kubectl(
        "create", "secret", "generic", "redis", "--namespace=media", f"--from-literal=url={store.tcp_url}"
    )


def _life_of_a_queue(api: ApiServer, log: Path) -> None:
    """Made, worked on, scaled down and deleted."""

    def condition(kind: str) -> str:
        found = api.get("rq/thumbs", "--namespace=media").get("status", {}).get("conditions", [])
        return next((one["status"] for one in found if one["type"] == kind), "")

    def ready() -> int:
        status = api.get("rq/thumbs", "--namespace=media").get("status", {})
        return int(status.get("workers", {}).get("ready", 0))

    def why() -> str:
        return log.read_text()[-3000:]

    api.kubectl("create", "-f", "-", stdin=json.dumps(queue()))
    eventually_sync(lambda: condition("RedisReachable") == "True" or _fail(why))
    for number in (1, 2):
        worker_pod(api, number)
    eventually_sync(lambda: ready() == 2)
    api.kubectl("scale", "rq/thumbs", "--namespace=media", "--replicas=1")
    eventually_sync(lambda: api.get("deployment/thumbs-worker", "--namespace=media")["spec"]["replicas"] == 1)
    api.kubectl("delete", "rq/thumbs", "--namespace=media", "--wait=false")
    # What the controllers would do when the Deployment goes to nothing.
    api.kubectl("delete", "pods", "--all", "--namespace=media", "--grace-period=0", "--force")
    eventually_sync(
        lambda: api.kubectl_run("get", "rq/thumbs", "--namespace=media").returncode != 0,
        why=why(),
    )


def _fail(why: Callable[[], str]) -> bool:
    raise AssertionError(why())
