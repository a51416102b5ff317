"""Operators start, stop and restart, and queues are deleted, on a real API server."""

import time
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from claimq.blocking import BlockingQueue
from claimq_kubernetes.port import Json
from testkit.kubernetes.operator_world import Operator, World
from testkit.waiting import eventually_sync

Items = Callable[..., BlockingQueue]


def gone(world: World) -> bool:
    return world.get("rq", "thumbs") == {}


def delete(world: World, name: str = "thumbs") -> None:
    world.api.kubectl("delete", "rq", name, "-n", world.namespace, "--wait=false")


def has_made(operator: Operator, passes: float) -> bool:
    return operator.metric("claimq_passes_total") >= passes


def test_retain_keeps_the_items_and_needs_no_operator(world: World, items: Items) -> None:
    operator = world.operator()
    world.queue()
    world.wait_until_working()
    items().enqueue("a")
    operator.process.kill9()
    delete(world)
    eventually_sync(lambda: gone(world))
    assert items().length("main") == 1


def test_delete_removes_the_queue_with_all_its_keys(world: World, items: Items) -> None:
    world.operator()
    world.queue(deletionPolicy="Delete")
    world.wait_until_working()
    items().enqueue_many(["a", "b"])
    world.wait_for_replicas(1)
    delete(world)
    eventually_sync(lambda: gone(world))
    assert world.replicas() == 0
    left = cast("list[bytes]", world.redis.call("KEYS", f"cq:{{{world.namespace}.thumbs}}:*"))
    assert [key for key in left if b":calls:" not in key] == []  # those end by themselves
    assert "ItemsRemoved" in world.events()


def test_delete_if_empty_keeps_a_queue_that_has_items(world: World, items: Items) -> None:
    world.operator()
    world.queue(deletionPolicy="DeleteIfEmpty", scaling={"mode": "Manual", "replicas": 0})
    world.wait_until_working()
    items().enqueue("a")
    delete(world)
    eventually_sync(lambda: gone(world))
    assert items().length("main") == 1
    assert not items().snapshot().paused
    assert "ItemsKept" in world.events()


def test_a_deletion_never_hangs_when_the_server_is_gone_for_good(world: World) -> None:
    world.operator(CLAIMQ_DELETION_PATIENCE="2s")
    world.queue(deletionPolicy="Delete", redis={"url": "redis://127.0.0.1:1/0"})
    eventually_sync(lambda: world.condition("RedisReachable") == "False Unreachable")
    delete(world)
    eventually_sync(lambda: gone(world))
    assert "ItemsLeftBehind" in world.events()


def test_what_changed_while_no_operator_ran_is_found_by_the_next(world: World, items: Items) -> None:
    first = world.operator(CLAIMQ_LEASE_DURATION="3s")
    world.queue()
    world.wait_until_working()
    first.process.kill9()
    world.patch("rq", "thumbs", {"spec": {"scaling": {"minReplicas": 2}}})
    world.patch("rq", "thumbs", {"spec": {"scaling": {"minReplicas": 3}}})
    world.queue("second")
    items("second").enqueue("a")
    world.operator(CLAIMQ_LEASE_DURATION="3s")
    world.wait_for_replicas(3)
    world.wait_for_replicas(1, "second")


def test_one_of_two_operators_works_and_the_other_follows_when_it_is_killed(
    world: World, items: Items
) -> None:
    first = world.operator(CLAIMQ_OPERATOR_ID="first")
    eventually_sync(lambda: first.metric("claimq_leader") == 1)
    second = world.operator(CLAIMQ_OPERATOR_ID="second")
    world.queue()
    world.wait_until_working()
    assert (first.metric("claimq_leader"), second.metric("claimq_leader")) == (1, 0)
    assert second.metric("claimq_passes_total") == 0
    first.process.kill9()
    items().enqueue("a")
    world.wait_for_replicas(1)
    assert second.metric("claimq_leader") == 1


