"""What an operator does while queues are idle: it looks at those of one server together and finds changes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest

from claimq import ReliableQueue
from claimq.internals.idle_queues import IdleQueue, IdleQueues
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from testkit.servers.contents import reads_of
from testkit.servers.patient import open_server
from testkit.servers.server import Server
from testkit.waiting import eventually

HOUR = 3600.0
MINE = Owner("cluster", "media", "thumbs", "uid-1")


@asynccontextmanager
async def watched(queue: ReliableQueue) -> AsyncGenerator[tuple[IdleQueues, IdleQueue]]:
    """The idle queues of its connection, with only this queue, at which one look has been made."""
    idle, known = IdleQueues(queue._connection, HOUR), IdleQueue(queue.name)
    try:
        with idle.watch(known, lambda: None):
            await idle.look()
            assert known.marks is not None
        yield idle, known
    finally:
        await idle.close()


async def _pause(queue: ReliableQueue, _: Server) -> None:
    await queue.pause(by="ann")


async def _enqueue(queue: ReliableQueue, _: Server) -> None:
    await queue.enqueue("x", delay=60)


async def _own(queue: ReliableQueue, _: Server) -> None:
    await internals(queue).own(MINE)


async def _push(queue: ReliableQueue, server: Server) -> None:
    server.call("LPUSH", f"cq:{{{queue.name}}}:main", "bare")


async def _lose(_: ReliableQueue, server: Server) -> None:
    server.call("FLUSHALL")


@pytest.mark.parametrize("change", [_pause, _enqueue, _own, _push, _lose])
async def test_a_queue_that_has_changed_since_the_last_look_is_reported_once(
    queue: ReliableQueue, server: Server, change: Callable[[ReliableQueue, Server], Awaitable[None]]
) -> None:
    await queue.enqueue("x")
    await queue.done(await queue.claim(wait=0))
    async with watched(queue) as (idle, known):
        changes: list[str] = []
        with idle.watch(known, lambda: changes.append(queue.name)):
            await idle.look()
            assert changes == [], "nothing has changed"
            await change(queue, server)
            await idle.look()
            await idle.look()
        assert changes == [queue.name]


async def test_a_change_between_the_last_look_and_the_watch_is_reported(queue: ReliableQueue) -> None:
    async with watched(queue) as (idle, known):
        await queue.enqueue("x")
        changes: list[str] = []
        with idle.watch(known, lambda: changes.append(queue.name)):
            await idle.look()
        assert changes == [queue.name]


async def test_a_look_that_a_pass_overtakes_does_not_count_as_the_last_one(queue: ReliableQueue) -> None:
    async with watched(queue) as (idle, known):
        with idle.watch(known, lambda: None):
            looking = asyncio.create_task(idle.look())
            await asyncio.sleep(0)  # it has asked for the marks
        with idle.watch(known, lambda: None):
            await looking
            assert known.marks is None


async def test_queues_that_cannot_be_read_are_all_reported_within_a_period(server: Server) -> None:
    async with open_server(server.url) as store:
        idle, reported = IdleQueues(store.connection, 0.01), set[str]()
        server.call("SET", "cq:{bad}:stats", "theirs")
        with ExitStack() as watches:
            for name in ("bad", "good"):
                watches.enter_context(idle.watch(IdleQueue(name), lambda name=name: reported.add(name)))  # type: ignore[misc]  # a default
            await idle.look()
            await eventually(lambda: reported == {"bad", "good"})
        await idle.close()


async def test_many_idle_queues_take_few_round_trips(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        names = [f"q{number}" for number in range(1000)]
        # Each queue has a pass at a random instant of a period after its first look: none comes within the test.
        idle, changes = IdleQueues(store.connection, 10_000 * HOUR), list[str]()
        with ExitStack() as watches:
            for name in names:
                watches.enter_context(idle.watch(IdleQueue(name), lambda name=name: changes.append(name)))  # type: ignore[misc]  # a default
            await idle.look()
            before = reads_of(valkey)
            await idle.look()
            assert reads_of(valkey) - before <= 60
            await store.queue("q7").enqueue("x")
            await idle.look()
        assert changes == ["q7"]
        await idle.close()
