"""Who may do what at the port of a sidecar: the kubelet drains, pods only read."""

import pytest

from clusterkit.commands import WAIT
from testkit.on_cluster.queue_on_cluster import APP, QueueOnCluster
from testkit.on_cluster.release import Release

pytestmark = pytest.mark.cluster

ASK = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=60).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def ask(release: Release, namespace: str, pod: str, url: str, container: str) -> str:
    """The status that a container of a pod gets."""
    words = (
        "exec",
        pod,
        f"--namespace={namespace}",
        f"--container={container}",
        "--",
        "python",
        "-c",
        ASK,
        url,
    )
    return release.cluster.kubectl(*words).strip()


def test_other_pods_read_the_sidecars_port_and_cannot_drain_it(
    release: Release, queue: QueueOnCluster
) -> None:
    queue.apply(scaling={"minReplicas": 1, "maxReplicas": 1})
    queue.wait("its worker is ready", lambda: queue.condition("WorkersAvailable") == "True AllReady")
    ((name, pod),) = queue.pods().items()
    port = f"http://{pod['status']['podIP']}:9464"
    other = (release, release.namespace, release.wait_for_leader())
    assert ask(*other, f"{port}/metrics", "operator") == "200"
    assert ask(*other, f"{port}/drain", "operator") == "403"
    assert ask(*other, f"{port}/worker/prestop", "operator") == "403"
    queue.enqueue(3)
    queue.wait_until_done()  # it still claims
    queue.cluster.kubectl("delete", "pod", name, f"--namespace={queue.namespace}", WAIT)
    # By its pod: the condition may still be that of the one before.
    queue.wait(
        "its successor is ready",
        lambda: [since != "" for _, since in queue.lives().values()] == [True] and name not in queue.pods(),
    )
    seen = queue.cluster.kubectl(
        "get",
        "events",
        f"--namespace={queue.namespace}",
        "-o",
        "name",
        "--field-selector=reason=FailedPreStopHook",
    )
    assert seen == ""  # the kubelet showed the key
    ((name, pod),) = queue.pods().items()
    assert ask(release, queue.namespace, name, f"http://{pod['status']['podIP']}:9464/drain", APP) == "403"
