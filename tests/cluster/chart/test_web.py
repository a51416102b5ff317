"""The web page of a release, on a real Kubernetes."""

import json
from http.client import HTTPException

import pytest

from testkit.on_cluster.queue_on_cluster import QueueOnCluster
from testkit.on_cluster.release import Release, is_rolled_out
from testkit.waiting import eventually_sync
from testkit.web.web_user import WebUser

pytestmark = pytest.mark.cluster


def is_served(user: WebUser) -> bool:
    """Its pod is ready before every part of the cluster has heard of it."""
    try:
        return user.get("/healthz")[0] == 200
    except (OSError, HTTPException):
        return False


def test_a_user_pauses_a_queue_on_the_page_and_resumes_it_by_its_api(
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
            url = f"http://127.0.0.1:{port}/"
            user = WebUser(url)
            eventually_sync(lambda: is_served(user), why="the port leads to the page")
            assert user.log_in(token) == 303
            path = f"/queues/{queue.namespace}.{queue.name}"
            eventually_sync(lambda: path in user.get("/")[1], why="the queue is on the page")
            assert "is paused" in user.act(path, action="pause")[1]
            assert "RedisReachable" in user.get(path)[1]
            assert queue.items.snapshot().paused
            program = WebUser(url, {"Authorization": f"Bearer {token}"})
            api = f"/api/v1{path}"
            assert json.loads(program.get(f"{api}/status")[1])["paused"] is True
            assert program.send("POST", api, "action=resume")[0] == 200
    assert not queue.items.snapshot().paused
    by_ann = f"system:serviceaccount:{queue.namespace}:ann"
    assert [(one.action, one.actor) for one in queue.items.audit_log(9)][:2] == [
        ("resume", by_ann),
        ("pause", by_ann),
    ]
    eventually_sync(lambda: "ChangedByHand" in queue.events(), why="there is an Event")
