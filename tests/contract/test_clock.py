"""Time is the queue's own: the server's clock, which may stop, leap and step back."""

import pytest

from claimq import Policy, ReliableQueue, State
from testkit.clock import move_clock
from testkit.looking import Lengths, lengths, texts, verdicts


async def held(queue: ReliableQueue, payload: str = "a") -> str:
    await queue.enqueue(payload)
    return (await queue.claim(wait=0))[0].token


@pytest.mark.parametrize("away", [31, 3600, 10**7])
async def test_after_a_gap_a_living_holder_has_time_to_renew(queue: ReliableQueue, away: float) -> None:
    """The server was down for longer than the lease: the holder could not renew, and is not dead for that."""
    token = await held(queue)
    await move_clock(queue, away, gap=True)
    assert (await queue.reap()).expired == ()
    assert verdicts(await queue.renew(token)) == ["renewed"]
    await move_clock(queue, 11)
    assert (await queue.reap()).expired == ()
    assert verdicts(await queue.done(token)) == ["done"]


async def test_after_a_gap_a_dead_holders_item_returns_when_the_grace_is_over(queue: ReliableQueue) -> None:
    await held(queue)
    await move_clock(queue, 60, gap=True)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 9.5)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 1)
    assert len((await queue.reap()).expired) == 1


async def test_the_grace_is_a_third_of_a_short_lease(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=6))
    await held(queue)
    await move_clock(queue, 60, gap=True)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 1.5)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 1)
    assert len((await queue.reap()).expired) == 1


async def test_the_grace_is_ten_seconds_at_most(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=90))
    await held(queue)
    await move_clock(queue, 600, gap=True)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 9.5)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 1)
    assert len((await queue.reap()).expired) == 1


async def test_a_short_silence_is_no_gap(queue: ReliableQueue) -> None:
    await held(queue)
    await move_clock(queue, 28)
    await move_clock(queue, 4, gap=True)
    assert len((await queue.reap()).expired) == 1


async def test_a_claim_notices_the_gap_too(queue: ReliableQueue, other_worker: ReliableQueue) -> None:
    token = await held(queue)
    await move_clock(queue, 60, gap=True)
    assert await other_worker.claim(wait=0) == []
    assert verdicts(await queue.renew(token)) == ["renewed"]


async def test_leases_that_end_after_the_grace_end_when_they_end(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=100))
    await held(queue)
    await move_clock(queue, 50, gap=True)
    await queue.reap()
    await move_clock(queue, 40)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 11)
    assert len((await queue.reap()).expired) == 1


@pytest.mark.parametrize("back", [1, 60, 10**6])
async def test_when_the_clock_steps_back_no_lease_lasts_longer(queue: ReliableQueue, back: float) -> None:
    await queue.reap()
    token = await held(queue)
    before = (await queue.snapshot()).now
    await move_clock(queue, -back)
    await queue.reap()
    assert (await queue.snapshot()).now >= before - 1.1
    await move_clock(queue, 25)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 7)
    assert [outcome.token for outcome in (await queue.reap()).expired] == [token]


async def test_when_the_clock_steps_back_no_age_is_negative_and_no_order_changes(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("first")
    await queue.reap()
    await move_clock(queue, -3600)
    await queue.enqueue("second")
    await queue.enqueue("later", delay=10)
    snapshot = await queue.snapshot()
    assert all(age is None or age >= 0 for age in snapshot.ages.values())
    assert snapshot.next_due_in is not None
    assert 9 < snapshot.next_due_in <= 11.1
    assert texts(await queue.claim(9, wait=0)) == ["first", "second"]


async def test_a_clock_that_steps_back_and_forth_costs_a_grace_and_no_item(queue: ReliableQueue) -> None:
    token = await held(queue)
    for seconds in (60, -60, 3600, -7200, 120):
        await move_clock(queue, seconds, gap=seconds > 0)
        assert (await queue.reap()).expired == ()
        assert verdicts(await queue.renew(token)) == ["renewed"]
    assert await lengths(queue) == Lengths(busy=1)
    await move_clock(queue, 31)
    assert len((await queue.reap()).expired) == 1


async def test_a_queue_that_looks_only_at_itself_does_not_move_its_clock(queue: ReliableQueue) -> None:
    """Reads write nothing, also after a step; the next write takes note of it."""
    await queue.reap()
    before = (await queue.snapshot()).seq
    await move_clock(queue, -100)
    for _ in range(3):
        await queue.snapshot()
        await queue.items(State.BUSY)
    assert (await queue.snapshot()).seq == before


@pytest.mark.parametrize("period", [6, 12, 3600])
async def test_a_dead_workers_item_returns_however_seldom_somebody_looks(
    queue: ReliableQueue, other_worker: ReliableQueue, period: float
) -> None:
    """Each look finds a gap; the grace that it begins must not hold what the last look's grace held already."""
    await held(queue)
    looks = [await other_worker.claim(wait=0)]
    while not looks[-1] and len(looks) < 12:
        await move_clock(queue, period, gap=True)
        looks.append(await other_worker.claim(wait=0))
    assert [len(claims) for claims in looks][-1:] == [1]
    assert (len(looks) - 2) * period <= 30 + 2 * period
