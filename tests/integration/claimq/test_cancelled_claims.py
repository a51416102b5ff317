"""A cancelled claim leaves nothing behind, whenever it is cancelled: the item is in main, or goes back there."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import claimq
from claimq import Policy, RedisSettings, ReliableQueue, State, StoreUnavailable
from claimq.internals.operations import internals
from claimq.redis_store.lost_claims import LIMIT_CANCELLED
from testkit.faults.proxy import FaultProxy
from testkit.queues.looking import texts
from testkit.servers.patient import open_queue, open_server
from testkit.waiting import PATIENCE, eventually


@pytest.fixture
async def far(proxy: FaultProxy) -> AsyncIterator[claimq.Server]:
    """The same server, behind a network that can be broken."""
    async with open_server(proxy.url, retry_for=2.0) as made:
        yield made


def waits_for_wake(proxy: FaultProxy) -> bool:
    return proxy.count("BLPOP") >= 1


async def main_and_busy(queue: ReliableQueue) -> tuple[int, int]:
    lengths = await queue.lengths()
    return lengths[State.MAIN], lengths[State.BUSY]


async def cancelled(waiting: asyncio.Task[list[claimq.Claim]]) -> None:
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_waiting_claim_that_is_cancelled_gets_nothing_that_comes_later(
    queue: ReliableQueue, far: claimq.Server, proxy: FaultProxy
) -> None:
    waiting = asyncio.create_task(far.queue("q", worker="w2").claim(wait=None))
    await eventually(lambda: waits_for_wake(proxy))
    await cancelled(waiting)
    await queue.enqueue("x")
    await far.close()
    assert await main_and_busy(queue) == (1, 0)
    assert [claim.item.interrupted_count for claim in await queue.claim()] == [0]


async def test_a_cancelled_wait_of_which_the_server_never_hears_claims_nothing(
    queue: ReliableQueue, far: claimq.Server, proxy: FaultProxy
) -> None:
    waiting = asyncio.create_task(far.queue("q", worker="w2").claim(wait=None))
    await eventually(lambda: waits_for_wake(proxy))
    proxy.ghost()
    await cancelled(waiting)
    await far.close()
    await queue.enqueue("x")
    await eventually(lambda: proxy.ghosts > 0)
    stale = texts(await queue.claim(wait=0))
    assert stale == ["x"]
    assert await main_and_busy(queue) == (0, 1)


async def test_what_a_cancelled_claim_got_goes_back_to_the_head_uncounted(
    queue: ReliableQueue, far: claimq.Server, proxy: FaultProxy
) -> None:
    await queue.enqueue_many(["a", "b", "c"])
    other = far.queue("q", worker="w2")
    assert texts(await other.claim()) == ["a"]
    lost = proxy.drop_reply(cut=False)
    claiming = asyncio.create_task(other.claim(1))
    await eventually(lambda: lost.hit is not None)
    await eventually(lambda: _is_busy(queue, 2), why="the server has carried the claim out")
    await cancelled(claiming)
    await eventually(lambda: _is_busy(queue, 1), why="what it got goes back")
    assert texts(await queue.peek(9)) == ["b", "c"]
    (claim,) = await queue.claim(1)
    assert (claim.item.text, claim.item.requeue_count, claim.item.crash_count) == ("b", 0, 0)


async def _is_busy(queue: ReliableQueue, count: int) -> bool:
    return await queue.length(State.BUSY) == count


async def test_a_claim_whose_reply_to_the_wait_is_lost_gets_its_items_all_the_same(
    queue: ReliableQueue, proxy: FaultProxy
) -> None:
    async with open_queue(proxy.url, worker="w2", reply_timeout=5.0) as opened:
        waiting = asyncio.create_task(opened.claim(wait=None))
        await eventually(lambda: waits_for_wake(proxy))
        proxy.black_hole("replies")
        await queue.enqueue_many(["a", "b"])
        await eventually(lambda: _is_busy(queue, 1), why="the claim behind the wait has run")
        proxy.heal()
        proxy.cut()
        (claim,) = await waiting
        assert claim.item.text == "a"
        assert await main_and_busy(queue) == (1, 1)


async def test_each_of_many_waiting_claims_gets_an_item_of_its_own(queue: ReliableQueue) -> None:
    waiting = [asyncio.create_task(queue.claim(wait=PATIENCE)) for _ in range(20)]
    await asyncio.gather(*(queue.enqueue(str(number)) for number in range(20)))
    claims = [claim for got in await asyncio.gather(*waiting) for claim in got]
    assert sorted(int(claim.item.text) for claim in claims) == list(range(20))
    assert await main_and_busy(queue) == (0, 20)


async def test_claims_cancelled_at_any_await_lose_nothing(queue: ReliableQueue) -> None:
    await queue.enqueue_many([str(number) for number in range(10)])
    for steps in range(30):
        claiming = asyncio.create_task(queue.claim(2, wait=5))
        for _ in range(steps):
            await asyncio.sleep(0)
        claiming.cancel()
        for claim in (await asyncio.gather(claiming, return_exceptions=True))[:1]:
            if isinstance(claim, list):
                await queue.unclaim(claim)
    await internals(queue).lost_claims_recovered()
    assert await main_and_busy(queue) == (10, 0)
    assert texts(await queue.peek(99)) == [str(number) for number in range(10)]


async def test_waiting_for_a_cancelled_claim_ends_when_its_items_are_back(
    queue: ReliableQueue, far: claimq.Server, proxy: FaultProxy
) -> None:
    await queue.enqueue("a")
    other = far.queue("q", worker="w2")
    await other.unclaim(await other.claim(1))  # the server knows the scripts
    await internals(other).lost_claims_recovered()  # there is nothing to wait for
    lost = proxy.drop_reply(cut=False)
    claiming = asyncio.create_task(other.claim(1))
    await eventually(lambda: lost.hit is not None)
    await eventually(lambda: _is_busy(queue, 1), why="the server has carried the claim out")
    proxy.black_hole("requests")
    await cancelled(claiming)
    waiting = asyncio.create_task(internals(other).lost_claims_recovered())
    assert not await finished_in(waiting, 0.2)
    proxy.heal()
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert await main_and_busy(queue) == (1, 0)


async def finished_in(work: asyncio.Task[None], seconds: float) -> bool:
    done, _ = await asyncio.wait({work}, timeout=seconds)
    return bool(done)


async def test_items_of_a_claim_lost_in_an_outage_go_back_when_the_server_answers(
    queue: ReliableQueue, proxy: FaultProxy
) -> None:
    await queue.enqueue_many(["a", "b"])
    async with open_queue(proxy.url, worker="w2", retry_for=0.2) as other:
        await other.unclaim(await other.claim(1))  # the server knows the scripts
        proxy.black_hole("replies")
        claiming = asyncio.create_task(other.claim(1))
        await eventually(lambda: _is_busy(queue, 1), why="the server has carried the claim out")
        proxy.refuse()
        with pytest.raises(StoreUnavailable):
            await claiming
        assert await main_and_busy(queue) == (1, 1)
        proxy.heal()
        async with asyncio.timeout(PATIENCE):
            await internals(other).lost_claims_recovered()
        assert await main_and_busy(queue) == (2, 0)
        assert texts(await queue.peek(2)) == ["a", "b"]


async def test_a_claim_of_which_nothing_is_known_does_not_hold_up_the_closing(
    queue: ReliableQueue, proxy: FaultProxy
) -> None:
    await queue.enqueue("a")
    settings = RedisSettings(url=proxy.url, retry_for=0.2, reply_timeout=0.3)
    async with claimq.connect(settings=settings) as short:
        proxy.refuse()
        with pytest.raises(StoreUnavailable):
            await short.queue("q", worker="w2").claim(1)
        waiting = asyncio.create_task(internals(short.queue("q", worker="w2")).lost_claims_recovered())
        assert not await finished_in(waiting, 0.1)
    assert {asyncio.current_task(), waiting}.issuperset(asyncio.all_tasks())
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_many_claims_that_are_cancelled_in_an_outage_are_not_all_recovered(
    queue: ReliableQueue, proxy: FaultProxy
) -> None:
    """Those beyond the limit are left to their leases."""
    await queue.set_policy(Policy(busy_expiry=0.5))
    await queue.enqueue("a")
    async with open_queue(proxy.url, worker="w2", retry_for=0.2) as other:
        await other.unclaim(await other.claim(1))  # the server knows the scripts
        proxy.black_hole("replies")
        claiming = [asyncio.create_task(other.claim(wait=0)) for _ in range(LIMIT_CANCELLED + 20)]
        await eventually(lambda: _is_busy(queue, 1), why="the server has carried a claim out")
        for one in claiming:
            one.cancel()
        await asyncio.wait(claiming)
        assert len(asyncio.all_tasks() - {asyncio.current_task()}) <= LIMIT_CANCELLED
        proxy.heal()
        async with asyncio.timeout(PATIENCE):
            await internals(other).lost_claims_recovered()
    (claim,) = await queue.claim(wait=PATIENCE)
    assert claim.item.text == "a"