def test_two_operators_that_both_work_agree(world: World, items: Items) -> None:
    both = [
        world.operator(CLAIMQ_LEADER_ELECTION="false", CLAIMQ_OPERATOR_ID=identity)
        for identity in ("first", "second")
    ]
    world.queue(scaling={"itemsPerReplica": 2})
    world.wait_until_working()
    items().enqueue_many([str(number) for number in range(6)])
    world.wait_for_replicas(3)
    world.patch("rq", "thumbs", {"spec": {"worker": {"image": "app:2"}}})

    def both_leave_it() -> bool:
        # One that has not heard of the change yet puts the older image back, until it has.
        before = world.get("deployment", "thumbs-worker")
        seen = [one.metric("claimq_passes_total") for one in both]
        for operator, passes in zip(both, seen, strict=True):
            eventually_sync(partial(has_made, operator, passes + 3))
        after = world.get("deployment", "thumbs-worker")
        image = after["spec"]["template"]["spec"]["containers"][0]["image"]
        generations = {one["metadata"]["generation"] for one in (before, after)}
        return image == "app:2" and len(generations) == 1

    eventually_sync(both_leave_it, why="both have the new image and change nothing more")
    assert world.replicas() == 3


def test_sigterm_ends_it_in_good_order_and_gives_the_lease_up(world: World) -> None:
    def gives_it_up() -> bool:
        """It tries for two seconds only, in which a busy API server may not answer."""
        operator = world.operator(CLAIMQ_LEASE_DURATION="3s")
        eventually_sync(lambda: operator.metric("claimq_leader") == 1)
        assert operator.process.terminate() == 0
        return bool(world.get("lease", "claimq-operator")["spec"]["holderIdentity"] == "")

    eventually_sync(gives_it_up)


def test_the_loops_show_that_they_run(world: World) -> None:
    operator = world.operator()
    world.queue()
    world.wait_until_working()
    eventually_sync(lambda: operator.get("/livez") == (200, "ok"))
    eventually_sync(lambda: 'claimq_loop_age_seconds{loop="event-loop"}' in operator.get("/metrics")[1])
    eventually_sync(lambda: operator.metric("claimq_loop_age_seconds", loop="event-loop") < 5)


def end_namespace(world: World) -> None:
    """Deletes the namespace. No controller runs here that deletes what is in it: the queue is deleted by the test."""
    assert world.api.request("DELETE", f"/api/v1/namespaces/{world.namespace}")[0] == 200
    delete(world)


SERVER_OF_THE_NAMESPACE = [
    ({"url": "redis://redis:6379"}, "Unreachable"),
    ({"secretRef": {"name": "redis"}}, "SecretMissing"),
]


@pytest.mark.parametrize(("redis", "reason"), SERVER_OF_THE_NAMESPACE)
def test_a_namespace_that_is_deleted_with_its_server_does_not_wait_for_it(
    world: World, redis: Json, reason: str
) -> None:
    operator = world.operator(CLAIMQ_DELETION_PATIENCE="10m")
    world.queue(deletionPolicy="Delete", redis=redis)
    eventually_sync(lambda: world.condition("RedisReachable") == f"False {reason}")
    end_namespace(world)
    # Some 6 s on an idle machine. It would wait for the server for 10 min.
    eventually_sync(lambda: gone(world))
    assert "event=kubernetes_event" in operator.log.read_text()


def test_a_server_outside_the_deleted_namespace_is_waited_for(world: World) -> None:
    operator = world.operator(CLAIMQ_DELETION_PATIENCE="12s")
    world.queue(deletionPolicy="Delete", redis={"url": "redis://127.0.0.1:1/0"})
    eventually_sync(lambda: world.condition("RedisReachable") == "False Unreachable")
    began = time.monotonic()
    end_namespace(world)
    eventually_sync(lambda: gone(world))
    assert time.monotonic() - began >= 12
    assert "reason=DeletionWaits" in operator.log.read_text()
