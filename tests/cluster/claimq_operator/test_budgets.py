"""The PodDisruptionBudget beside those of others, and children of a restored namespace, on a real API server."""

import json
from functools import partial
from typing import Any

import pytest

from claimq_kubernetes.port import Json
from testkit.kubernetes.operator_world import World
from testkit.waiting import eventually_sync

OURS = "thumbs-worker"
BUDGET = "poddisruptionbudget"


def budget(world: World, name: str, selector: Json) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"minAvailable": 1, "selector": selector},
    }
    world.api.create(body)


def a_queue(world: World, **worker: Any) -> None:
    world.queue(worker={"image": "app:1", **worker}, scaling={"mode": "Manual", "replicas": 1})
    world.wait_for_replicas(1)


def is_off(world: World) -> bool:
    """Whether there is no budget of the operator, or it selects no pods."""
    found = world.get(BUDGET, OURS)
    return found == {} or "matchExpressions" in found["spec"]["selector"]


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"claimq.dev/queue": "thumbs"}},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
        {},
    ],
)
def test_there_is_no_second_budget_beside_one_that_selects_the_pods(world: World, selector: Json) -> None:
    budget(world, "policy", selector)
    world.operator()
    a_queue(world, template={"metadata": {"labels": {"team": "a"}}})
    eventually_sync(lambda: world.condition("Ready") == "True WorkersStarting")  # written after the children
    assert is_off(world)


def test_the_operators_budget_goes_when_another_one_comes(world: World) -> None:
    world.operator()
    a_queue(world)
    eventually_sync(lambda: not is_off(world))
    budget(world, "other", {"matchLabels": {"app": "other"}})
    budget(world, "policy", {"matchLabels": {"claimq.dev/queue": "thumbs"}})
    eventually_sync(lambda: is_off(world))
    world.api.kubectl("delete", "pdb", "policy", "-n", world.namespace)
    eventually_sync(lambda: not is_off(world))


def test_a_field_turns_the_budget_off_and_on(world: World) -> None:
    world.operator()
    a_queue(world)
    eventually_sync(lambda: not is_off(world))
    world.patch("rq", "thumbs", {"spec": {"worker": {"disruptionBudget": False}}})
    eventually_sync(lambda: is_off(world))
    world.patch("rq", "thumbs", {"spec": {"worker": {"disruptionBudget": True}}})
    eventually_sync(lambda: not is_off(world))


def test_a_budget_that_was_deleted_by_hand_is_created_again(world: World) -> None:
    world.operator()
    a_queue(world)
    eventually_sync(lambda: not is_off(world))
    uid = world.get(BUDGET, OURS)["metadata"]["uid"]
    world.api.kubectl("delete", "pdb", OURS, "-n", world.namespace)
    eventually_sync(lambda: world.get(BUDGET, OURS).get("metadata", {}).get("uid") not in (None, uid))


def test_children_of_a_restored_namespace_are_adopted(world: World) -> None:
    """A backup restores objects without owners and without a status, and the queue has another uid."""
    first = world.operator()
    a_queue(world)
    eventually_sync(lambda: not is_off(world))
    first.process.kill9()
    path = f"/apis/claimq.dev/v1alpha1/namespaces/{world.namespace}/reliablequeues/thumbs"
    assert world.api.request("DELETE", path, {"propagationPolicy": "Orphan"})[0] == 200
    world.patch("rq", "thumbs", {"metadata": {"finalizers": None}})
    eventually_sync(lambda: world.get("rq", "thumbs") == {})
    for kind in ("deployment", BUDGET):
        world.patch(kind, OURS, {"metadata": {"ownerReferences": None}})
    world.queue(worker={"image": "app:2"}, scaling={"mode": "Manual", "replicas": 1})
    uid = world.get("rq", "thumbs")["metadata"]["uid"]
    world.operator()

    def is_adopted(kind: str) -> bool:
        return [one["uid"] for one in world.get(kind, OURS)["metadata"].get("ownerReferences", [])] == [uid]

    eventually_sync(partial(is_adopted, "deployment"))
    eventually_sync(partial(is_adopted, BUDGET))
    assert "app:2" in json.dumps(world.get("deployment", OURS))
    eventually_sync(lambda: world.condition("Stalled") == "False NotStalled")  # written after the children


def test_a_new_object_does_not_look_as_if_the_operator_had_acted_on_it(world: World) -> None:
    world.queue()
    assert world.status() == {"observedGeneration": -1}


def test_a_suspended_queue_is_ready_on_purpose(world: World) -> None:
    world.operator()
    world.queue(suspend=True)
    eventually_sync(lambda: world.condition("Ready") == "True SpecSuspend")


def test_the_worker_deployment_has_the_labels_and_annotations_of_the_manifest(world: World) -> None:
    world.operator()
    labels = {"cost-center": "42", "claimq.dev/queue": "other"}
    a_queue(world, deployment={"labels": labels, "annotations": {"owner": "team-a"}})
    metadata = world.get("deployment", OURS)["metadata"]
    assert (metadata["labels"]["cost-center"], metadata["annotations"]["owner"]) == ("42", "team-a")
    assert metadata["labels"]["claimq.dev/queue"] == "thumbs"
    world.patch("rq", "thumbs", {"spec": {"worker": {"deployment": None}}})
    eventually_sync(lambda: "cost-center" not in world.get("deployment", OURS)["metadata"]["labels"])
