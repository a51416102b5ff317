"""Reads of several queues take few round trips."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

import claimq
from claimq import NewItem, Policy, ReliableQueue, State
from claimq.errors import ReadTooLarge, WrongKeyType
from claimq.internals.several_queues import neighbours_of, snapshots_of, snapshots_with_workers, used_names
from claimq.redis_store.bounded_read import ReadBounds
from claimq_admin.server_choice import choose
from claimq_cli.commands.options.sources import Source
from testkit.faults.links import Request
from testkit.faults.proxy import FaultProxy
from testkit.queues.clock import move_clock
from testkit.servers.cluster import RedisCluster
from testkit.servers.contents import reads_of
from testkit.servers.patient import open_server, patient
from testkit.servers.server import Server

NAMES = [f"q{number:03}" for number in range(300)]


async def test_many_queues_take_few_round_trips(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        for number, name in enumerate(NAMES):
            await store.queue(name).enqueue_many(["x"] * (number % 3 + 1))
            await store.queue(name).add_to_index()
        await store.queue("gone").add_to_index()
        await store.queue("only-configured").set_policy(Policy())
        await store.queue("only-configured").add_to_index()
        await store.queue("q007", worker="w1").claim(wait=0)
        before = reads_of(valkey)
        names = await store.queues()
        statuses = await snapshots_with_workers(store.connection, names)
        assert reads_of(valkey) - before <= 60
        assert names == ["only-configured", *NAMES]
        lengths = [snapshot.lengths[State.MAIN] for snapshot, _ in statuses[1:]]
        assert lengths == [number % 3 + 1 - (number == 7) for number in range(300)]
        held = {
            name: [(worker.worker, worker.busy) for worker in workers]
            for name, (_, workers) in zip(names, statuses, strict=True)
        }
        assert {name: some for name, some in held.items() if some} == {"q007": [("w1", 1)]}
        assert await store.queues(only_existing=False) == names  # the name without a queue was removed


def calls_of(server: Server, command: str) -> int:
    """How many calls of a command, scripts' too, a server has run since its statistics were reset."""
    stats = server.call("INFO", "commandstats")
    assert isinstance(stats, bytes)
    return sum(map(int, re.findall(rb"cmdstat_%b:calls=(\d+)" % command.encode(), stats)))


