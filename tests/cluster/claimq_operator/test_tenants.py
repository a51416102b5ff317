"""What one tenant's ReliableQueue can do to another's queue, password and objects: nothing, and it says why."""

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import pytest

from claimq import Policy
from claimq.blocking import BlockingQueue
from testkit.kubernetes.operator_world import World
from testkit.waiting import PATIENCE, eventually_sync

Items = Callable[..., BlockingQueue]
TAKE_OVER = "claimq.dev/take-over-from"


def stored(world: World, queue: str) -> dict[str, object]:
    """Everything on the server of a queue."""
    keys = world.redis.call("KEYS", f"cq:{{{queue}}}:*")
    assert isinstance(keys, list)
    return {name: world.redis.call("DUMP", name) for name in (str(key)[2:-1] for key in keys)}


def message(world: World, kind: str, name: str) -> str:
    listed = world.status(name).get("conditions", [])
    return next((str(one["message"]) for one in listed if one["type"] == kind), "")


def delete(world: World, name: str) -> None:
    world.api.kubectl("delete", "rq", name, "-n", world.namespace, "--wait=false")
    eventually_sync(lambda: world.get("rq", name) == {}, why=f"{name} is gone")


def test_the_name_of_another_namespaces_queue_is_refused_and_nothing_happens(world: World) -> None:
    theirs = f"other-{world.namespace}.orders"
    for number in range(5):
        world.redis.call("LPUSH", f"cq:{{{theirs}}}:main", str(number))
    before = stored(world, theirs)
    world.operator()
    world.queue(
        "attack",
        queueName=theirs,
        suspend=True,
        deletionPolicy="Delete",
        requeueLimit=0,
        scaling={"minReplicas": 1},
    )
    eventually_sync(lambda: world.condition("Stalled", "attack") == "True QueueNameForbidden")
    assert "operator.queueNames" in message(world, "Stalled", "attack")
    assert world.replicas("attack") is None
    delete(world, "attack")
    assert stored(world, theirs) == before
    assert "ItemsKept" in world.events()


def test_a_queue_with_an_owner_is_left_alone_by_another_object(world: World, items: Items) -> None:
    name = f"{world.namespace}.thumbs"
    world.operator()
    world.queue("thumbs", requeueLimit=7, scaling={"minReplicas": 1})
    eventually_sync(lambda: world.condition("RedisReachable") == "True ReachableWithWarnings")
    items().enqueue_many(["a", "b", "c"])
    world.queue("attack", queueName=name, requeueLimit=0, suspend=True, deletionPolicy="Delete")
    eventually_sync(lambda: world.condition("Stalled", "attack") == "True OwnedByAnother")
    delete(world, "attack")
    assert (items().length("main"), items().policy().requeue_limit) == (3, 7)
    assert not items().snapshot().paused
    assert world.replicas("attack") is None
    assert world.condition("Stalled") == "False NotStalled"


def test_taking_over_is_one_annotation_and_the_former_owner_steps_back(world: World, items: Items) -> None:
    name = f"{world.namespace}.thumbs"
    world.operator()
    world.queue("thumbs", requeueLimit=7, scaling={"mode": "Manual", "replicas": 2})
    world.wait_for_replicas(2)
    world.queue("next", queueName=name, requeueLimit=3)
    eventually_sync(lambda: world.condition("Stalled", "next") == "True OwnedByAnother")
    assert items().policy().requeue_limit == 7
    # As the message says.
    owner = message(world, "Stalled", "next").partition(f"{TAKE_OVER}=")[2].partition("`")[0]
    world.patch("rq", "next", {"metadata": {"annotations": {TAKE_OVER: owner}}})
    eventually_sync(lambda: items().policy().requeue_limit == 3)
    eventually_sync(lambda: world.condition("Stalled") == "True OwnedByAnother")
    world.wait_for_replicas(0)
    eventually_sync(lambda: world.condition("RedisReachable", "next") == "True ReachableWithWarnings")


def test_an_object_made_again_keeps_its_queue(world: World, items: Items) -> None:
    world.operator()
    world.queue(requeueLimit=7)
    eventually_sync(lambda: items().policy().requeue_limit == 7)
    delete(world, "thumbs")
    world.queue(requeueLimit=4)
    eventually_sync(lambda: items().policy() == Policy(requeue_limit=4))


def test_a_name_outside_the_namespace_is_a_setting(world: World) -> None:
    shared = f"shared-{world.namespace}"
    world.operator(CLAIMQ_QUEUE_NAMES=f"{world.namespace}=shared-*")
    world.queue("orders", queueName=shared)
    eventually_sync(lambda: world.condition("RedisReachable", "orders") == "True ReachableWithWarnings")
    assert world.redis.call("HGET", f"cq:{{{shared}}}:config", "owner") is not None


@contextmanager
def listener(answer: bytes) -> Generator[tuple[int, list[bytes]]]:
    """A port that notes all that is sent to it, and answers with this."""
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    heard.append(connection.recv(65536))
                    connection.sendall(answer)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1], heard
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(PATIENCE)


