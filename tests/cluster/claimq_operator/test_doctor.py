"""`claimq doctor` on a real API server."""

import json
from typing import Any

from testkit.kubernetes.operator_world import World, container
from testkit.waiting import eventually_sync


def doctor(world: World, *arguments: str) -> tuple[int, dict[str, list[Any]]]:
    """The exit code, and what was found by check."""
    done = world.claimq("doctor", *arguments, f"--namespace={world.namespace}", "-o", "json")
    assert done.stderr == "", done.stderr
    found: dict[str, list[Any]] = {}
    for one in json.loads(done.stdout)["checks"]:
        found.setdefault(one["check"], []).append(one)
    return done.returncode, found


def test_a_healthy_queue_has_no_problem(world: World) -> None:
    world.queue("thumbs")
    world.operator()
    world.wait_until_working()
    code, found = doctor(world, "thumbs")
    states = {name: {one["state"] for one in checks} for name, checks in found.items()}
    assert code == 0, found
    for check in ("CRD reliablequeues.claimq.dev", "permissions", "worker pods", "sidecar images"):
        assert states[check] == {"ok"}, found
    assert "claimq-sidecar:1" in found["sidecar images"][0]["message"]
    assert found["ReliableQueue thumbs"][0]["message"].startswith("RedisReachable ReachableWithWarnings")
    assert states["server of thumbs"] == states["queue thumbs: claims"] == {"ok"}


def test_each_problem_is_shown_and_hides_no_other(world: World) -> None:
    redis = {"url": world.redis.tcp_url, "passwordSecretRef": {"name": "db"}}
    world.queue("protected", redis=redis)
    world.queue("thumbs")
    crashing = container("worker", {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}})
    world.pod("pod-a", containerStatuses=[crashing])
    code, found = doctor(world)  # no operator runs
    assert code == 1
    for queue in ("protected", "thumbs"):
        (one,) = found[f"ReliableQueue {queue}"]
        assert (one["state"], "no operator works on it" in one["message"]) == ("problem", True)
    (pods,) = found["worker pods of thumbs"]
    assert "CrashLoopBackOff of container worker (first pod-a)" in pods["message"]
    assert f"kubectl -n {world.namespace} logs pod-a --container=worker --previous" in pods["fix"]
    (secret,) = found["server"]
    assert (secret["state"], 'secrets "db" not found' in secret["message"]) == ("problem", True)
    assert "its Secret" in secret["fix"]
    assert found["server of thumbs"][0]["state"] == "ok"
    assert {"permissions", "sidecar images", "clock of the server of thumbs"} <= found.keys()
    named, found = doctor(world, "absent")
    assert (named, found["ReliableQueues"][0]["state"]) == (1, "problem")


def test_the_reason_of_the_operator_is_shown_with_its_fix(world: World) -> None:
    redis = {"url": world.redis.tcp_url, "passwordSecretRef": {"name": "db"}}
    world.queue("thumbs", redis=redis)
    world.operator()
    eventually_sync(lambda: world.condition("Stalled") == "True SecretMissing")
    code, found = doctor(world)
    stalled = found["ReliableQueue thumbs"][0]
    assert (code, stalled["state"]) == (1, "problem")
    assert "Stalled SecretMissing" in stalled["message"]
    assert "#stalled" in stalled["fix"]


def test_what_the_user_may_not_do_is_a_warning(world: World) -> None:
    world.queue("thumbs")
    world.operator()
    world.wait_until_working()
    where = ("-n", world.namespace)
    for name, verbs, resource in (
        ("reader", "get,list", "reliablequeues.claimq.dev"),
        ("forwarder", "create", "pods/portforward"),
    ):
        words = (f"--verb={verbs}", f"--resource={resource}", *where)
        world.api.kubectl("create", "role", name, *words)
        world.api.kubectl("create", "rolebinding", name, f"--role={name}", "--user=ann", *where)
    config = world.api.dir / f"{world.namespace}.kubeconfig"
    cluster = json.loads(world.api.kubeconfig().read_text())
    cluster["users"][0]["user"]["as"] = "ann"
    config.write_text(json.dumps(cluster))
    done = world.claimq(
        "doctor", "-n", world.namespace, "-o", "json", environment={"KUBECONFIG": str(config)}
    )
    found = json.loads(done.stdout)["checks"]
    assert (done.returncode, done.stderr) == (0, ""), found
    missing = {one["message"].partition(":")[0] for one in found if one["check"] == "permissions"}
    assert missing == {"no permission to get secrets", "no permission to list pods"}
    unread = {one["check"] for one in found if "could not be checked" in one["message"]}
    assert unread == {"worker pods", "sidecar images"}
