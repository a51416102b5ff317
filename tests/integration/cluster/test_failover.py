"""A primary of a Redis Cluster dies under load and its replica takes over: calls are retried, and nothing ends."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from redis.asyncio import RedisCluster as LibraryClient

import claimq
from claimq import Consumed, Durability, Policy, StoreUnavailable
from testkit.plugin import started
from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

CALLS = 40


def queue_of(cluster: RedisCluster, node: Server) -> str:
    """A queue that this node serves."""
    names = (f"queue-{number}" for number in range(200))
    return next(name for name in names if cluster.owner(f"cq:{{{name}}}:main") is node)


class Failovers:
    """A cluster whose primaries have a replica each."""

    def __init__(self) -> None:
        self.cluster = started(RedisCluster)
        self.primaries = self.cluster.nodes[:2]
        self.replicas = [self.cluster.add_replica(node) for node in self.primaries]

    def queue_on_a_primary(self, number: int) -> str:
        """A queue of a primary that can fail over."""
        return queue_of(self.cluster, self.primaries[number])

    def fail_over(self, number: int) -> Server:
        """The primary dies, and its replica takes over."""
        self.primaries[number].kill9()
        self.cluster.take_over(self.replicas[number])
        return self.primaries[number]

    def close(self) -> None:
        self.cluster.close()


@pytest.fixture
def failovers() -> Iterator[Failovers]:
    made = Failovers()
    yield made
    made.close()


async def test_calls_in_flight_at_a_failover_all_succeed(failovers: Failovers) -> None:
    names = [failovers.queue_on_a_primary(number) for number in (0, 1)]
    async with open_server(failovers.cluster.url) as store:
        queues = [store.queue(name) for name in names]
        stop = asyncio.Event()
        stored = {name: set[str]() for name in names}

        async def produce(number: int) -> None:
            queue = queues[number % 2]
            for count in range(100_000):
                item = f"{number}-{count}"
                await queue.enqueue(item, id=item)
                stored[queue.name].add(item)
                if stop.is_set():
                    return

        def total() -> int:
            return sum(map(len, stored.values()))

        def has_stored(wanted: int) -> bool:
            return total() >= wanted

        producers = [asyncio.ensure_future(produce(number)) for number in range(CALLS)]
        for number in (0, 1):
            wanted = total() + CALLS
            await eventually(partial(has_stored, wanted), why="items are stored")
            await asyncio.to_thread(failovers.fail_over, number)
        lengths = {name: len(items) for name, items in stored.items()}
        await eventually(
            lambda: all(len(stored[name]) > length + CALLS for name, length in lengths.items()),
            why="both queues take items again",
        )
        stop.set()
        assert await asyncio.gather(*producers, return_exceptions=True) == [None] * CALLS


async def test_no_call_in_flight_fails_while_a_slot_is_not_served(redis_cluster: RedisCluster) -> None:
    """A node that answers CLUSTERDOWN makes the client library's cluster client close the connections of all nodes,
    while other calls connect on them: AttributeError, in hundreds of calls."""
    nodes = redis_cluster.nodes
    names = [queue_of(redis_cluster, node) for node in nodes]
    slot = redis_cluster.slot(f"cq:{{{names[0]}}}:main")
    async with open_server(redis_cluster.url) as store:
        queues = [store.queue(name) for name in names]
        stop, answered, handled = asyncio.Event(), Counter[str](), Counter[str]()

        async def ask(number: int) -> None:
            queue = queues[number % len(queues)]
            while not stop.is_set():
                await queue.length()
                answered[queue.name] += 1

        async def handle(item: claimq.Item) -> None:
            handled[item.text] += 1

        running: list[asyncio.Future[Any]] = [asyncio.ensure_future(ask(number)) for number in range(CALLS)]
        running.append(asyncio.ensure_future(queues[0].consume(handle, concurrency=20, stop=stop)))

        async def more_answers(*of: str) -> None:
            """Or the end of one that must not end yet."""
            least = {name: answered[name] + 10 * CALLS for name in of}
            await eventually(
                lambda: (
                    any(one.done() for one in running)
                    or all(answered[name] > count for name, count in least.items())
                )
            )

        await more_answers(*names)
        for number in range(3):
            await asyncio.to_thread(nodes[0].call, "CLUSTER", "DELSLOTS", slot)
            await more_answers(*names[1:])
            await asyncio.to_thread(nodes[0].call, "CLUSTER", "ADDSLOTS", slot)
            await queues[0].enqueue(f"{number}")
            await more_answers(*names)
        await eventually(lambda: len(handled) == 3 or any(one.done() for one in running))
        stop.set()
        *asked, consumed = await asyncio.gather(*running, return_exceptions=True)
        assert asked == [None] * CALLS
        assert isinstance(consumed, Consumed)


async def test_a_callers_cluster_client_raises_nothing_but_unavailable(failovers: Failovers) -> None:
    """The client library's cluster client raises errors of any class while a node is down."""
    name, nodes = failovers.queue_on_a_primary(0), failovers.cluster.nodes
    client = LibraryClient(
        host="127.0.0.1", port=nodes[1].port, require_full_coverage=False, socket_timeout=PATIENCE
    )
    async with claimq.connect(client=client) as store:
        queue = store.queue(name)
        await queue.enqueue("before")
        enqueuing = [asyncio.ensure_future(queue.enqueue("x", id=f"{number}")) for number in range(CALLS)]
        await asyncio.to_thread(failovers.fail_over, 0)
        reading = [asyncio.ensure_future(queue.length()) for _ in range(CALLS)]
        await asyncio.wait([*enqueuing, *reading])
        errors = [call.exception() for call in (*enqueuing, *reading)]
        assert {type(error) for error in errors} <= {StoreUnavailable, type(None)}
    await client.aclose()


async def test_consume_outlives_the_failovers_of_its_primary(failovers: Failovers) -> None:
    name = failovers.queue_on_a_primary(0)
    async with open_queue(failovers.cluster.url, name, worker="w") as opened:
        queue, done = opened, set[str]()
        stop = asyncio.Event()

        async def handle(item: claimq.Item) -> None:
            done.add(item.text)

        consuming = asyncio.ensure_future(queue.consume(handle, concurrency=20, stop=stop))
        await queue.enqueue("before")
        await eventually(lambda: "before" in done)
        await asyncio.to_thread(failovers.fail_over, 0)
        await queue.enqueue("after", id="after")
        await eventually(lambda: "after" in done or consuming.done())
        stop.set()
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await consuming, Consumed)
        assert done == {"before", "after"}


async def test_a_slot_moves_in_one_step_without_waiting_for_replicas(failovers: Failovers) -> None:
    name = failovers.queue_on_a_primary(0)
    (source, target), replica = failovers.primaries, failovers.replicas[1]
    async with open_queue(failovers.cluster.url, name) as queue:
        await queue.set_policy(Policy(durability=Durability.REPLICATED))
        await queue.enqueue("confirmed")
    replica.sigstop()
    target.call("CLIENT", "KILL", "TYPE", "replica")
    key = f"cq:{{{name}}}:main"
    count = ("CLUSTER", "COUNTKEYSINSLOT", failovers.cluster.slot(key))
    await asyncio.to_thread(failovers.cluster.migrate_slot, key, target)
    assert (source.call(*count), target.call(*count) != 0) == (0, True)
    target.kill9()
    replica.sigcont()
    assert replica.call(*count) == 0
