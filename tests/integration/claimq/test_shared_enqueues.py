"""enqueue() by many tasks at the same time: shared calls, and a result or error of its own for each."""

import asyncio

import pytest

import claimq
from claimq import (
    Enqueued,
    EnqueuedItem,
    ItemTooLarge,
    NewItem,
    Policy,
    RedisSettings,
    ReliableQueue,
    State,
    StoreUnavailable,
    WrongKeyType,
)
from claimq.concurrency import calls_in_flight
from testkit.faults.faulty_client import FaultyClient
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ProxyFactory
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually


async def in_flight(proxy: FaultProxy, queue: ReliableQueue) -> asyncio.Task[EnqueuedItem]:
    """An enqueue of "first" that has reached the server and has no reply until the proxy heals."""
    await queue.enqueue("warm")
    before = proxy.count("EVALSHA")
    proxy.black_hole("replies")
    first = asyncio.ensure_future(queue.enqueue("first"))
    await eventually(lambda: proxy.count("EVALSHA") > before)
    return first


async def texts(queue: ReliableQueue) -> list[str]:
    return [item.text for item in await queue.peek(1000)]


@pytest.fixture
def one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow a reply is; else another call begins beside it, and their order is open."""
    monkeypatch.setattr(calls_in_flight, "LATE_SECONDS", 60.0)


@pytest.mark.usefixtures("one_call_at_a_time")
async def test_enqueues_during_a_call_share_the_next_one_in_order(queue: ReliableQueue) -> None:
    numbers = [str(number) for number in range(300)]
    before = (await queue.snapshot()).seq
    stored = await asyncio.gather(*(queue.enqueue(number) for number in numbers))
    assert (await queue.snapshot()).seq == before + 3, "the first alone, 200 together, the others together"
    items = await queue.peek(1000)
    assert [item.text for item in items] == numbers
    assert [item.id for item in items] == [one.id for one in stored]
    assert [one.length for one in stored] == [1] + [201] * 200 + [300] * 99


@pytest.mark.usefixtures("one_call_at_a_time")
async def test_batches_of_one_item_share_calls_too(queue: ReliableQueue) -> None:
    before = (await queue.snapshot()).seq
    stored = await asyncio.gather(
        queue.enqueue("first"),
        *(queue.enqueue_many([NewItem(str(number), id=f"id-{number % 15}")]) for number in range(20)),
        queue.enqueue_many(["a", "b"]),
    )
    assert (await queue.snapshot()).seq == before + 3, "the first alone, 20 together, two as a batch"
    batches = [one for one in stored if isinstance(one, Enqueued)]
    assert [batch.ids for batch in batches[:20]] == [(f"id-{number % 15}",) for number in range(20)]
    assert [batch.duplicates for batch in batches[:20]] == [()] * 15 + [(f"id-{n}",) for n in range(5)]
    assert await queue.length() == 1 + 15 + 2


@pytest.mark.usefixtures("one_call_at_a_time")
async def test_tasks_that_go_on_together_stay_together(queue: ReliableQueue) -> None:
    before = (await queue.snapshot()).seq

    async def producer() -> None:
        for _ in range(20):
            await queue.enqueue("x")

    await asyncio.gather(*(producer() for _ in range(50)))
    assert (await queue.snapshot()).seq <= before + 25
    assert await queue.length() == 1000
    assert queue._connection.shared_enqueues == {}


@pytest.mark.usefixtures("one_call_at_a_time")
async def test_each_keeps_its_client_its_delay_and_its_id(queue: ReliableQueue) -> None:
    stored = await asyncio.gather(
        queue.enqueue("a"),
        queue.enqueue("b", client="ann"),
        queue.enqueue("c", id="mine"),
        queue.enqueue("d", id="mine"),
        queue.enqueue("e", delay=60),
        queue.enqueue("f", id="other"),
        queue.enqueue("g"),
    )
    assert [one.is_duplicate for one in stored] == [False, False, False, True, False, False, False]
    assert (stored[2].id, stored[3].id, stored[5].id) == ("mine", "mine", "other")
    waiting = {item.text: (item.id, item.client) for item in await queue.peek(9)}
    assert waiting == {
        "a": (stored[0].id, None),
        "b": (stored[1].id, "ann"),
        "c": ("mine", None),
        "f": ("other", None),
        "g": (stored[6].id, None),
    }
    assert [located.item.text for located in await queue.items(State.DELAYED)] == ["e"]


@pytest.mark.usefixtures("one_call_at_a_time")
async def test_an_item_that_is_refused_does_not_stop_the_others(queue: ReliableQueue, valkey: Server) -> None:
    await queue.set_policy(Policy(max_payload=10))
    valkey.call("SET", "cq:{q}:main:bad", "in the way")
    results = await asyncio.gather(
        queue.enqueue("a"),
        queue.enqueue("b"),
        queue.enqueue("x" * 11),
        queue.enqueue("c", client="bad"),
        queue.enqueue("d"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [
        EnqueuedItem, EnqueuedItem, ItemTooLarge, WrongKeyType, EnqueuedItem,
    ]  # fmt: skip
    assert await texts(queue) == ["a", "b", "d"]


async def test_a_cancelled_caller_leaves_the_others_alone(valkey: Server, start_proxy: ProxyFactory) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url) as queue:
        first = await in_flight(proxy, queue)
        others = [asyncio.ensure_future(queue.enqueue(text)) for text in "abc"]
        await asyncio.sleep(0)
        others[1].cancel()
        first.cancel()
        proxy.heal()
        await asyncio.gather(others[0], others[2])
        assert await texts(queue) == ["warm", "first", "a", "c"]


async def test_a_call_that_lost_its_reply_does_not_hold_up_the_next(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url) as queue:
        await queue.enqueue("warm")
        lost = proxy.drop_reply(cut=False)
        first = asyncio.ensure_future(queue.enqueue("first"))
        await eventually(lambda: lost.hit)
        await asyncio.gather(*(queue.enqueue(text) for text in "abc"))
        assert not first.done()
        proxy.cut()
        await first
        assert await texts(queue) == ["warm", "first", "a", "b", "c"]


@pytest.mark.parametrize("fault", ["reply", "request", "cut"])
async def test_a_fault_during_a_shared_call_stores_each_item_once(
    valkey: Server, start_proxy: ProxyFactory, fault: str
) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url) as queue:
        await queue.enqueue("warm")
        if fault == "reply":
            proxy.drop_reply(2)
        elif fault == "request":
            proxy.cut_request(2, after=200)
        enqueuing = asyncio.gather(*(queue.enqueue(str(number)) for number in range(50)))
        if fault == "cut":
            await asyncio.sleep(0)
            proxy.cut()
        stored = await enqueuing
        assert sorted(await texts(queue)) == sorted(["warm", *map(str, range(50))])
        assert len({one.id for one in stored}) == 50


async def test_in_an_outage_each_caller_gets_an_error_of_its_own(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    settings = RedisSettings(url=proxy.url, retry_for=0.1, reply_timeout=30.0)
    async with claimq.connect(settings=settings) as server:
        queue = server.queue("q")
        await queue.enqueue("warm")
        proxy.refuse()
        errors = await asyncio.gather(*(queue.enqueue(text) for text in "abc"), return_exceptions=True)
        assert [type(error) for error in errors] == [StoreUnavailable] * 3
        assert len({id(error) for error in errors}) == 3
        proxy.heal()
        assert (await queue.enqueue("after")).length == 2


async def test_enqueues_are_repeated_after_an_unexpected_error_of_the_client(valkey: Server) -> None:
    client = FaultyClient(valkey.url)
    async with claimq.connect(client=client) as server:
        queue = server.queue("q")
        await queue.enqueue("warm")
        client.is_broken = True
        enqueuing = [asyncio.ensure_future(queue.enqueue(text)) for text in "abc"]
        await eventually(lambda: client.failures > 0)
        client.is_broken = False
        assert [type(result) for result in await asyncio.gather(*enqueuing)] == [EnqueuedItem] * 3
        assert await queue.length() == 4
    await client.client.aclose()
