"""What an operator does for a queue, on a real API server."""

import base64
import json
import time
from collections.abc import Callable

import redis

import claimq.blocking
from claimq.blocking import BlockingQueue
from testkit.kubernetes.operator_world import World, container
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

Items = Callable[..., BlockingQueue]


def test_a_first_item_orders_workers_without_waiting_for_the_next_pass(world: World, items: Items) -> None:
    world.operator(CLAIMQ_IDLE_PERIOD="1h")
    world.queue()
    world.wait_until_working()
    began = time.monotonic()
    items().enqueue("a")
    world.wait_for_replicas(1)
    print(f"workers ordered {time.monotonic() - began:.2f} s after the enqueue")
    eventually_sync(lambda: world.status()["scaling"]["replicas"] == 1)
    # The status has what limited the number only until the next decision is made.
    eventually_sync(lambda: world.events().get("ScaledUp", "").startswith("0 -> 1 workers (FromZero): "))


def test_the_policy_is_on_the_server_and_is_put_right_there(world: World, items: Items) -> None:
    world.operator()
    world.queue(requeueLimit=7)
    eventually_sync(lambda: items().policy().requeue_limit == 7)
    world.patch("rq", "thumbs", {"spec": {"requeueLimit": 2}})
    eventually_sync(lambda: items().policy().requeue_limit == 2)


def test_what_drifts_is_repaired_and_what_others_set_is_left(world: World) -> None:
    world.operator()
    world.queue()
    eventually_sync(lambda: world.replicas() is not None)
    foreign = {"metadata": {"annotations": {"team": "a"}}, "spec": {"minReadySeconds": 3}}
    world.patch("deployment", "thumbs-worker", foreign)
    container_of_ours = [{"name": "worker", "image": "evil:1"}]
    drift = {"spec": {"template": {"spec": {"containers": container_of_ours}}}}
    world.api.kubectl("patch", "deploy", "thumbs-worker", "-n", world.namespace, "-p", json.dumps(drift))
    eventually_sync(
        lambda: (
            world.get("deployment", "thumbs-worker")["spec"]["template"]["spec"]["containers"][0]["image"]
            == "app:1"
        )
    )
    found = world.get("deployment", "thumbs-worker")
    assert found["metadata"]["annotations"]["team"] == "a"
    assert found["spec"]["minReadySeconds"] == 3


def test_a_deleted_deployment_is_created_again(world: World) -> None:
    world.operator(CLAIMQ_RESYNC_PERIOD="5s")
    world.queue(scaling={"minReplicas": 2})
    world.wait_for_replicas(2)
    world.api.kubectl("delete", "deploy", "thumbs-worker", "-n", world.namespace, "--cascade=background")
    world.wait_for_replicas(2)


def test_the_scale_subresource_sets_the_number_in_mode_manual(world: World) -> None:
    world.operator()
    world.queue(scaling={"mode": "Manual", "replicas": 1})
    world.wait_for_replicas(1)
    world.api.kubectl("scale", "rq", "thumbs", "-n", world.namespace, "--replicas=3")
    world.wait_for_replicas(3)
    eventually_sync(lambda: world.condition("ScalingActive") == "False Manual")


def test_in_mode_external_applying_other_fields_leaves_the_replicas_alone(world: World) -> None:
    world.operator()
    world.queue(scaling={"mode": "External"})
    world.wait_for_replicas(0)
    world.api.kubectl("scale", "deploy", "thumbs-worker", "-n", world.namespace, "--replicas=4")
    world.patch("rq", "thumbs", {"spec": {"worker": {"image": "app:2"}}})
    eventually_sync(
        lambda: (
            world.get("deployment", "thumbs-worker")["spec"]["template"]["spec"]["containers"][0]["image"]
            == "app:2"
        )
    )
    assert world.replicas() == 4


def test_in_mode_external_the_scale_subresource_sets_replicas_across_a_suspension(
    world: World,
) -> None:
    world.operator()
    world.queue(scaling={"mode": "External", "replicas": 1})
    scale = f"/apis/claimq.dev/v1alpha1/namespaces/{world.namespace}/reliablequeues/thumbs/scale"
    # As an HPA does it: it reads the scale, and the pods by its selector, and writes the number.
    status, read = world.api.request("GET", scale)
    assert (status, read["spec"]["replicas"]) == (200, 1)
    world.api.request("PATCH", scale, {"spec": {"replicas": 3}})
    world.wait_for_replicas(3)
    world.patch("rq", "thumbs", {"spec": {"suspend": True}})
    world.wait_for_replicas(0)
    world.patch("rq", "thumbs", {"spec": {"suspend": False}})
    world.wait_for_replicas(3)


