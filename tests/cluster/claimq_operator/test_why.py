"""What users see of a scaling decision, on a real API server: `kubectl describe`, `claimq why`, metrics."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from claimq.blocking import BlockingQueue
from testkit.kubernetes.operator_world import World
from testkit.waiting import eventually_sync

Items = Callable[..., BlockingQueue]


def why_json(world: World) -> Any:
    done = world.claimq("why", "thumbs", f"--namespace={world.namespace}", "-o", "json")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def test_a_decision_is_shown_by_kubectl_by_the_command_and_as_metrics(world: World, items: Items) -> None:
    operator = world.operator()
    world.queue(scaling={"maxReplicas": 2, "targetAge": "10s", "itemsPerReplica": 4})
    world.wait_until_working()
    items().enqueue_many(map(str, range(400)))
    eventually_sync(lambda: world.condition("ScalingLimited") == "True MaxReplicas")
    eventually_sync(lambda: world.status()["scaling"].get("inputs", {}).get("main") == 400)

    described = world.api.kubectl("describe", "rq", "thumbs", "-n", world.namespace)
    for shown in ("For Deadlines:", "Seconds Per Item:", "Rule:", "MaxReplicas", "400 items waiting"):
        assert shown in described, described
    eventually_sync(lambda: "ScalingLimited" in world.events())
    # The workers never come: nothing plays the Deployment controller.
    described = world.api.kubectl("describe", "rq", "thumbs", "-n", world.namespace)
    events = described.partition("Events:")[2]
    assert "ScaledUp" in events, described
    assert "workers are needed to start every item within 10s" in events, described

    found = why_json(world)
    assert (found["queue"], found["rule"], found["replicas"]) == (
        f"{world.namespace}/thumbs",
        "MaxReplicas",
        2,
    )
    assert found["demand"]["forItemsPerReplica"] == 100
    assert "workers are needed" in found["limited"]
    table = world.claimq("why", "thumbs", f"--namespace={world.namespace}").stdout
    assert "workers for itemsPerReplica" in table, table

    of_queue = {"namespace": world.namespace}
    # One that loses its leadership for a moment has no series of queues.
    wanted = partial(operator.metric, "claimq_scaling_wanted_workers", rule="items_per_replica", **of_queue)
    eventually_sync(lambda: wanted() == 100, why="the workers for itemsPerReplica are a metric")
    needed = partial(operator.metric, "claimq_scaling_needed_workers", **of_queue)
    eventually_sync(lambda: needed() > 2, why="the workers that are needed are a metric")
    waiting = partial(operator.metric, "claimq_queue_items", state="main", **of_queue)
    eventually_sync(lambda: waiting() == 400, why="the items that wait are a metric")
    world.api.kubectl("delete", "rq", "thumbs", "-n", world.namespace)
    eventually_sync(lambda: 'name="thumbs"' not in operator.metrics_page())


def test_a_queue_that_is_absent_or_has_no_decision_is_one_line(world: World) -> None:
    absent = world.claimq("why", "thumbs", f"--namespace={world.namespace}")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "NotFound" in absent.stderr
    world.queue()  # no operator runs
    undecided = world.claimq("why", "thumbs", f"--namespace={world.namespace}")
    assert undecided.returncode == 3
    assert "no decision was made yet" in undecided.stderr