async def test_several_queues_are_looked_at_in_one_call(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        for number, name in enumerate(NAMES[:7]):
            await store.queue(name).enqueue_many([NewItem("x", client=f"c{number}")] * (number + 1))
            await store.queue(name, worker="w1").claim(wait=0)
        valkey.call("CONFIG", "RESETSTAT")
        together = await snapshots_of(store.connection, NAMES[:7])
        assert calls_of(valkey, "eval") + calls_of(valkey, "evalsha") == 2
        alone = [await store.queue(name).snapshot() for name in NAMES[:7]]
    assert [(one.lengths, one.counters, one.oldest_claim) for one in together] == [
        (one.lengths, one.counters, one.oldest_claim) for one in alone
    ]


async def test_the_first_of_many_queues_take_few_calls(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        for name in NAMES[:3]:
            await store.queue(name).enqueue("x")
        words = [word for number in range(9_000) for word in (0, f"q{number:04}")]
        valkey.call("ZADD", "cq:queues", *words, *(word for name in NAMES[:4] for word in (0, name)))
        source = Source(choose(valkey.url, None, None), store, is_cluster=False)
        valkey.call("CONFIG", "RESETSTAT")
        names = await source.first_names(6)
        assert (names, calls_of(valkey, "zrange"), calls_of(valkey, "hlen")) == (NAMES[:3], 2, 6 + 3)
        lengths = await source.lengths(names)
        assert lengths == [{state: int(state is State.MAIN) for state in State}] * 3


async def crowd(queue: ReliableQueue, size: int = 1) -> None:
    """A client has ten claims and two others wait for 400 s."""
    await queue.enqueue_many([NewItem("x" * size, client="acme") for _ in range(12)])
    count = 0
    while count < 10:
        count += len(await queue.claim(10 - count, wait=0))
    await queue.enqueue_many([NewItem("x", client=client) for client in ("ann", "bob")])
    await move_clock(queue, 400)


async def test_neighbours_alone_are_those_of_the_snapshot(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        await crowd(store.queue("a"))
        await store.queue("b").enqueue("x", client="ann")
        named = [
            [neighbour.client for neighbour in some]
            for some in await neighbours_of(store.connection, ["a", "b"])
        ]
        (neighbour,) = (await store.queue("a").snapshot(neighbours=True)).neighbours
        assert named == [[neighbour.client], []] == [["acme"], []]


async def test_no_large_item_is_read_for_a_sample_that_is_too_small(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        await crowd(store.queue("a"), size=2**18)
        valkey.call("CONFIG", "RESETSTAT")
        assert (await store.queue("a").snapshot(neighbours=True)).neighbours == ()
        assert (calls_of(valkey, "hget"), calls_of(valkey, "hstrlen")) == (0, 9)


async def test_a_queue_with_a_wrong_key_among_several_is_an_error(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        for name in ("a", "b", "c"):
            await store.queue(name).enqueue("x")
        valkey.call("DEL", "cq:{b}:main")
        valkey.call("SET", "cq:{b}:main", "theirs")
        with pytest.raises(WrongKeyType):
            await snapshots_of(store.connection, ["a", "b", "c"])


async def test_scripts_that_are_forgotten_between_two_queues_are_sent_again(
    valkey: Server, proxy: FaultProxy
) -> None:
    flushes = 0

    def flush_before_the_last(request: Request) -> bool:
        nonlocal flushes
        if flushes == 0 and b"cq:{c}:main" in request.words:
            flushes += 1
            valkey.call("SCRIPT", "FLUSH")
        return False

    async with open_server(proxy.url) as store:
        for name in ("a", "b", "c"):
            await store.queue(name).enqueue(name)
        proxy.drop_reply(matching=flush_before_the_last)
        snapshots = await snapshots_of(store.connection, ["a", "b", "c"])
    assert (flushes, [snapshot.lengths[State.MAIN] for snapshot in snapshots]) == (1, [1, 1, 1])


async def test_no_queue_takes_no_call(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        assert await snapshots_of(store.connection, []) == []
        assert await store.queues() == []


async def test_several_queues_of_a_cluster_take_a_round_trip_for_each_node(
    redis_cluster: RedisCluster,
) -> None:
    async with open_server(redis_cluster.url) as store:
        for number, name in enumerate(NAMES):
            await store.queue(name).enqueue_many(["x"] * (number % 3 + 1))
        before = sum(map(reads_of, redis_cluster.nodes))
        snapshots = await snapshots_of(store.connection, NAMES)
        assert sum(map(reads_of, redis_cluster.nodes)) - before <= 60
        lengths = [snapshot.lengths[State.MAIN] for snapshot in snapshots]
        assert lengths == [number % 3 + 1 for number in range(300)]
        assert await used_names(store.connection, ["unknown", *NAMES]) == NAMES


async def test_a_queue_that_moves_is_read_with_the_others(redis_cluster: RedisCluster) -> None:
    async with open_server(redis_cluster.url) as store:
        for name in NAMES[:9]:
            await store.queue(name).enqueue(name)
        await snapshots_of(store.connection, NAMES[:9])
        for name in NAMES[:2]:
            key = f"cq:{{{name}}}:main"
            others = [node for node in redis_cluster.nodes if node is not redis_cluster.owner(key)]
            await asyncio.to_thread(redis_cluster.move_slot, key, others[0])
        for node in redis_cluster.nodes:  # so that the new node knows no script
            node.call("SCRIPT", "FLUSH")
        snapshots = await snapshots_of(store.connection, NAMES[:9])
        assert [snapshot.lengths[State.MAIN] for snapshot in snapshots] == [1] * 9


async def test_replies_after_a_redirection_count_against_the_bound(redis_cluster: RedisCluster) -> None:
    async with open_server(redis_cluster.url) as store:
        for name in NAMES[:9]:
            await store.queue(name).enqueue(name)
    bounds = ReadBounds(rows=1_000_000, size=10_000, seconds=20.0)
    async with claimq.connect(settings=replace(patient(redis_cluster.url), read_bounds=bounds)) as store:
        await store.queue(NAMES[0]).length()  # reads the map of slots
        for name in NAMES[:9]:
            key = f"cq:{{{name}}}:main"
            others = [node for node in redis_cluster.nodes if node is not redis_cluster.owner(key)]
            await asyncio.to_thread(redis_cluster.move_slot, key, others[0])
        with pytest.raises(ReadTooLarge):
            await snapshots_of(store.connection, NAMES[:9])


async def test_what_is_read_together_is_bounded_while_it_arrives(valkey: Server) -> None:
    settings = replace(patient(valkey.url), read_bounds=ReadBounds(rows=1000, size=10_000, seconds=20.0))
    async with claimq.connect(settings=settings) as store:
        for name in NAMES[:50]:
            await store.queue(name).enqueue("x")
        with pytest.raises(ReadTooLarge):
            await snapshots_of(store.connection, NAMES[:50])
        assert await store.queue("q000").length() == 1
