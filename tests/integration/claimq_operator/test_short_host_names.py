"""A short host name is a Service of the queue's namespace, although its namesake beside the operator answers."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Connection

import claimq
from claimq.redis_store.listening import listening
from claimq_cli.cluster.event_loop import ForwardingEventLoop
from claimq_kubernetes.port import QUEUES, SECRETS
from testkit.operator_in_memory import MemoryApi, conditions, operator, queue_body, replicas
from testkit.server import Server
from testkit.waiting import eventually

Names = dict[str, Server]


def with_names(names: Names, work: Coroutine[Any, Any, None]) -> None:
    """Runs it where these host names lead to the servers, on any port, as a cluster's DNS does for pods."""

    async def find_port(host: str, port: int) -> int | None:
        del port
        server = names.get(host)
        return None if server is None else server.port

    loop = ForwardingEventLoop(find_port)
    try:
        loop.run_until_complete(work)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


@asynccontextmanager
async def a_queue(api: MemoryApi, server: Server, directory: Path, redis: Any) -> AsyncGenerator[None]:
    """An operator, and a queue of the namespace media whose spec.redis is this."""
    async with operator(api, directory) as context:
        body = queue_body(server)
        body["spec"]["redis"] = redis
        context.cache.update_queue(await api.create(QUEUES, body))
        yield


@pytest.mark.parametrize(
    "redis",
    [
        {"url": "redis://redis:6379"},
        {"url": "redis://redis:6379", "passwordSecretRef": {"name": "redis"}},
        {"secretRef": {"name": "redis"}},
    ],
)
def test_the_operator_uses_the_server_in_the_queues_namespace(
    start_server: Callable[..., Server], tmp_path: Path, redis: Any
) -> None:
    has_password = "passwordSecretRef" in redis
    own, namesake = start_server("valkey", tcp=True), start_server("valkey", tcp=True)
    if has_password:
        own.call("CONFIG", "SET", "requirepass", "secret")
    api = MemoryApi()

    async def work() -> None:
        data = {"url": "cmVkaXM6Ly9yZWRpczo2Mzc5", "hosts": "cmVkaXM=", "password": "c2VjcmV0"}
        await api.create(SECRETS, {"metadata": {"name": "redis", "namespace": "media"}, "data": data})
        settings = claimq.RedisSettings(
            "redis://redis:6379", password="secret" if has_password else None, namespace="media"
        )
        async with claimq.connect(settings=settings) as store, a_queue(api, own, tmp_path, redis):
            await store.queue("media.thumbs", worker="producer").enqueue_many(["a", "b"])
            await eventually(lambda: conditions(api).get("Ready") == "True WorkersStarting")
            await eventually(lambda: replicas(api) >= 1)

    with_names({"redis.media.svc": own, "redis": namesake}, work())
    assert api.objects["ReliableQueue", "thumbs"]["status"]["items"]["main"] == 2
    assert namesake.call("DBSIZE") == 0


def test_a_name_that_a_node_reports_is_one_of_the_namespace_too(start_server: Callable[..., Server]) -> None:
    own, namesake = start_server("valkey", tcp=True), start_server("valkey", tcp=True)

    async def work() -> None:
        connection = listening(Connection, "media")(host="redis-0", port=6379)
        await connection.connect()
        await connection.send_command("CONFIG", "GET", "port")
        reply = await connection.read_response()
        await connection.disconnect()
        assert str(own.port) in str(reply)
        assert connection.host == "redis-0"  # by which the client library knows it

    with_names({"redis-0.media.svc": own, "redis-0": namesake}, work())


def test_a_namesake_beside_the_operator_does_not_stand_in(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    namesake, api = start_server("valkey", tcp=True), MemoryApi()

    async def work() -> None:
        async with a_queue(api, namesake, tmp_path, {"url": "redis://redis:6379"}):
            await eventually(lambda: conditions(api).get("RedisReachable") == "False Unreachable")

    with_names({"redis": namesake}, work())
    assert namesake.call("DBSIZE") == 0
