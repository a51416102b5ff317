"""The durability table of docs/guarantees.md: what survives SIGKILL, a failover and eviction, by server settings."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import claimq.blocking
from claimq import StoreFull, StoreUnavailable
from claimq.blocking import BlockingQueue
from testkit.plugin import ServerFactory
from testkit.programs.ports import free_port
from testkit.queues.looking import texts
from testkit.servers.fsyncs import NotedFactory
from testkit.servers.patient import open_blocking_queue, open_blocking_server, patient
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually_sync

APPENDING = {"appendonly": "yes"}
COUNT = 300


def enqueued(server: Server, first: int, count: int) -> list[str]:
    """Each with a call of its own that has returned."""
    with open_blocking_queue(server.url) as queue:
        payloads = [str(number) for number in range(first, first + count)]
        for payload in payloads:
            queue.enqueue(payload)
        return payloads


def kept(server: Server) -> list[str]:
    with open_blocking_queue(server.url) as queue:
        return texts(queue.peek(5000))


def kill_and_restart(server: Server) -> None:
    server.kill9()
    server.start()


@pytest.mark.parametrize("flavour", ["valkey", "redis7"])
@pytest.mark.parametrize(
    "options",
    [DURABLE, {**APPENDING, "appendfsync": "no"}],
    ids=["always", "no"],
)
def test_sigkill_takes_nothing_from_a_server_with_an_append_only_file(
    start_server: ServerFactory, flavour: str, options: Mapping[str, str]
) -> None:
    server = start_server(flavour, dict(options))
    payloads = enqueued(server, 0, COUNT)
    kill_and_restart(server)
    assert kept(server) == payloads


@pytest.mark.parametrize("flavour", ["valkey", "redis7"])
def test_sigkill_takes_at_most_the_last_items_where_the_file_is_stored_every_second(
    start_server: ServerFactory, flavour: str
) -> None:
    """The server puts off writing for up to two seconds while the disk is busy with the second before."""
    server = start_server(flavour, {**APPENDING, "appendfsync": "everysec"})
    old = enqueued(server, 0, COUNT)
    server.call("SET", "marker", "behind-them")
    eventually_sync(lambda: b"behind-them" in append_only_file(server).read_bytes(), why="they are written")
    payloads = old + enqueued(server, COUNT, COUNT)
    kill_and_restart(server)
    found = kept(server)
    assert found == payloads[: len(found)]
    assert len(found) >= COUNT


def append_only_file(server: Server) -> Path:
    (file,) = (server.dir / "appendonlydir").glob("*.incr.aof")
    return file


@pytest.mark.parametrize("fsync", ["everysec", "no"])
def test_a_power_loss_takes_what_came_after_the_last_fsync(start_noted: NotedFactory, fsync: str) -> None:
    server = start_noted("valkey", {**APPENDING, "appendfsync": "everysec"})
    payloads = enqueued(server, 0, COUNT)
    server.call("SET", "marker", "behind-them")
    eventually_sync(lambda: server.has_stored(b"behind-them"), why="they are on the disk")
    server.call("CONFIG", "SET", "appendfsync", fsync)
    payloads += enqueued(server, COUNT, COUNT)
    server.lose_power()
    server.start()
    found = kept(server)
    assert found == payloads[: len(found)]
    assert len(found) == COUNT if fsync == "no" else len(found) >= COUNT


def test_a_power_loss_takes_nothing_from_a_server_that_stores_always(start_noted: NotedFactory) -> None:
    server = start_noted("valkey", dict(DURABLE))
    payloads = enqueued(server, 0, COUNT)
    server.lose_power()
    server.start()
    assert kept(server) == payloads


@pytest.mark.parametrize("flavour", ["valkey", "redis7", "redis8"])
def test_a_server_that_stores_always_ends_when_its_disk_is_full(
    start_noted: NotedFactory, flavour: str
) -> None:
    server = start_noted(flavour, dict(DURABLE))
    payloads = enqueued(server, 0, COUNT)
    server.fill_disk()
    settings = patient(server.url, retry_for=0.1)
    with claimq.blocking.connect(settings=settings) as store, pytest.raises(StoreUnavailable):
        store.queue("q").enqueue("too much", id="x")
    eventually_sync(lambda: not server.is_running, why="it has ended")
    server.free_disk()
    server.start()
    assert kept(server) == payloads


@pytest.mark.parametrize("flavour", ["valkey", "redis7", "redis8"])
def test_a_server_that_stores_every_second_refuses_items_while_its_disk_is_full(
    start_noted: NotedFactory, flavour: str
) -> None:
    server = start_noted(flavour, {**APPENDING, "appendfsync": "everysec"})
    payloads = enqueued(server, 0, COUNT)
    with open_blocking_queue(server.url, retry_for=0.1) as queue:
        server.fill_disk()
        queue.enqueue("accepted")  # it is in memory, and its write fails behind the reply

        def refusal() -> str:
            try:
                queue.enqueue("refused", id="refused")
            except StoreUnavailable as error:
                return str(error)
            return ""

        assert "free its disk" in eventually_sync(refusal)
        assert queue.length() >= COUNT + 1
        server.free_disk()
        eventually_sync(lambda: not refusal(), why="it takes items again")
    eventually_sync(lambda: b"refused" in append_only_file(server).read_bytes(), why="it is written")
    kill_and_restart(server)
    assert kept(server) == [*payloads, "accepted", "refused"]


def test_sigkill_takes_what_came_after_the_last_snapshot(start_server: ServerFactory) -> None:
    server = start_server("valkey", {"save": "3600 1000000"})
    before = enqueued(server, 0, 10)
    server.call("SAVE")
    enqueued(server, 10, 10)
    kill_and_restart(server)
    assert kept(server) == before


def test_a_failover_takes_what_had_not_reached_the_replica(start_server: ServerFactory) -> None:
    primary, replica = start_server("valkey", dict(DURABLE), tcp=True), start_server("valkey", dict(DURABLE))
    replica.call("REPLICAOF", "127.0.0.1", primary.port)
    before = enqueued(primary, 0, 10)
    eventually_sync(lambda: replica.call("LLEN", "cq:{q}:main") == 10, why="the replica has them")
    replica.call("REPLICAOF", "127.0.0.1", free_port())  # its link is cut
    enqueued(primary, 10, 10)
    primary.kill9()
    replica.call("REPLICAOF", "NO", "ONE")
    assert kept(replica) == before


def test_a_server_that_may_evict_loses_items_when_memory_is_short(start_server: ServerFactory) -> None:
    server = start_server("valkey", {"maxmemory": "8mb", "maxmemory-policy": "allkeys-random"})
    stored = 0
    with open_blocking_queue(server.url) as queue:
        for _ in range(500):
            with suppress(StoreFull):
                stored += len(queue.enqueue_many([b"x" * 100_000]).ids)
            if queue.length() < stored:
                return
    raise AssertionError(f"none of {stored} items was evicted")


def test_looking_at_a_servers_settings_changes_none(start_server: ServerFactory) -> None:
    server = start_server("valkey", {"maxmemory-policy": "allkeys-lru"})
    before = server.call("CONFIG", "GET", "*")
    with open_blocking_server(server.url) as store:
        assert store.report()
        queue: BlockingQueue = store.queue("q")
        queue.enqueue("a")
        queue.done(queue.claim())
    assert server.call("CONFIG", "GET", "*") == before
