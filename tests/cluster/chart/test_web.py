"""The web page of a release, on a real Kubernetes."""

import json
import sys
from typing import Any

import pytest

from testkit.queue_on_cluster import QueueOnCluster
from testkit.release import Release, is_rolled_out
from testkit.waiting import eventually_sync
from testkit.web_user import WebUser

pytestmark = pytest.mark.cluster


def through(queue: QueueOnCluster, service: str, token: str, command: str) -> Any:
    """What the command line prints that forwards a port to the page and sends it the token."""
    words = ("--web-api", service, f"--namespace={queue.namespace}", "--output=json", command, queue.name)
    given = f"CLAIMQ_WEB_TOKEN={token}"
    return json.loads(queue.cluster.run("env", given, sys.executable, "-m", "claimq_cli", *words).stdout)


def test_a_user_pauses_a_queue_on_the_page_and_resumes_it_through_the_command_line(
    release: Release, queue: QueueOnCluster
) -> None:
    cluster, where = release.cluster, f"--namespace={queue.namespace}"
    queue.apply(scaling={"minReplicas": 0, "maxReplicas": 1})
    queue.wait("the operator uses the server", lambda: queue.condition("RedisReachable").startswith("True"))
    with release.installed_with("--set=web.enabled=true", "--set=web.actions=true"):
        page = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/{release.operator}-web"
        eventually_sync(lambda: is_rolled_out(cluster, page), why="the page is rolled out")
        cluster.kubectl("create", "serviceaccount", "ann", where)
        bound = ("--clusterrole=edit", f"--serviceaccount={queue.namespace}:ann", where)
        cluster.kubectl("create", "rolebinding", "ann", *bound)
        token = cluster.kubectl("create", "token", "ann", where).strip()
        with cluster.forward(release.namespace, f"{release.operator}-web", 80) as port:
            user = WebUser(f"http://127.0.0.1:{port}/")
            assert user.log_in(token) == 303
            path = f"/queues/{queue.namespace}.{queue.name}"
            eventually_sync(lambda: path in user.get("/")[1], why="the queue is on the page")
            assert "is paused" in user.act(path, action="pause")[1]
            assert "RedisReachable" in user.get(path)[1]
        assert queue.items.snapshot().paused
        service = f"svc/{release.namespace}/{release.operator}-web"
        assert through(queue, service, token, "status")["paused"] is True
        assert through(queue, service, token, "resume")["paused"] is False
    assert not queue.items.snapshot().paused
    by_ann = f"system:serviceaccount:{queue.namespace}:ann"
    assert [(one.action, one.actor) for one in queue.items.audit_log(9)][:2] == [
        ("resume", by_ann),
        ("pause", by_ann),
    ]
    eventually_sync(lambda: "ChangedByHand" in queue.events(), why="there is an Event")