def test_a_new_deployments_number_survives_the_next_apply(world: World) -> None:
    # Left out by the manager that made it, and owned by no other manager, it would fall back to 1.
    world.operator()
    world.queue(scaling={"minReplicas": 3})
    world.wait_for_replicas(3)
    world.patch("rq", "thumbs", {"spec": {"worker": {"image": "app:2"}}})
    eventually_sync(
        lambda: (
            world.get("deployment", "thumbs-worker")["spec"]["template"]["spec"]["containers"][0]["image"]
            == "app:2"
        )
    )
    assert world.replicas() == 3


def undisturbed(world: World, measure: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """What is measured while the operator reports no outage of the server, which may stand still for a while."""

    def changed_at() -> list[str]:
        found = world.status()["conditions"]
        return [one["lastTransitionTime"] for one in found if one["type"] == "RedisReachable"]

    while True:
        before = changed_at()
        found = measure()
        if changed_at() == before:
            return found


def test_a_queue_that_rests_costs_no_write_and_no_connection(world: World) -> None:
    # Without an election: on a busy machine an operator may lose it. It closes its connections then, and a new leader
    # applies everything once.
    operator = world.operator(CLAIMQ_IDLE_PERIOD="100ms", CLAIMQ_LEADER_ELECTION="false")
    world.queue()
    world.wait_until_working()

    with redis.Redis.from_url(world.redis.tcp_url) as client:

        def costs() -> tuple[int, int]:
            """The writes to the cluster so far, and the connections that the server took."""
            writes = operator.metric("claimq_kubernetes_requests_total", verb="apply")
            return int(writes), int(client.info("stats")["total_connections_received"])

        def costs_of(passes: int) -> tuple[int, int]:
            """The writes and the new connections in so many passes."""
            writes, connections = costs()
            begun = operator.metric("claimq_passes_total")
            eventually_sync(lambda: operator.metric("claimq_passes_total") >= begun + passes)
            later_writes, later_connections = costs()
            return later_writes - writes, later_connections - connections

        eventually_sync(lambda: costs_of(10)[0] == 0, why="the status of its creation is written")
        writes, connections = undisturbed(world, lambda: costs_of(30))
    assert writes == 0
    # Not one for each pass; a call that comes while all others are in use may still open one.
    assert connections <= 3


def test_one_queue_whose_server_is_gone_delays_no_other(
    world: World, items: Items, start_server: Callable[..., Server]
) -> None:
    gone = start_server("valkey", tcp=True)
    world.operator(CLAIMQ_IDLE_PERIOD="1h")
    world.queue("broken", redis={"url": gone.tcp_url}, scaling={"minReplicas": 2})
    world.queue("whole")
    world.wait_for_replicas(2, "broken")
    gone.sigstop()
    eventually_sync(lambda: world.condition("RedisReachable", "broken") == "False Unreachable")
    items("whole").enqueue("a")
    # Only being woken explains it: the next pass by the clock is an hour away, and the other server is still frozen.
    world.wait_for_replicas(1, "whole")
    assert world.replicas("broken") == 2
    assert world.condition("ScalingActive", "broken") == "False Unknown"
    gone.sigcont()
    eventually_sync(lambda: world.condition("RedisReachable", "broken").startswith("True"))


def test_a_full_server_gets_the_workers_that_drain_it(
    world: World, start_server: Callable[..., Server]
) -> None:
    full = start_server("valkey", {"maxmemory-policy": "noeviction"}, tcp=True)
    with claimq.blocking.connect(full.tcp_url) as store:
        store.queue(f"{world.namespace}.thumbs").enqueue("a")
    full.call("CONFIG", "SET", "maxmemory", "1")
    world.operator()
    world.queue(redis={"url": full.tcp_url})
    world.wait_for_replicas(1)
    eventually_sync(lambda: world.condition("RedisReachable") == "True Full")
    assert world.condition("Stalled") == "True Full"


def test_a_secret_is_waited_for_and_a_rotation_is_picked_up_without_a_restart(
    world: World, items: Items
) -> None:
    world.operator(CLAIMQ_RESYNC_PERIOD="5s")
    world.queue(redis={"secretRef": {"name": "redis"}})
    eventually_sync(lambda: world.condition("Stalled") == "True SecretMissing")
    url = base64.b64encode(b"redis://127.0.0.1:1/0").decode()
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "redis", "namespace": world.namespace},
    }
    world.api.create({**manifest, "data": {"url": url}})
    eventually_sync(lambda: world.condition("RedisReachable") == "False Unreachable")
    right = base64.b64encode(world.redis.tcp_url.encode()).decode()
    world.patch("secret", "redis", {"data": {"url": right}})
    world.wait_until_working()
    items().enqueue("a")
    world.wait_for_replicas(1)