def test_a_password_is_not_sent_where_its_secret_does_not_allow(world: World) -> None:
    world.api.kubectl(
        "create", "secret", "generic", "db", "-n", world.namespace, "--from-literal=password=S3CRET-canary",
        "--from-literal=hosts=127.0.0.9:1",
    )  # fmt: skip
    with listener(b"+OK\r\n") as (port, heard):
        world.operator()
        world.queue(
            "thumbs",
            redis={"url": f"redis://127.0.0.1:{port}/0", "passwordSecretRef": {"name": "db"}},
            scaling={"minReplicas": 1},
        )
        eventually_sync(lambda: world.condition("Stalled") == "True PasswordHostForbidden")
        assert heard == []
        assert world.replicas() is None  # a worker's sidecar would send it as well
        # As the message says: the one who may write the Secret allows the host.
        patch = {"stringData": {"hosts": f"127.0.0.1:{port}"}}
        world.patch("secret", "db", patch)
        eventually_sync(lambda: any(b"S3CRET-canary" in one for one in heard))
    assert "canary" not in str(world.status()) + str(world.events()) + world.operators[0].log.read_text()


def test_a_foreign_hosts_reply_is_not_shown(world: World) -> None:
    with listener(b"-ERR internal: S3CRET-canary of 10.0.0.7\r\n") as (port, heard):
        world.operator()
        world.queue(redis={"url": f"redis://127.0.0.1:{port}/0"}, scaling={"mode": "Manual", "replicas": 0})
        eventually_sync(lambda: world.condition("RedisReachable").startswith("False "))
        eventually_sync(lambda: "RedisUnreachable" in world.events() or "Misused" in world.events())
    assert heard
    assert "canary" not in str(world.status()) + str(world.events()) + world.operators[0].log.read_text()


@pytest.mark.parametrize("kind", ["deployment", "poddisruptionbudget"])
def test_an_object_of_another_app_is_not_taken_over(world: World, kind: str) -> None:
    labels = {"app": "theirs"}
    specs = {
        "deployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "a", "image": "theirs:1"}]},
                },
            },
        },
        "poddisruptionbudget": {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}},
        },
    }
    metadata = {"name": "thumbs-worker", "namespace": world.namespace}
    world.api.create({**specs[kind], "metadata": metadata})
    before = world.get(kind, "thumbs-worker")
    world.operator()
    world.queue(scaling={"mode": "Manual", "replicas": 1})
    eventually_sync(lambda: world.condition("Stalled") == "True ChildNotOurs")
    assert "thumbs-worker" in message(world, "Stalled", "thumbs")
    assert world.get(kind, "thumbs-worker") == before
    # As the message says: once it is gone, the queue makes its own.
    world.api.kubectl("delete", kind, "thumbs-worker", "-n", world.namespace)
    eventually_sync(lambda: world.condition("Stalled") == "False NotStalled")
    uid = world.get("rq", "thumbs")["metadata"]["uid"]
    assert world.get(kind, "thumbs-worker")["metadata"]["ownerReferences"][0]["uid"] == uid


def test_a_template_that_asks_for_the_node_makes_no_pods_until_a_setting_allows_it(world: World) -> None:
    worker = {"image": "app:1", "template": {"spec": {"hostNetwork": True}}}
    strict = world.operator(CLAIMQ_LEASE_DURATION="3s")
    world.queue(worker=worker, scaling={"mode": "Manual", "replicas": 1})
    eventually_sync(lambda: world.condition("Stalled") == "True TemplateForbidden")
    assert "spec.worker.template.spec.hostNetwork" in message(world, "Stalled", "thumbs")
    assert world.replicas() is None
    strict.process.kill9()
    world.operator(CLAIMQ_WORKERS_MAY="HostNetwork", CLAIMQ_LEASE_DURATION="3s")
    world.wait_for_replicas(1)


def create_deep(world: World, name: str, levels: int) -> None:
    """A ReliableQueue with so many levels in its template."""
    manifest = world.manifest(name, dict(world.get("rq", "first")["spec"]))
    manifest["spec"]["worker"]["template"] = {"spec": {"affinity": "DEEP"}}
    text = json.dumps(manifest).replace('"DEEP"', '{"a":' * levels + "1" + "}" * levels)
    world.api.kubectl("create", "--validate=false", "-f", "-", stdin=text)


def test_templates_with_thousands_of_levels_are_refused_and_stop_no_other_queue(world: World) -> None:
    """Python's JSON decoder has a limit of a thousand levels, and lists and watches have the objects of all tenants. A
    copy of an object has one of about five hundred."""

    def is_refused(name: str) -> bool:
        path = "jsonpath={.status.conditions[?(@.type=='Stalled')].message}"
        message = world.api.kubectl("get", "rq", name, "-n", world.namespace, "-o", path)
        return "more than 100 objects and lists" in message

    world.queue("first", scaling={"mode": "Manual", "replicas": 1})
    create_deep(world, "listed", 3000)
    world.operator(CLAIMQ_RESYNC_PERIOD="1h")
    world.wait_for_replicas(1, "first")
    watched = {"deeper": 3000, "deep": 700}
    for name, levels in watched.items():
        create_deep(world, name, levels)
    for name in ("listed", *watched):
        eventually_sync(partial(is_refused, name))
    assert [world.replicas(name) for name in watched] == [None, None]
    world.queue("second", scaling={"mode": "Manual", "replicas": 2})
    world.wait_for_replicas(2, "second")
    for name in ("listed", *watched):
        world.api.kubectl("delete", "rq", name, "-n", world.namespace, "--timeout=300s")
