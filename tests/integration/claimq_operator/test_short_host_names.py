"""A short host name is a Service of the queue's namespace, although its namesake beside the operator answers."""

import base64
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Connection
from redis.exceptions import ConnectionError as ClientError

import claimq
from claimq.errors import StoreUnavailable
from claimq.redis_store.clients.listening import listening
from claimq.redis_store.faults import translate
from claimq_cli.cluster.event_loop import ForwardingEventLoop
from claimq_kubernetes.port import SECRETS
from testkit.kubernetes.operator_in_memory import (
    MemoryApi,
    add_queue,
    conditions,
    operator,
    queue_body,
    replicas,
)
from testkit.servers.server import Server
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
        await add_queue(context, api, body)
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


@pytest.mark.parametrize("is_in_secret", [False, True])
def test_the_operator_refuses_a_name_with_one_dot(
    start_server: Callable[..., Server], tmp_path: Path, is_in_secret: bool
) -> None:
    """It would be a pod beside the operator for the operator, and one beside the queue for its workers."""
    namesake, api = start_server("valkey", tcp=True), MemoryApi()
    url = "redis://redis-0.redis:6379"

    async def work() -> None:
        data = {"url": base64.b64encode(url.encode()).decode()}
        await api.create(SECRETS, {"metadata": {"name": "redis", "namespace": "media"}, "data": data})
        redis = {"secretRef": {"name": "redis"}} if is_in_secret else {"url": url}
        async with a_queue(api, namesake, tmp_path, redis):
            await eventually(lambda: conditions(api).get("RedisReachable") == "False AddressInvalid")

    with_names({"redis-0.redis": namesake}, work())
    every = api.objects["ReliableQueue", "thumbs"]["status"]["conditions"]
    (message,) = (one["message"] for one in every if one["type"] == "RedisReachable")
    assert message.startswith(
        "spec.redis.secretRef" if is_in_secret else "spec.redis.url: a host name with one dot"
    )
    assert "write SERVICE.NAMESPACE.svc or POD.SERVICE.NAMESPACE.svc" in message
    assert namesake.call("DBSIZE") == 0
    assert ("Deployment", "thumbs") not in api.objects


def test_a_name_with_one_dot_that_a_node_reports_is_refused(start_server: Callable[..., Server]) -> None:
    namesake = start_server("valkey", tcp=True)

    async def work() -> None:
        with pytest.raises(ClientError) as refused:
            await listening(Connection, "media")(host="redis-0.redis", port=6379).connect()
        error = translate(refused.value, doing="claim")
        assert isinstance(error, StoreUnavailable)
        assert "a host name with one dot leads to different servers" in str(error)

    with_names({"redis-0.redis": namesake}, work())


def test_a_certificate_is_for_the_name_without_the_dot_at_its_end(
    start_server: Callable[..., Server],
) -> None:
    server = start_server("redis7", tls=True)
    assert server.certificates is not None
    ca_file = str(server.certificates.ca_file)

    async def work() -> None:
        settings = claimq.RedisSettings("rediss://localhost.:6379", ca_file=ca_file, namespace="media")
        async with claimq.connect(settings=settings) as store:
            await store.queue("media.thumbs", worker="producer").enqueue("a")

    with_names({"localhost.": server}, work())
    assert server.call("DBSIZE") != 0
