"""What the images write to their logs on a cluster, read as an on-call engineer reads it."""

import pytest

from testkit.on_cluster.queue_on_cluster import SIDECAR, QueueOnCluster
from testkit.programs.logfmt import read_log

pytestmark = pytest.mark.cluster


def test_operator_and_sidecars_log_in_one_form(queue: QueueOnCluster) -> None:
    queue.apply()
    queue.wait("it is served", lambda: queue.condition("Ready") == "True Working")
    queue.enqueue(3)  # which changes the number of workers, and that is logged
    queue.wait_until_done()
    release, name = queue.release, f"{queue.namespace}/{queue.name}"
    of_operator = read_log(
        queue.cluster.kubectl("logs", release.wait_for_leader(), f"--namespace={release.namespace}")
    )
    emitted = [line for line in of_operator if line["event"] == "kubernetes_event" and line["queue"] == name]
    assert "ScaledUp" in {line["reason"] for line in emitted}
    selector = f"--selector=claimq.dev/queue={queue.name}"
    of_sidecar = read_log(
        queue.cluster.kubectl(
            "logs", selector, f"--container={SIDECAR}", f"--namespace={queue.namespace}", "--tail=-1"
        )
    )
    assert {"serving", "ready", "session_opened"} <= {line["event"] for line in of_sidecar}
