"""Presence on a Redis Cluster: what the claims of a process become when its slot moves."""

import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from claimq import Policy, ReliableQueue, Verdict
from testkit.programs.processes import Process
from testkit.queues.clock import move_clock
from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually

MAIN, PRESENT = "cq:{q}:main", "cq:{q}:present"
EXPIRY = 3600.0
CONSUMER = """
import asyncio, sys, claimq

async def consume():
    async with claimq.connect(sys.argv[1]) as server:
        await server.queue("q").consume(lambda item: asyncio.sleep(3600))

asyncio.run(consume())
"""


def is_subscribed(node: Server) -> bool:
    return node.call("PUBSUB", "CHANNELS", "cq:{q}:present:*") != []


@pytest.fixture
async def queue(redis_cluster: RedisCluster) -> AsyncIterator[ReliableQueue]:
    async with open_queue(redis_cluster.url, worker="watcher") as queue:
        await queue.set_policy(Policy(busy_expiry=EXPIRY))
        await queue.enqueue("a")
        yield queue


@pytest.fixture
def consumer(redis_cluster: RedisCluster) -> Iterator[Process]:
    with Process([sys.executable, "-c", CONSUMER, redis_cluster.url]) as process:
        yield process


@pytest.fixture
def home(redis_cluster: RedisCluster) -> Server:
    """The node that has the queue's slot at first."""
    return redis_cluster.owner(MAIN)


@pytest.fixture
def other(redis_cluster: RedisCluster, home: Server) -> Server:
    return next(node for node in redis_cluster.nodes if node is not home)


async def test_a_stopped_process_keeps_its_claim_when_its_slot_moves_away_and_back(
    redis_cluster: RedisCluster, queue: ReliableQueue, home: Server, other: Server, consumer: Process
) -> None:
    await eventually(lambda: home.call("ZCARD", PRESENT) == 1)
    await eventually(lambda: queue.length("busy"))
    consumer.sigstop()
    redis_cluster.move_slot(MAIN, other)
    redis_cluster.move_slot(MAIN, home)
    for _ in range(5):
        await move_clock(queue, 4.0)
        assert (await queue.reap()).expired == ()
    consumer.kill9()

    async def reaped() -> bool:
        await move_clock(queue, 1.0)
        return len((await queue.reap()).expired) == 1

    await eventually(reaped)
    (item,) = await queue.peek()
    assert item.crash_count == 1


async def test_after_a_slot_move_the_claim_of_a_killed_process_ends_with_its_lease(
    redis_cluster: RedisCluster, queue: ReliableQueue, home: Server, other: Server, consumer: Process
) -> None:
    await eventually(lambda: home.call("ZCARD", PRESENT) == 1)
    await eventually(lambda: queue.length("busy"))
    redis_cluster.move_slot(MAIN, other)
    await eventually(lambda: is_subscribed(other), why="the process is present on the new node")
    consumer.kill9()
    await eventually(lambda: not is_subscribed(other))
    for _ in range(5):
        await move_clock(queue, 4.0)
        assert (await queue.reap()).expired == ()
    await move_clock(queue, EXPIRY)
    assert [outcome.verdict for outcome in (await queue.reap()).expired] == [Verdict.UNCLAIMED]
    (item,) = await queue.peek()
    assert (item.crash_count, item.text) == (0, "a")
