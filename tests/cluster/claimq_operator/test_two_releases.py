"""Two releases of the operator that serve one namespace, on a real API server: one manages it, the other stands by."""

import json
from collections.abc import Callable

from claimq.blocking import BlockingQueue
from claimq_kubernetes.port import Json
from testkit.kubernetes.operator_world import Operator, World
from testkit.waiting import eventually_sync

Items = Callable[..., BlockingQueue]
LEASE = "queues.claimq.dev"
QUICK = {"CLAIMQ_LEASE_DURATION": "3s"}
"""Where a release is to be given up soon."""


def release(world: World, name: str, **settings: str) -> Operator:
    """An operator of a release that is installed in a namespace of its own."""
    usual = {
        "CLAIMQ_OPERATOR_NAMESPACE": "default",
        "CLAIMQ_LEASE_NAME": f"{name}-{world.namespace}",
        "CLAIMQ_LEADER_ELECTION": "false",
        # It loses a namespace after three times this: longer than a busy machine lets it stand still.
        "CLAIMQ_LEASE_DURATION": "6s",
        "CLAIMQ_SIDECAR_IMAGE": f"claimq-sidecar:{name}",
    }
    return world.operator(**{**usual, **settings})


def identity(world: World, name: str) -> str:
    return f"default/{name}-{world.namespace}"


def deployment(world: World) -> Json:
    return world.get("deployment", "thumbs-worker")


def sidecar_image(world: World) -> str:
    (sidecar,) = deployment(world)["spec"]["template"]["spec"]["initContainers"]
    return str(sidecar["image"])


def message(world: World, kind: str) -> str:
    listed = world.status().get("conditions", [])
    return next((str(one["message"]) for one in listed if one["type"] == kind), "")


def two_releases(world: World, **settings: str) -> tuple[Operator, Operator]:
    """The platform's, which manages the queue, and the team's with another sidecar, which stands by."""
    platform = release(world, "platform", **settings)
    world.queue(scaling={"mode": "Manual", "replicas": 1})
    world.wait_for_replicas(1)
    team = release(world, "team", **settings)
    eventually_sync(lambda: world.condition("OperatorConflict") == "True OthersStandBy")
    return platform, team


def test_a_second_release_changes_nothing_and_a_condition_names_it(world: World) -> None:
    platform, team = two_releases(world)
    before = deployment(world)["metadata"]["generation"]
    passes = platform.metric("claimq_passes_total")
    eventually_sync(lambda: platform.metric("claimq_passes_total") >= passes + 20)
    assert deployment(world)["metadata"]["generation"] == before
    assert sidecar_image(world) == "claimq-sidecar:platform"
    assert team.metric("claimq_passes_total") == 0
    assert identity(world, "team") in message(world, "OperatorConflict")
    assert "OperatorConflict" in world.events()


def test_ready_names_the_release_that_stands_by_and_stays_true(world: World) -> None:
    release(world, "platform", **QUICK)
    world.queue(scaling={"mode": "Manual", "replicas": 0})
    world.wait_until_working()
    team = release(world, "team", **QUICK)
    eventually_sync(lambda: world.condition("Ready") == "True OperatorConflict")
    assert identity(world, "team") in message(world, "Ready")
    team.process.kill9()
    world.wait_until_working()
    assert world.condition("OperatorConflict") == ""


def test_the_other_release_takes_over_from_one_that_was_killed(world: World) -> None:
    platform, team = two_releases(world, **QUICK)
    platform.process.kill9()
    eventually_sync(lambda: sidecar_image(world) == "claimq-sidecar:team")
    eventually_sync(lambda: world.condition("OperatorConflict") == "")
    assert world.get("lease", LEASE)["spec"]["holderIdentity"] == identity(world, "team")
    eventually_sync(lambda: team.metric("claimq_passes_total") > 0)  # counted at the end of the pass


def test_a_namespace_is_handed_over_by_the_command_in_the_condition(world: World) -> None:
    two_releases(world)
    command = message(world, "OperatorConflict").partition("`kubectl ")[2].partition("`")[0]
    lease, patch = command.partition("--patch='")[::2]
    world.api.kubectl(*lease.split(), f"--patch={patch.removesuffix(chr(39))}")
    eventually_sync(lambda: sidecar_image(world) == "claimq-sidecar:team")
    eventually_sync(lambda: identity(world, "platform") in message(world, "OperatorConflict"))
    generation = deployment(world)["metadata"]["generation"]
    renewed = json.dumps(world.get("lease", LEASE)["spec"])
    eventually_sync(lambda: json.dumps(world.get("lease", LEASE)["spec"]) != renewed)
    assert deployment(world)["metadata"]["generation"] == generation


def test_a_namespace_that_is_being_deleted_still_deletes_its_queues(world: World, items: Items) -> None:
    release(world, "platform")
    world.queue(deletionPolicy="Delete")
    world.wait_until_working()
    items().enqueue("a")
    world.api.kubectl("delete", "namespace", world.namespace, "--wait=false")
    world.api.kubectl("delete", "lease", LEASE, "-n", world.namespace)
    world.api.kubectl("delete", "rq", "thumbs", "-n", world.namespace, "--wait=false")
    eventually_sync(lambda: world.get("rq", "thumbs") == {})
