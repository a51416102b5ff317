"""consume() without a ``chunk``: it follows the handlers, and claims that none of them reaches go back."""

import asyncio

import pytest

import claimq
from claimq import Claim, Item, Outcome, Policy, ReliableQueue, State, StoreUnavailable
from claimq.consuming import claims_ahead
from claimq.consuming.engine import chunk_size
from claimq.metrics import ConsumerMetrics
from claimq.redis_store.scripts import script
from testkit.plugin import ProxyFactory
from testkit.queues.looking import texts
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually
from testkit.workers.handlers import Seen, fill


@pytest.fixture
def all_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, handlers count as quick, and no claim goes back."""
    monkeypatch.setattr(chunk_size, "AHEAD_SECONDS", 3600.0)
    monkeypatch.setattr(claims_ahead, "LONGEST_WAIT", 3600.0)


@pytest.fixture
def none_waits_long(all_are_quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before, but claims go back soon."""
    del all_are_quick
    monkeypatch.setattr(claims_ahead, "LONGEST_WAIT", 0.05)


async def busy(queue: ReliableQueue) -> list[str]:
    return texts(await queue.items(State.BUSY))


@pytest.mark.usefixtures("all_are_quick")
async def test_quick_handlers_share_claims(valkey: Server, start_proxy: ProxyFactory, seen: Seen) -> None:
    proxy = start_proxy(valkey)
    async with claimq.connect(proxy.url) as server:
        queue = server.queue("q", worker="w1")
        payloads = await fill(queue, 1000)
        consumed = await queue.consume(seen, return_when_empty=True)
    assert consumed.done == 1000
    assert seen.payloads == payloads
    sha = script("claim").sha.encode()
    assert sum(sha in request.words for request in proxy.requests) < 30


@pytest.mark.usefixtures("none_waits_long")
async def test_claims_that_no_handler_reaches_go_back_in_order(queue: ReliableQueue) -> None:
    payloads = await fill(queue, 60)
    order: list[str] = []

    async def handler(item: Item) -> None:
        order.append(item.text)
        if item.text == "20":
            await eventually(lambda: is_alone(queue, "20"))
            rest = [located.item for located in await queue.items(State.MAIN, 99)]
            assert [item.text for item in rest] == payloads[21:]
            assert rest[0].interrupted_count == 1, "it was claimed ahead"
            assert {item.requeue_count for item in rest} == {0}

    metrics = ConsumerMetrics()
    assert (await queue.consume(handler, return_when_empty=True, observer=metrics)).done == 60
    assert order == payloads
    causes = {
        sample.labels["cause"]
        for metric in metrics.collect()
        for sample in metric.samples
        if "cause" in sample.labels and sample.value
    }
    assert causes == {"not_reached"}


@pytest.mark.usefixtures("none_waits_long")
async def test_another_worker_gets_what_a_slow_handler_does_not_reach(queue: ReliableQueue) -> None:
    await fill(queue, 40)
    done = asyncio.Event()

    async def slow(item: Item) -> None:
        if item.text == "20":
            await done.wait()

    async def other(item: Item) -> None:
        if item.text == "39":
            done.set()

    first = asyncio.ensure_future(queue.consume(slow, stop=done))
    await eventually(lambda: is_alone(queue, "20"))
    total = await queue.consume(other, chunk=1, max_items=19)
    assert (await first).done + total.done == 40


@pytest.mark.usefixtures("none_waits_long")
async def test_claims_that_went_back_do_not_count_as_taken(queue: ReliableQueue) -> None:
    await fill(queue, 40)

    async def handler(item: Item) -> None:
        if item.text == "20":
            await eventually(lambda: is_alone(queue, "20"))

    consumed = await queue.consume(handler, max_items=30)
    assert (consumed.done, consumed.stopped_by) == (30, "max_items")
    assert await queue.length() == 10


@pytest.mark.usefixtures("none_waits_long")
async def test_a_queue_is_not_empty_while_claims_are_on_their_way_back(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = await fill(queue, 40)
    order: list[str] = []
    unclaim = ReliableQueue.unclaim
    is_called, may_go_on = asyncio.Event(), asyncio.Event()

    async def held(self: ReliableQueue, claims: list[Claim]) -> list[Outcome]:
        is_called.set()
        await may_go_on.wait()
        return await unclaim(self, claims)

    async def handler(item: Item) -> None:
        order.append(item.text)
        if item.text == "20":
            await is_called.wait()

    monkeypatch.setattr(ReliableQueue, "unclaim", held)
    consuming = asyncio.ensure_future(queue.consume(handler, return_when_empty=True))
    await is_called.wait()
    for _ in range(50):  # in which it could claim, and end
        await queue.lengths()
    may_go_on.set()
    assert (await consuming).done == 40
    assert order == payloads


@pytest.mark.usefixtures("none_waits_long")
async def test_claims_on_their_way_back_are_held_through_an_outage(
    valkey: Server, start_proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, has_failed, unclaim = start_proxy(valkey), asyncio.Event(), ReliableQueue.unclaim

    async def noted(self: ReliableQueue, claims: list[Claim]) -> list[Outcome]:
        try:
            return await unclaim(self, claims)
        except StoreUnavailable:
            has_failed.set()
            raise

    monkeypatch.setattr(ReliableQueue, "unclaim", noted)
    async with open_queue(proxy.url, worker="w1", retry_for=0.1) as queue:
        await queue.set_policy(Policy(requeue_limit=0))
        payloads = await fill(queue, 40)
        order: list[str] = []

        async def handler(item: Item) -> None:
            order.append(item.text)
            if item.text == "20":
                proxy.refuse()
                await has_failed.wait()
                proxy.heal()

        consumed = await queue.consume(handler, return_when_empty=True)
        stats = await queue.stats()
    assert (order, stats["done"], stats["crashes"]) == (payloads, 40, 0)
    assert consumed.done + consumed.lost == 40, "the reply to a verdict may be lost in the outage"


async def is_alone(queue: ReliableQueue, text: str) -> bool:
    return await busy(queue) == [text]
