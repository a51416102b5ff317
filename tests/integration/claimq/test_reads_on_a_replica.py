"""A primary that becomes a replica answers reads from old data; no call of the library takes such an answer."""

from collections.abc import Awaitable, Callable

import pytest
import redis.asyncio

import claimq
from claimq import ReliableQueue, StoreUnavailable
from testkit.plugin import ServerFactory
from testkit.programs.ports import free_port
from testkit.servers.patient import open_queue, patient
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

READS: dict[str, Callable[[ReliableQueue], Awaitable[object]]] = {
    "snapshot": lambda queue: queue.snapshot(),
    "lengths": lambda queue: queue.lengths(),
    "stats": lambda queue: queue.stats(),
    "peek": lambda queue: queue.peek(),
    "items": lambda queue: queue.items("main"),
    "busy items": lambda queue: queue.items("busy"),
    "find": lambda queue: queue.find("x"),
    "workers": lambda queue: queue.workers(),
    "exists": lambda queue: queue.exists(),
    "clients": lambda queue: queue.clients(),
    "client_length": lambda queue: queue.client_length("ann"),
    "policy": lambda queue: queue.policy(),
    "has_client": lambda queue: queue.has_client("ann"),
    "length": lambda queue: queue.length(),
    "age": lambda queue: queue.age("main"),
    "failed_items": lambda queue: queue.failed_items(),
    "failed_item": lambda queue: queue.failed_item("x"),
    "audit_log": lambda queue: queue.audit_log(),
    "removed_items": lambda queue: queue.removed_items(),
    "memory_usage": lambda queue: queue.memory_usage(),
}


def demote(server: Server) -> None:
    """Makes it a replica of a port without a server: it keeps its data, its clients, and answers reads."""
    server.call("REPLICAOF", "127.0.0.1", free_port())


@pytest.mark.parametrize("flavour", ["valkey", "redis7"])
async def test_no_read_answers_from_a_replica(start_server: ServerFactory, flavour: str) -> None:
    server = start_server(flavour)
    async with open_queue(server.url, worker="w", retry_for=0.001) as queue:
        await queue.enqueue_many(["a", "b"])
        await queue.claim()
        for read in READS.values():
            await read(queue)
        demote(server)
        for name, read in READS.items():
            with pytest.raises(StoreUnavailable, match="the server is a replica now"):
                print(name, await read(queue))
        server.call("REPLICAOF", "NO", "ONE")
        for read in READS.values():
            await read(queue)


async def test_a_client_of_the_caller_does_not_answer_from_a_replica_either(
    start_server: ServerFactory,
) -> None:
    server = start_server()
    client = redis.asyncio.Redis(unix_socket_path=str(server.unix_path), socket_timeout=PATIENCE)
    settings = patient(server.url, retry_for=0.001)
    async with claimq.connect(client=client) as store, claimq.connect(settings=settings) as own:
        await own.queue("q").enqueue("a")
        assert await store.queue("q").length() == 1
        demote(server)
        with pytest.raises(StoreUnavailable, match="the server is a replica now"):
            await store.queue("q").length()
        server.call("REPLICAOF", "NO", "ONE")
        assert await store.queue("q").length() == 1
    await client.aclose()


async def test_a_primary_that_refuses_writes_is_still_read(start_server: ServerFactory) -> None:
    server = start_server()
    async with open_queue(server.url, retry_for=0.001) as queue:
        await queue.enqueue_many(["a", "b"])
        server.call("CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(StoreUnavailable, match="min-replicas-to-write"):
            await queue.enqueue("c")
        assert await queue.length() == 2
        assert await queue.client_length("ann") == 0


async def test_reads_follow_a_primary_that_was_replaced_without_closing_its_connections(
    sentinel: Sentinel,
) -> None:
    """Sentinels close the connections of a primary that they demote; an administrator's REPLICAOF does not."""
    async with open_queue(sentinel.url) as queue:
        await queue.enqueue("a")
        assert await queue.length() == 1
        old, new, *_ = sentinel.servers
        for watcher in sentinel.sentinels:
            watcher.call("SENTINEL", "REMOVE", sentinel.name)
        new.call("REPLICAOF", "NO", "ONE")
        for watcher in sentinel.sentinels:
            watcher.call("SENTINEL", "MONITOR", sentinel.name, "127.0.0.1", new.port, "3")
        old.call("REPLICAOF", "127.0.0.1", new.port)
        async with open_queue(f"redis://127.0.0.1:{new.port}") as opened:
            await opened.enqueue("b", id="only-here")
        assert await queue.find("only-here") is not None
