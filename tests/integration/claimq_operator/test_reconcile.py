"""Passes over a queue, with a real server and a Kubernetes API in memory."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis.asyncio

from claimq.model import State
from claimq_kubernetes.port import QUEUES, ClusterUnavailable, Json, Kind
from claimq_kubernetes.queue_resource import read_queue
from testkit.kubernetes.kubernetes_objects import pod_body
from testkit.kubernetes.operator_in_memory import (
    SETTINGS,
    DownApi,
    MemoryApi,
    add_queue,
    conditions,
    more_passes,
    operator,
    passes,
    queue_body,
    replicas,
)
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import eventually


async def test_a_queue_with_items_gets_children_a_worker_and_a_status(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue_many(["a", "b", "c"])
        await add_queue(context, api, queue_body(valkey))
        await eventually(lambda: conditions(api).get("Ready") == "True WorkersStarting")
    assert api.objects["Deployment", "thumbs-worker"]["spec"]["replicas"] >= 1
    assert ("PodDisruptionBudget", "thumbs-worker") in api.objects
    assert api.objects["ReliableQueue", "thumbs"]["status"]["items"]["main"] == 3


async def test_an_unreachable_server_is_reported_and_found_again(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    api, server = MemoryApi(), start_server("valkey")
    async with operator(api, tmp_path) as context:
        await add_queue(context, api, queue_body(server))
        await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("True"))
        server.kill9()
        await eventually(lambda: conditions(api).get("RedisReachable") == "False Unreachable")
        message = api.objects["ReliableQueue", "thumbs"]["status"]["conditions"][1]["message"]
        assert "the address comes from spec.redis.url and was used without TLS; correct it" in message
        server.start()
        await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("True"))
    reasons = {body["reason"] for (kind, _), body in api.objects.items() if kind == "Event"}
    assert {"RedisUnreachable", "RedisReachable"} <= reasons


async def test_a_server_that_refuses_fsynced_is_reported_until_always_is_declared(
    valkey: Server, tmp_path: Path
) -> None:
    api = MemoryApi()
    valkey.call("CONFIG", "SET", "appendonly", "yes")
    body = queue_body(valkey, durability="Fsynced")

    def message() -> str:
        listed = api.objects["ReliableQueue", "thumbs"].get("status", {}).get("conditions", [])
        return next((str(one["message"]) for one in listed if one["type"] == "RedisReachable"), "")

    async with operator(api, tmp_path) as context:
        await add_queue(context, api, body)
        await eventually(lambda: conditions(api).get("RedisReachable") == "True ReachableWithWarnings")
        assert (
            "durability fsynced of the queue is refused, and nothing can be enqueued: valkey 9." in message()
        )
        redis = {**body["spec"]["redis"], "appendfsync": "Always"}
        changes: Json = {"spec": {"redis": redis}, "metadata": {"generation": 2}}
        context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", changes))
        await eventually(lambda: "fsynced of the queue is refused" not in message())


async def test_an_appendfsync_that_the_user_may_not_read_is_unknown_or_declared(
    valkey: Server, tmp_path: Path
) -> None:
    api = MemoryApi()
    valkey.call("CONFIG", "SET", "appendonly", "yes")
    valkey.call("ACL", "SETUSER", "blind", "on", "nopass", "allkeys", "allchannels", "+@all", "-config")
    body = queue_body(valkey)
    body["spec"]["redis"] = {"url": valkey.url, "user": "blind"}

    def warnings() -> object:
        return api.objects["ReliableQueue", "thumbs"].get("status", {}).get("redis", {}).get("warnings")

    async with operator(api, tmp_path) as context:
        await add_queue(context, api, body)
        await eventually(lambda: "appendfsync is unknown" in str(warnings()))
        redis = {**body["spec"]["redis"], "appendfsync": "Always"}
        context.cache.update_queue(
            await api.patch(
                QUEUES, "media", "thumbs", {"metadata": {"generation": 2}, "spec": {"redis": redis}}
            )
        )
        await eventually(lambda: conditions(api).get("RedisReachable") == "True Reachable")
        assert warnings() is None
        redis["appendfsync"] = "EverySecond"
        context.cache.update_queue(
            await api.patch(
                QUEUES, "media", "thumbs", {"metadata": {"generation": 3}, "spec": {"redis": redis}}
            )
        )
        await eventually(lambda: "FsyncNotAlways: appendfsync is everysec" in str(warnings()))


async def test_a_deleted_queue_is_removed_from_the_server(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue("a")
        body = queue_body(valkey, deletionPolicy="Delete")
        await add_queue(context, api, body)
        await eventually(lambda: ("Deployment", "thumbs-worker") in api.objects)
        deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", deleted))
        await eventually(lambda: ("ReliableQueue", "thumbs") not in api.objects)
        assert (await queue.snapshot()).lengths[State.MAIN] == 0
    assert api.objects["Deployment", "thumbs-worker"]["spec"]["replicas"] == 0
    messages = {body["reason"]: body["message"] for (kind, _), body in api.objects.items() if kind == "Event"}
    assert messages["ItemsRemoved"] == "the queue media.thumbs was deleted from the server with 1 item"


async def test_nothing_is_written_to_the_server_after_a_queue_was_deleted(
    valkey: Server, tmp_path: Path
) -> None:
    api = MemoryApi()
    async with operator(api, tmp_path) as context:
        body = await api.create(QUEUES, queue_body(valkey, deletionPolicy="Delete"))
        context.cache.update_queue(body)
        await eventually(lambda: ("Deployment", "thumbs-worker") in api.objects)
        deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        last = await api.patch(QUEUES, "media", "thumbs", deleted)
        context.cache.update_queue(last)
        await eventually(lambda: context.cache.queue(("media", "thumbs")) is None)
        context.cache.update_queue(last)  # a late event of the watch
        assert context.cache.queues() == []
    assert valkey.call("EXISTS", "cq:{media.thumbs}:config") == 0


async def test_a_deletion_lasts_longer_than_a_pause_of_the_queue(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await add_queue(context, api, queue_body(valkey, deletionPolicy="Delete"))
        await eventually(lambda: ("Deployment", "thumbs-worker") in api.objects)
        await queue.pause(until=timedelta(hours=1))
        context.cache.update_pod(pod_body("still-ending"))
        deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", deleted))
        await eventually(lambda: valkey.call("HGET", "cq:{media.thumbs}:config", "suspended") == b"1")


class LosesReplies(MemoryApi):
    """The same; it removes a finalizer, and the reply is lost."""

    lost = 0

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        if changes.get("metadata", {}).get("finalizers") == []:
            self.lost += 1
            raise ClusterUnavailable("the API server does not respond")
        return await super().patch(kind, namespace, name, changes)


async def test_the_server_is_left_alone_while_the_finalizer_cannot_be_removed(
    valkey: Server, tmp_path: Path
) -> None:
    api = LosesReplies()
    async with operator(api, tmp_path) as context:
        await add_queue(context, api, queue_body(valkey, deletionPolicy="Delete"))
        await eventually(lambda: ("Deployment", "thumbs-worker") in api.objects)
        deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", deleted))
        await eventually(lambda: api.lost == 1)
        calls = scripts_run(valkey)
        await eventually(lambda: api.lost == 2)
        assert scripts_run(valkey) == calls
    assert valkey.call("EXISTS", "cq:{media.thumbs}:config") == 0


def scripts_run(server: Server) -> bytes:
    """How often the server has run a script, as it says."""
    reply = server.call("INFO", "commandstats")
    assert isinstance(reply, bytes)
    return next(line for line in reply.splitlines() if line.startswith(b"cmdstat_evalsha:")).split(b",")[0]


def scaling(api: MemoryApi) -> Json:
    found: Json = api.objects["ReliableQueue", "thumbs"].get("status", {}).get("scaling", {})
    return found


async def test_an_outage_of_redis_leaves_the_number_of_workers_as_it_is(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    api, server = MemoryApi(), start_server("valkey")
    async with operator(api, tmp_path) as context:
        async with open_queue(server.url, "media.thumbs", worker="producer") as queue:
            await queue.enqueue_many(map(str, range(100)))
        body = queue_body(server, scaling={"itemsPerReplica": 10, "maxReplicas": 20, "targetAge": "1h"})
        await add_queue(context, api, body)
        await eventually(lambda: replicas(api) == 10)
        server.kill9()
        await eventually(lambda: conditions(api).get("ScalingActive") == "False Unknown")
        estimates = scaling(api)["estimates"]
        for number in range(20):  # passes that do not wait for the backoff of the connection
            noted = {"metadata": {"annotations": {"number": str(number)}}}
            context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", noted))
            await more_passes(context, 1)
        assert replicas(api) == 10
        assert scaling(api)["rule"] == "Unknown"
        assert scaling(api)["estimates"] == estimates, "the next operator continues from them"


async def test_a_flush_of_the_server_misleads_neither_estimates_nor_number(
    valkey: Server, tmp_path: Path
) -> None:
    api = MemoryApi()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="w") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue_many(map(str, range(40)))
        scaling_spec = {"itemsPerReplica": 10, "maxReplicas": 50, "targetAge": "1h"}
        await add_queue(context, api, queue_body(valkey, scaling=scaling_spec))
        await eventually(lambda: replicas(api) == 4)
        claims = await queue.claim(20)
        assert len(claims) == 20
        await more_passes(context)
        valkey.call("FLUSHALL")
        await more_passes(context)
        assert replicas(api) >= 1, "no number is lowered to zero at once"
        estimates = scaling(api)["estimates"]
        assert estimates["arrivalRate"] >= 0
        assert estimates["busySeconds"] >= 0
        await queue.enqueue_many(map(str, range(100)))
        await eventually(lambda: replicas(api) == 10)
        assert replicas(api) == 10, "what comes after the flush is scaled for as usual"


async def test_an_outage_of_the_api_server_ends_with_the_number_the_queue_needs(
    valkey: Server, tmp_path: Path
) -> None:
    api = DownApi()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue_many(map(str, range(20)))
        scaling_spec = {"itemsPerReplica": 10, "maxReplicas": 50, "targetAge": "1h"}
        await add_queue(context, api, queue_body(valkey, scaling=scaling_spec))
        await eventually(lambda: replicas(api) == 2)
        api.is_down = True
        await queue.enqueue_many(map(str, range(60)))
        before = passes(context, "cluster")
        await eventually(lambda: passes(context, "cluster") > before)
        assert replicas(api) == 2
        api.is_down = False
        await eventually(lambda: replicas(api) == 8)
    assert conditions(api)["Stalled"] == "False NotStalled"


async def test_a_new_operator_continues_from_the_estimates_in_the_status(
    valkey: Server, tmp_path: Path
) -> None:
    api = MemoryApi()
    learned = {"arrivalRate": 2.0, "busySeconds": 1200.0, "ended": 200.0, "startSeconds": 33.0, "starts": 9.0}
    body = queue_body(valkey, scaling={"targetAge": "30s", "maxReplicas": 90})
    body["status"] = {"scaling": {"rule": "Idle", "replicas": 0, "estimates": learned}}
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue_many(map(str, range(100)))
        await add_queue(context, api, body)
        await eventually(lambda: scaling(api).get("demand"))
        assert scaling(api)["demand"]["secondsPerItem"] == 6.0
        assert scaling(api)["demand"]["secondsToStart"] == 33.0
        assert scaling(api)["estimates"]["ended"] == 200.0
        await eventually(lambda: replicas(api) > 10)


class CountedApi(MemoryApi):
    """The same, and it counts requests."""

    requests = 0

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        self.requests += 1
        return await super().get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str | None, selector: str = "", keep: Any = None, *, fields: str = ""
    ) -> list[Json]:
        self.requests += 1
        return await super().list(kind, namespace, selector, keep, fields=fields)

    def _write(self, kind: str, name: str, body: Json) -> Json:
        self.requests += 1
        return super()._write(kind, name, body)


async def test_a_look_that_finds_a_change_starts_a_pass_over_a_quiet_queue(
    valkey: Server, tmp_path: Path
) -> None:
    api, settings = MemoryApi(), replace(SETTINGS, idle_period=3600.0)
    async with (
        open_queue(valkey.url, "media.thumbs") as opened,
        operator(api, tmp_path, settings=settings) as context,
    ):
        body = await api.create(QUEUES, queue_body(valkey))
        context.cache.update_queue(body)
        await eventually(lambda: conditions(api).get("Suspended", "").startswith("False"))
        spec = read_queue(body).spec
        assert spec is not None
        assert spec.redis is not None
        shared = await context.connections.server_for(("media", "thumbs"), spec.redis)

        async def has_been_looked_at() -> bool:
            await shared.idle.look()
            return any(queue.marks for queue in shared.idle._watches)

        async def is_suspended() -> bool:
            await shared.idle.look()
            return conditions(api)["Suspended"].startswith("True")

        await eventually(has_been_looked_at)
        await opened.pause(by="ann")
        await eventually(is_suspended)


async def cost_of_idle_passes(server: Server, directory: Path, count: int) -> tuple[float, int]:
    """Commands on the server (those of scripts count) for a pass over each of the idle queues, and API requests."""
    api = CountedApi()
    directory.mkdir()
    async with (
        operator(api, directory) as context,
        redis.asyncio.Redis.from_url(server.url) as client,
        open_server(server.url) as store,
    ):

        def passes() -> float:
            (metric,) = context.metrics.passes.collect()
            return sum(one.value for one in metric.samples if one.name.endswith("_total"))

        async def looked() -> tuple[float, float, int]:
            """Passes, commands and requests after about five more passes of each queue."""
            until = passes() + 5 * count
            await eventually(lambda: passes() >= until)
            return passes(), (await client.info("stats"))["total_commands_processed"], api.requests

        for number in range(count):
            body = queue_body(server)
            body["metadata"]["name"] = f"idle-{count}-{number}"
            # A pause with an end: without one, looks at many queues would replace most passes.
            await store.queue(f"media.idle-{count}-{number}").pause(until=timedelta(hours=1))
            await add_queue(context, api, body)
        before, after = await looked(), await looked()
        for _ in range(20):
            if after[2] == before[2]:
                break
            before, after = after, await looked()
        return (after[1] - before[1]) / (after[0] - before[0]), after[2] - before[2]


async def test_an_idle_queue_costs_no_more_among_many_and_no_request(valkey: Server, tmp_path: Path) -> None:
    alone, requests_alone = await cost_of_idle_passes(valkey, tmp_path / "one", 1)
    among_many, requests_of_many = await cost_of_idle_passes(valkey, tmp_path / "many", 15)
    assert (requests_alone, requests_of_many) == (0, 0)
    assert among_many <= 1.5 * alone
    assert alone <= 80
