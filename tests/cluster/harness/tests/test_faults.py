"""What the harness can break, and that it heals: a node's network, a kubelet, the API server."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from clusterkit import Cluster, HarnessError, rest
from clusterkit.commands import WAIT, eventually
from clusterkit.manifests import container, pod
from clusterkit.own_cluster import OwnCluster

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

ASK = "import urllib.request as r; print(r.urlopen('http://{}:8080', timeout=5).read().decode())"


@pytest.fixture
def own(kubernetes: Cluster) -> OwnCluster:
    assert isinstance(kubernetes, OwnCluster)
    return kubernetes


@pytest.fixture
def a_pod_on_each_node(own: OwnCluster, namespace: str, sample_image: str) -> Iterator[dict[str, str]]:
    """Node to the address of its pod `on-NODE`."""
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    answering = container("answer", sample_image, readinessProbe=probe)
    own.apply(*(pod(f"on-{node}", answering, nodeName=node) for node in own.nodes), namespace=namespace)
    own.kubectl("wait", "pod", "--all", "--for=condition=Ready", f"--namespace={namespace}", WAIT)
    query = "jsonpath={range .items[*]}{.spec.nodeName} {.status.podIP}{'\\n'}{end}"
    lines = own.kubectl("get", "pods", f"--namespace={namespace}", "-o", query).splitlines()
    yield dict(line.split() for line in lines)
    for node in own.nodes:
        own.restore_node(node)
        own.wait_for_node(node, ready=True)


def asks(own: OwnCluster, namespace: str, pod: str, address: str) -> bool:
    """Whether the pod gets an answer from the address."""
    inside = ["exec", f"--namespace={namespace}", pod, "--", "python3", "-c", ASK.format(address)]
    return own.run("kubectl", *inside, check=False).returncode == 0


def wait_until_reached(own: OwnCluster, namespace: str, pod: str, address: str) -> None:
    eventually(f"{pod} reaches {address}", lambda: asks(own, namespace, pod, address))


def test_pods_of_two_nodes_reach_each_other(
    own: OwnCluster, namespace: str, a_pod_on_each_node: dict[str, str]
) -> None:
    assert sorted(a_pod_on_each_node) == own.nodes
    wait_until_reached(own, namespace, "on-node-1", a_pod_on_each_node["node-2"])
    wait_until_reached(own, namespace, "on-node-2", a_pod_on_each_node["node-1"])


def test_a_node_that_is_cut_off_reaches_no_other_and_heals(
    own: OwnCluster, namespace: str, a_pod_on_each_node: dict[str, str]
) -> None:
    there = a_pod_on_each_node["node-2"]
    ways = ["ip", "route", "show", "dev", "eth0"]
    before = own.run_on_node("node-2", *ways)
    assert "10.244.1.0/24 via 10.66.0.11" in before
    wait_until_reached(own, namespace, "on-node-1", there)
    own.cut_node("node-2")
    assert own.node_is_cut("node-2")
    assert not own.node_is_cut("node-1")
    assert not asks(own, namespace, "on-node-1", there)
    # What runs on it goes on: the node itself still reaches its pod.
    own.run_on_node("node-2", "python3", "-c", ASK.format(there))
    own.wait_for_node("node-2", ready=False)
    assert own.node_is_ready("node-1")
    own.restore_node("node-2")
    own.wait_for_node("node-2", ready=True)
    wait_until_reached(own, namespace, "on-node-1", there)
    assert own.run_on_node("node-2", *ways) == before


def test_a_stopped_kubelet_is_noticed_while_its_pods_go_on(
    own: OwnCluster, namespace: str, a_pod_on_each_node: dict[str, str]
) -> None:
    own.stop_kubelet("node-2")
    try:
        own.wait_for_node("node-2", ready=False)
        wait_until_reached(own, namespace, "on-node-1", a_pod_on_each_node["node-2"])
    finally:
        own.start_kubelet("node-2")
    own.wait_for_node("node-2", ready=True)
    restarts = own.kubectl(
        "get",
        "pod",
        "on-node-2",
        f"--namespace={namespace}",
        "-o",
        "jsonpath={.status.containerStatuses[0].restartCount}",
    )
    assert restarts == "0"


def test_the_api_server_restarts_and_knows_all_it_knew(own: OwnCluster, namespace: str) -> None:
    own.kubectl("create", "configmap", "kept", "--from-literal=a=b", f"--namespace={namespace}")
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    before = {name: own.processes.pid(name) for name in names}
    own.restart_apiserver()
    assert all(own.processes.pid(name) != before[name] for name in names)
    assert (
        own.kubectl("get", "configmap", "kept", f"--namespace={namespace}", "-o", "jsonpath={.data.a}") == "b"
    )
    own.kubectl("create", "configmap", "new", f"--namespace={namespace}")


def test_without_an_api_server_requests_fail_and_say_so(own: OwnCluster) -> None:
    own.kill_apiserver()
    try:
        with pytest.raises(HarnessError, match=r"was answered with 50\d"):
            rest.request(own.api_socket(), "GET", "/api/v1/nodes")
    finally:
        own.start_apiserver()
    assert own.api("GET", "/readyz") == "ok"


def test_what_a_service_account_asked_for_is_in_the_audit_log(own: OwnCluster, namespace: str) -> None:
    asked = subprocess.run(
        [
            *own.entering(),
            "kubectl",
            "get",
            "secrets",
            f"--namespace={namespace}",
            f"--as=system:serviceaccount:{namespace}:default",
        ],
        env=own.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "forbidden" in asked.stderr
    # Impersonated requests are logged under the one who really asked, so it takes a token of the account's own.
    token = own.kubectl("create", "token", "default", f"--namespace={namespace}").strip()
    own.run(
        "kubectl",
        "--kubeconfig=/dev/null",
        f"--token={token}",
        *_server(own),
        "get",
        "pods",
        f"--namespace={namespace}",
        check=False,
    )
    eventually(
        "the request is in the log",
        lambda: (
            f"system:serviceaccount:{namespace}:default" in own.audit_log()
            and '"resource":"pods"' in own.audit_log()
        ),
    )


def _server(own: OwnCluster) -> list[str]:
    shown = json.loads(own.kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]
    return [f"--server={shown['server']}", f"--certificate-authority={shown['certificate-authority']}"]


def test_a_node_that_is_not_there_is_named_in_the_error(own: OwnCluster) -> None:
    with pytest.raises(HarnessError, match="there is no node 'node-9'; there are node-1, node-2"):
        own.cut_node("node-9")
