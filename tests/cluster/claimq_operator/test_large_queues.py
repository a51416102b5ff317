"""Objects that are as large as the API server takes them cannot use up the operator's memory."""

import base64
from typing import Any

import pytest

from testkit.kubernetes.operator_world import World
from testkit.programs.peak_memory import largest_memory, limit_of_the_chart
from testkit.waiting import eventually_sync

COUNT = 75
"""An operator that keeps whole specs of so many queues takes 300 MiB, and 210 MiB with their Secrets instead."""
SIZE = 1_000_000
EMPTY_LISTS: list[list[str]] = [[]] * 15_000
"""Less than 64 KiB of JSON."""


@pytest.mark.parametrize(
    ("affinity", "bound"),
    [("x" * SIZE, "give at most 65,536"), (EMPTY_LISTS, "give at most 5,000")],
    ids=["bytes", "values"],
)
def test_many_large_queues_leave_the_operator_below_half_of_its_limit(
    world: World, affinity: object, bound: str
) -> None:
    worker: dict[str, Any] = {
        "image": "app:1",
        "template": {"spec": {"affinity": {"nodeAffinity": affinity}}},
    }
    for number in range(COUNT):
        world.queue(f"large-{number}", worker=worker)
    world.queue("small", scaling={"minReplicas": 1})
    operator = world.operator()
    world.wait_for_replicas(1, "small")
    eventually_sync(lambda: world.condition("Stalled", name=f"large-{COUNT - 1}") == "True SpecInvalid")
    assert largest_memory(operator.process.pid) < limit_of_the_chart("operator") / 2
    found = world.status(f"large-{COUNT - 1}")["conditions"]
    message = next(one["message"] for one in found if one["type"] == "Stalled")
    assert bound in message


def test_large_secrets_leave_the_operator_below_a_third_of_its_limit(world: World) -> None:
    """Each queue has a Secret of its own, in which the password is a small part."""
    more = base64.b64encode(b"x" * SIZE).decode()
    password, hosts = (base64.b64encode(one).decode() for one in (b"word", b"*"))
    for number in range(COUNT):
        metadata = {"name": f"large-{number}", "namespace": world.namespace}
        data = {"password": password, "hosts": hosts, "more": more}
        world.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        redis = {"url": world.redis.tcp_url, "passwordSecretRef": {"name": f"large-{number}"}}
        world.queue(f"large-{number}", redis=redis)
    operator = world.operator()

    def is_tried(number: int) -> bool:
        return world.condition("RedisReachable", name=f"large-{number}") != ""

    eventually_sync(lambda: all(map(is_tried, range(COUNT))))
    assert largest_memory(operator.process.pid) < limit_of_the_chart("operator") / 3


def test_the_finalizers_of_others_stay(world: World) -> None:
    """The operator does not keep them in memory."""
    world.queue(deletionPolicy="Delete")
    theirs = [f"example.com/finalizer-{number}" for number in range(3)]
    world.patch("rq", "thumbs", {"metadata": {"finalizers": theirs}})
    world.operator()

    def finalizers() -> list[str]:
        return list(world.get("rq", "thumbs")["metadata"].get("finalizers", []))

    eventually_sync(lambda: finalizers() == [*theirs, "claimq.dev/deletion-policy"])
    world.patch("rq", "thumbs", {"spec": {"deletionPolicy": "Retain"}})
    eventually_sync(lambda: finalizers() == theirs)
    world.patch("rq", "thumbs", {"metadata": {"finalizers": None}})