def test_a_template_that_the_api_server_refuses_is_answered_by_a_condition(world: World) -> None:
    world.operator()
    worker = {"image": "app:1", "template": {"spec": {"nodeSelector": {"a b": "c"}}}}
    world.queue(worker=worker)
    eventually_sync(lambda: world.condition("Stalled") == "True ChildInvalid")
    assert "nodeSelector" in str(world.status()["conditions"])


def test_scale_down_takes_idle_pods_and_marks_them_first(world: World, items: Items) -> None:
    world.operator()
    scaling = {"minReplicas": 1, "itemsPerReplica": 1, "scaleDown": {"stabilizationWindow": "0s"}}
    world.queue(scaling=scaling, busyExpiry="1h")  # nothing renews the claims here
    world.wait_for_replicas(1)
    items().enqueue_many(["a", "b", "c"])
    world.wait_for_replicas(3)
    names = [
        world.pod(name)["metadata"] for name in ("thumbs-worker-a", "thumbs-worker-b", "thumbs-worker-c")
    ]
    claimers = [items(worker=f"{one['name']}.{one['uid']}.1767225600500") for one in names]
    claims = [claimer.claim(1)[0] for claimer in claimers]
    eventually_sync(
        lambda: world.status()["workers"] == {"desired": 3, "ready": 3, "busy": 3, "summary": "3/3"}
    )
    # Both at once: with one of them done first, for long enough, just that one would be marked.
    items().done([claims[0].token, claims[2].token])
    world.wait_for_replicas(1)
    costs = {one["name"]: world.get("pod", one["name"])["metadata"].get("annotations", {}) for one in names}
    key = "controller.kubernetes.io/pod-deletion-cost"
    assert {name: found.get(key) for name, found in costs.items()} == {
        "thumbs-worker-a": "-1000",
        "thumbs-worker-b": None,
        "thumbs-worker-c": "-1000",
    }


def test_a_dead_sidecars_claims_go_back_at_once_with_the_cause(world: World, items: Items) -> None:
    operator = world.operator()
    world.queue(busyExpiry="1h")
    world.wait_until_working()
    uid = world.pod("thumbs-worker-a")["metadata"]["uid"]
    items().enqueue("a")
    old = items(worker=f"thumbs-worker-a.{uid}.1767225600500")
    new = items(worker=f"thumbs-worker-a.{uid}.1767226210000")
    assert len(old.claim(1)) == 1
    ended = {
        "containerID": "containerd://1",
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:10:00Z",
        "message": old.worker,  # as the sidecar leaves it
    }
    running = {"running": {"startedAt": "2026-01-01T00:10:05Z"}}
    again = container("claimq-sidecar", running, restartCount=1, lastState={"terminated": ended})
    world.pod_status("thumbs-worker-a", initContainerStatuses=[again])
    (claim,) = eventually_sync(lambda: new.claim(1))
    assert claim.item.crash_count == 1
    assert claim.item.last_error == (
        "claimq-sidecar ended: OOMKilled, exit code 137 (signal 9); pod thumbs-worker-a, node node-1, "
        "image claimq-sidecar:1, run 1"
    )
    eventually_sync(lambda: "ClaimsGivenBack" in world.events())
    assert operator.metric("claimq_claims_given_back_total") == 1
    # The running one's claim is its own, however often the status is looked at.
    passes = operator.metric("claimq_passes_total")
    eventually_sync(lambda: operator.metric("claimq_passes_total") >= passes + 3)
    assert new.length("busy") == 1


def test_a_removed_pod_object_alone_proves_nothing(world: World, items: Items) -> None:
    operator = world.operator()
    world.queue(busyExpiry="1h")
    world.wait_until_working()
    uid = world.pod("thumbs-worker-a")["metadata"]["uid"]
    items().enqueue("a")
    items(worker=f"thumbs-worker-a.{uid}.1767225600500").claim(1)
    eventually_sync(lambda: world.status()["workers"]["busy"] == 1)
    world.api.kubectl(
        "delete", "pod", "thumbs-worker-a", "-n", world.namespace, "--grace-period=0", "--force"
    )
    passes = operator.metric("claimq_passes_total")
    eventually_sync(lambda: operator.metric("claimq_passes_total") >= passes + 5)
    assert items().length("busy") == 1
