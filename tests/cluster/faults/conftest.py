"""What several of the faults need of the cluster."""

from collections.abc import Iterator

import pytest

from clusterkit.commands import WAIT
from testkit.on_cluster.release import Release

OPERATOR = "app.kubernetes.io/component=operator"


@pytest.fixture
def far(release: Release) -> Iterator[str]:
    """A node without operator, server and DNS, which is on the network again at the end, and ready."""
    cluster = release.cluster
    node = cluster.nodes[1]
    # Names are asked for with each new connection: the others must not wait until the cluster has a new DNS server.
    needed = [("kube-system", "k8s-app=kube-dns", "coredns"), (release.namespace, OPERATOR, release.operator)]
    cluster.kubectl("cordon", node)
    try:
        for namespace, label, deployment in needed:
            where = (f"--namespace={namespace}", f"--selector={label}")
            there = f"--field-selector=spec.nodeName={node}"
            cluster.kubectl("delete", "pods", *where, there, WAIT)
            words = ("rollout", "status", f"deployment/{deployment}", f"--namespace={namespace}")
            cluster.kubectl(*words, WAIT)
        release.wait_for_operators()
    finally:
        cluster.kubectl("uncordon", node)
    try:
        yield node
    finally:
        cluster.restore_node(node)
        cluster.wait_for_node(node, ready=True)
