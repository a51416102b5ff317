"""Cancelled calls lose nothing: an item is still in main, or given back, or its verdict was recorded."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

import claimq
from claimq import ReliableQueue, State, Verdict
from claimq.internals.operations import internals
from testkit.plugin import ProxyFactory
from testkit.queues.looking import texts
from testkit.servers.contents import blocked_clients
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

T = TypeVar("T")
CANCELS = 2000


async def cancelled(work: Awaitable[T], after: float | None) -> T | None:
    """The result, or None if the cancellation came first. `after` seconds; None: before it begins."""
    task = asyncio.ensure_future(work)
    if after is not None:
        await asyncio.wait({task}, timeout=after)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def nothing_is_busy(queue: ReliableQueue) -> bool:
    return await queue.length(State.BUSY) == 0


async def test_claims_cancelled_at_random_leave_no_lease_behind(queue: ReliableQueue) -> None:
    chance = random.Random(7)
    await queue.enqueue_many([str(number) for number in range(50)])
    for round_ in range(CANCELS // 20):
        works = [queue.claim(3, wait=chance.choice([0, 0.001, None])) for _ in range(20)]
        results = await asyncio.gather(*(cancelled(work, chance.random() * 0.004) for work in works))
        kept = [claim for claims in results if claims for claim in claims]
        await queue.unclaim(kept)
        assert round_ < CANCELS
    await internals(queue).lost_claims_recovered()
    assert await nothing_is_busy(queue)
    items = await queue.peek(99)
    assert sorted(int(item.text) for item in items) == list(range(50))
    assert {item.requeue_count + item.crash_count + item.fail_count for item in items} == {0}


async def test_one_claim_cancelled_again_and_again_keeps_the_order(queue: ReliableQueue) -> None:
    payloads = [str(number) for number in range(20)]
    await queue.enqueue_many(payloads)
    chance = random.Random(11)
    for _ in range(200):
        claims = await cancelled(queue.claim(5, wait=0), chance.random() * 0.002)
        if claims:
            await queue.unclaim(claims)
        await internals(queue).lost_claims_recovered()
        assert await nothing_is_busy(queue)
    assert texts(await queue.peek(99)) == payloads


async def test_a_claim_cancelled_while_it_waits_does_not_take_the_next_item(
    queue: ReliableQueue, valkey: Server
) -> None:
    waiting = [asyncio.ensure_future(queue.claim(wait=None)) for _ in range(10)]
    await eventually(lambda: blocked_clients(valkey) == 10)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await queue.enqueue("a")
    assert texts(await queue.peek(9)) == ["a"]
    async with asyncio.timeout(PATIENCE):
        assert texts(await queue.claim(wait=None)) == ["a"]


async def test_closing_right_after_a_cancellation_gives_back_first(
    valkey: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcdefgh"))
    for delay in range(40):
        async with open_server(valkey.url) as store:
            claims = await cancelled(store.queue("q", worker="w2").claim(8, wait=0), delay / 20_000)
            if claims:
                await store.queue("q").unclaim(claims)
        assert await queue.length(State.BUSY) == 0
    assert texts(await queue.peek(9)) == list("abcdefgh")


async def test_an_enqueue_cancelled_at_random_can_be_made_again_without_doubling(
    queue: ReliableQueue,
) -> None:
    chance = random.Random(3)
    for number in range(300):
        await cancelled(queue.enqueue(str(number), id=f"i{number}"), chance.random() * 0.001)
        await queue.enqueue(str(number), id=f"i{number}")
    assert texts(await queue.peek(999)) == [str(number) for number in range(300)]


ENDINGS: dict[str, Callable[[ReliableQueue, str], Awaitable[list[claimq.Outcome]]]] = {
    "done": lambda queue, token: queue.done(token),
    "fail": lambda queue, token: queue.fail(token, "no", permanent=True),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_verdict_cancelled_at_random_counted_once_or_not_at_all(
    queue: ReliableQueue, name: str
) -> None:
    """And the calls after it read their own replies."""
    chance = random.Random(5)
    await queue.enqueue_many([str(number) for number in range(200)])
    counted = 0
    for number in range(200):
        (claim,) = await queue.claim(wait=0)
        assert claim.item.text == str(number)
        after = {0: None, 1: 60.0}.get(number % 10, chance.random() * 0.001)
        await cancelled(ENDINGS[name](queue, claim.token), after)
        (outcome,) = await ENDINGS[name](queue, claim.token)
        counted += outcome.verdict is not Verdict.LOST
    assert 20 <= counted <= 180, "some cancellations came before the verdict, and some after it"
    lengths = await queue.lengths()
    assert lengths[State.BUSY] == lengths[State.MAIN] == 0
    stats = await queue.stats()
    assert stats["done" if name == "done" else "failed"] == 200


async def test_a_cancelled_claim_that_reaches_the_server_late_takes_nothing(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    """It was withdrawn on another connection before; the server refuses it as overtaken."""
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url, worker="w1") as queue:
        await queue.enqueue("a")
        await queue.unclaim(await queue.claim())
        for _ in range(20):
            proxy.black_hole("requests")
            claiming = asyncio.ensure_future(queue.claim(wait=0))
            await asyncio.sleep(0.005)
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)
            proxy.heal()
            await queue.lengths()
        await internals(queue).lost_claims_recovered()
        assert await nothing_is_busy(queue)
        assert await queue.length() == 1
    assert valkey.call("ZCARD", "cq:{q}:leases") in (0, 1)
