"""What an operator logs, on a real API server: read as the on-call engineer's tools read it."""

import base64
from collections.abc import Callable

from claimq.blocking import BlockingQueue
from testkit.kubernetes.operator_world import World
from testkit.programs.logfmt import read_log
from testkit.waiting import eventually_sync


def test_every_log_line_has_the_common_form_and_none_has_a_secret(
    world: World, items: Callable[..., BlockingQueue]
) -> None:
    secret = base64.b64encode(b"redis://:hush-hush@127.0.0.1:1/0").decode()
    metadata = {"name": "redis", "namespace": world.namespace}
    world.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"url": secret}})
    operator = world.operator(CLAIMQ_LOG_LEVEL="debug")
    world.queue("broken", redis={"secretRef": {"name": "redis"}})
    world.queue()
    world.wait_for_replicas(0)  # so that the first item changes it
    items().enqueue("canary-payload")
    eventually_sync(lambda: world.condition("RedisReachable", "broken") == "False Unreachable")
    eventually_sync(lambda: {"ScaledUp", "RedisUnreachable"} <= set(world.events()))
    assert operator.process.terminate() == 0
    text = operator.log.read_text()
    lines = read_log(text)
    emitted = {
        (line.get("queue"), line.get("reason")) for line in lines if line["event"] == "kubernetes_event"
    }
    queues = f"{world.namespace}/thumbs", f"{world.namespace}/broken"
    assert {(queues[0], "ScaledUp"), (queues[1], "RedisUnreachable")} <= emitted
    assert {line["event"] for line in lines} >= {"serving", "leading", "ended"}
    foreign = [line for line in lines if line["logger"].startswith("kopf")]
    assert foreign
    assert all(line["event"] == "note" and line["msg"] for line in foreign)
    assert [one for one in ("hush", secret, "canary") if one in text] == []
