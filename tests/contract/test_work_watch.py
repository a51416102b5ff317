"""What an operator does while a queue has no workers: it watches many queues of one server for their first items."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager

import pytest

import claimq
from claimq import RedisSettings, ReliableQueue, connect
from claimq.internals.work_watch import WorkWatch
from claimq.redis_store.connection import Connection
from testkit.queues.looking import connected_clients
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually


@asynccontextmanager
async def watch_of(connection: Connection) -> AsyncGenerator[WorkWatch]:
    work = WorkWatch(connection)
    try:
        yield work
    finally:
        await work.close()


@pytest.fixture
async def work(queue: ReliableQueue) -> AsyncGenerator[WorkWatch]:
    async with watch_of(queue._connection) as made:
        yield made


class Recorded(Connection):
    """A connection that records for how many queues each of its commands waits."""

    def __init__(self, settings: RedisSettings) -> None:
        super().__init__(settings)
        self.waits: list[int] = []

    async def wait_for_wake(self, keys: Sequence[str], seconds: float) -> str | None:
        self.waits.append(len(keys))
        return await super().wait_for_wake(keys, seconds)


async def wait_for(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


def waiting_connections(server: Server) -> int:
    return connected_clients(server).count(b"cmd=blpop")


async def test_a_first_item_is_noticed(
    work: WorkWatch, queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    noticed = asyncio.Event()
    with work.watch(queue, noticed.set):
        await eventually(lambda: waiting_connections(server) == 1, why="a command waits")
        await other_worker.enqueue("a")
        await wait_for(noticed)


async def test_the_wake_token_is_still_there_for_a_claimer(
    work: WorkWatch, queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue("a")
    noticed = asyncio.Event()
    with work.watch(queue, noticed.set):
        await wait_for(noticed)
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert len(await queue.claim(1, wait=0)) == 1


async def test_a_token_without_work_is_not_put_back(
    work: WorkWatch, queue: ReliableQueue, server: Server
) -> None:
    server.call("LPUSH", "cq:{q}:wake", "1")
    noticed = asyncio.Event()
    with work.watch(queue, noticed.set):
        await wait_for(noticed)
    assert server.call("LLEN", "cq:{q}:wake") == 0


async def test_many_queues_share_a_command_and_only_the_one_with_work_is_called(server: Server) -> None:
    connection = Recorded(patient(server.url))
    async with claimq.Server(connection) as store, watch_of(connection) as work:
        queues = [store.queue(f"q{number}") for number in range(200)]
        noticed = [asyncio.Event() for _ in queues]
        with ExitStack() as watches:
            for queue, event in zip(queues, noticed, strict=True):
                watches.enter_context(work.watch(queue, event.set))
            await eventually(lambda: connection.waits[:1] == [200], why="one command waits for all")
            for number in (150, 7):
                await queues[number].enqueue("a")
                await wait_for(noticed[number])
        assert [number for number, event in enumerate(noticed) if event.is_set()] == [7, 150]


async def test_watches_that_began_at_different_times_come_to_share_a_command(server: Server) -> None:
    connection = Recorded(patient(server.url))
    async with claimq.Server(connection) as store, watch_of(connection) as work:
        noticed = asyncio.Event()
        with work.watch(store.queue("a"), noticed.set):
            await eventually(lambda: connection.waits[:1] == [1], why="the first command waits")
            await asyncio.sleep(0.3)  # so that the second command begins, and would end, at another time
            with work.watch(store.queue("b"), noticed.set):
                await eventually(lambda: connection.waits[-1] == 2, why="one command waits for both")
        assert not noticed.is_set()


async def test_a_wake_key_of_another_type_concerns_only_its_queue(server: Server) -> None:
    async with connect(settings=patient(server.url)) as store, watch_of(store.connection) as work:
        server.call("SET", "cq:{b}:wake", "text")
        noticed = {name: asyncio.Event() for name in "abcde"}
        with ExitStack() as watches:
            for name, event in noticed.items():
                watches.enter_context(work.watch(store.queue(name), event.set))
            await wait_for(noticed["b"])
            await store.queue("d").enqueue("x")
            await wait_for(noticed["d"])
        assert [name for name, event in noticed.items() if event.is_set()] == ["b", "d"]


async def test_all_are_called_when_the_server_cannot_be_reached() -> None:
    settings = RedisSettings("redis://127.0.0.1:1", retry_for=0.1)
    async with connect(settings=settings) as store, watch_of(store.connection) as work:
        noticed = [asyncio.Event(), asyncio.Event()]
        with work.watch(store.queue("a"), noticed[0].set), work.watch(store.queue("b"), noticed[1].set):
            await wait_for(noticed[0])
            await wait_for(noticed[1])


async def test_a_watch_that_has_ended_is_not_called(
    work: WorkWatch, queue: ReliableQueue, server: Server
) -> None:
    ended, other = asyncio.Event(), asyncio.Event()
    with work.watch(queue, ended.set):
        await eventually(lambda: waiting_connections(server) == 1, why="a command waits")
    await queue.enqueue("a")
    with work.watch(queue, other.set):
        await wait_for(other)
    assert not ended.is_set()
    assert server.call("LLEN", "cq:{q}:wake") == 1
