"""Time is the queue's own: the server's clock, which may stop, leap and step back."""

import asyncio
from typing import Any

import pytest

from claimq import Limit, NewItem, Policy, ReliableQueue, State
from claimq.waiting.fairness import Fairness
from testkit.checkers.starts import fullest
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts
from testkit.servers.server import Server
from testkit.waiting import eventually

pytestmark = pytest.mark.frozen_clock(True)


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


@pytest.mark.parametrize(
    ("lease", "gap", "before", "after"),
    [(6, 60, 0.5, 2), (30, 60, 7, 4), (90, 600, 7, 4)],
    ids=["a third of a short lease", "ten seconds of the default", "ten seconds at most"],
)
async def test_after_a_gap_a_dead_holders_item_returns_when_the_grace_is_over(
    queue: ReliableQueue, lease: float, gap: float, before: float, after: float
) -> None:
    await queue.set_policy(Policy(busy_expiry=lease))
    await held(queue)
    await move_clock(queue, gap, gap=True)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, before)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, after)
    assert len((await queue.reap()).expired) == 1


async def test_a_gap_of_more_than_five_seconds_gives_time_to_renew(queue: ReliableQueue) -> None:
    token = await held(queue)
    await move_clock(queue, 28)
    await move_clock(queue, 5.1, gap=True)
    assert (await queue.reap()).expired == ()
    assert verdicts(await queue.renew(token)) == ["renewed"]


async def test_a_short_silence_is_no_gap(queue: ReliableQueue) -> None:
    await held(queue)
    await move_clock(queue, 28)
    await move_clock(queue, 2.5, gap=True)
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
@pytest.mark.frozen_clock(False)
async def test_when_the_clock_steps_back_no_lease_lasts_longer(queue: ReliableQueue, back: float) -> None:
    await queue.set_policy(Policy(busy_expiry=300))
    await queue.reap()
    before = (await queue.snapshot()).now
    token = await held(queue)  # the clock is noted once a second
    await move_clock(queue, -back)
    await queue.reap()
    assert (await queue.snapshot()).now >= before - 1.1
    await move_clock(queue, 200)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 110)
    assert [outcome.token for outcome in (await queue.reap()).expired] == [token]


@pytest.mark.parametrize("per", ["queue", "client", "key"])
@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.frozen_clock(False)
async def test_when_the_clock_steps_back_a_little_no_window_has_too_many_starts(
    queue: ReliableQueue, per: str, comes_back: bool
) -> None:
    """The clock is noted once a second otherwise."""
    limits = [Limit("api", rate="10/s", burst=9, per=per), Limit("slots", busy=99, per="key")]
    await queue.set_policy(Policy(limits=limits, fairness=Fairness(by="count")))
    await queue.enqueue_many(NewItem("x", client="c", key="k") for _ in range(30))
    starts = await queue.claim(9, wait=0)
    assert len(starts) == 9
    await move_clock(queue, 0.9, gap=True)
    if comes_back:
        await queue.unclaim(starts.pop())
    else:
        starts += await queue.claim(1, wait=0)
    await move_clock(queue, -0.8)
    starts += await queue.claim(9, wait=0)
    instants = [round(claim.claimed_at * 1000) for claim in starts]
    assert len(starts) > 10
    assert instants == sorted(instants)
    assert fullest(instants, limits[0]) <= 9


@pytest.mark.frozen_clock(False)
async def test_starts_that_are_counted_take_an_offset_of_the_clock_back(
    server: Server, queue: ReliableQueue
) -> None:
    """Each notes the clock: parts of a millisecond count too, and each once."""
    await queue.set_policy(Policy(limits=[Limit("api", rate="1000000/s", burst=1000)]))
    await queue.enqueue_many(["x"] * 100)
    await move_clock(queue, 60)
    noted: list[Any] = []
    for _ in range(100):
        assert len(await queue.claim(wait=0)) == 1
        noted.append(server.call("HMGET", "cq:{q}:stats", "clock_offset", "seen_at"))
    (offset, seen), (last_offset, last_seen) = ((float(one[0]), int(one[1])) for one in (noted[0], noted[-1]))
    assert 0 < 0.09 * (last_seen - seen) <= offset - last_offset <= 0.125 * (last_seen - seen)


@pytest.mark.frozen_clock(False)
async def test_when_the_clock_steps_back_no_age_is_negative_and_no_order_changes(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("first")
    await queue.reap()
    await move_clock(queue, -3600)
    await queue.enqueue("second")
    await queue.enqueue("later", delay=1000)
    snapshot = await queue.snapshot()
    assert all(age is None or age >= 0 for age in snapshot.ages.values())
    assert snapshot.next_due_in is not None
    assert 900 < snapshot.next_due_in <= 1001.1
    assert texts(await queue.claim(9, wait=0)) == ["first", "second"]


@pytest.mark.frozen_clock(False)
async def test_a_clock_that_steps_back_and_forth_costs_a_grace_and_no_item(queue: ReliableQueue) -> None:
    token = await held(queue)
    for seconds in (60, -60, 3600, -7200, 120):
        await move_clock(queue, seconds, gap=seconds > 0)
        assert (await queue.reap()).expired == ()
        assert verdicts(await queue.renew(token)) == ["renewed"]
    assert await lengths(queue) == Lengths(busy=1)
    await move_clock(queue, 31)
    assert len((await queue.reap()).expired) == 1


@pytest.mark.frozen_clock(False)
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
async def test_a_dead_workers_item_returns_however_seldom_a_call_comes(
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


@pytest.mark.frozen_clock(False)
async def test_an_offset_of_the_clock_goes_away_slowly_and_time_never_runs_back(
    server: Server, queue: ReliableQueue
) -> None:
    """The server's clock leapt and was set right again: nine tenths of each second count until the offset is gone."""
    stats = "cq:{q}:stats"
    await queue.reap()
    stored: Any = server.call("HGET", stats, "seen_at")
    seen = int(stored)
    server.call("HSET", stats, "clock_offset", 120, "seen_at", seen + 120)
    last, last_before, last_after = 0, 0, 0
    while True:
        before = await server_ms(server)
        now = round((await queue.snapshot()).now * 1000)
        after = await server_ms(server)
        if last:
            assert now >= last
            assert 0.9 * (before - last_after) - 2 <= now - last <= after - last_before
        if now <= after:
            break
        last, last_before, last_after = now, before, after
        await queue.reap()
        await asyncio.sleep(0.05)
    await eventually(lambda: _reaped_without_offset(server, queue), why="the offset is gone for good")


async def _reaped_without_offset(server: Server, queue: ReliableQueue) -> bool:
    await queue.reap()
    return server.call("HGET", "cq:{q}:stats", "clock_offset") == b"0"


async def server_ms(server: Server) -> int:
    time: Any = server.call("TIME")
    return int(time[0]) * 1000 + int(time[1]) // 1000


@pytest.mark.frozen_clock(False)
async def test_an_hour_is_gone_after_ten_hours_without_a_call(server: Server, queue: ReliableQueue) -> None:
    hour, here = 3_600_000, await server_ms(server)
    server.call("HSET", "cq:{q}:stats", "clock_offset", hour, "seen_at", here + hour - 5 * hour)
    passed = (await queue.snapshot()).now * 1000 - here - hour // 2
    assert 0 <= passed <= 0.9 * (await server_ms(server) - here) + 1
    server.call("HSET", "cq:{q}:stats", "clock_offset", hour, "seen_at", here + hour - 10 * hour)
    await queue.reap()
    assert server.call("HGET", "cq:{q}:stats", "clock_offset") == b"0"
    assert (await queue.snapshot()).now * 1000 <= await server_ms(server)


@pytest.mark.parametrize("expiry", ["1e17", "1e400", "604800001"])
async def test_no_setting_of_another_client_makes_a_lease_longer_than_a_week(
    server: Server, queue: ReliableQueue, expiry: str
) -> None:
    server.call("HSET", "cq:{q}:config", "busy_expiry_ms", expiry)
    await queue.enqueue_many(["a", "b"])
    (first,) = await queue.claim(wait=0)
    assert first.lease_until - first.claimed_at == 7 * 86_400
    (renewed,) = await queue.renew(first)
    assert renewed.lease_until is not None
    assert renewed.lease_until - first.lease_until < 60
    server.call("ZADD", "cq:{q}:leases", 1e17, first.token)
    await queue.reap()
    (mended,) = await queue.items(State.BUSY)
    assert mended.lease_until is not None
    assert mended.lease_until - first.lease_until < 60


@pytest.mark.parametrize("expiry", ["0", "-5", "nan", "many", "0.4"])
async def test_a_setting_that_is_no_lease_makes_one_of_a_millisecond_or_the_default(
    server: Server, queue: ReliableQueue, expiry: str
) -> None:
    server.call("HSET", "cq:{q}:config", "busy_expiry_ms", expiry)
    await queue.enqueue("a")
    (claim,) = await queue.claim(wait=0)
    assert round(claim.lease_until - claim.claimed_at, 3) in {0.0, 0.001, 30.0}
    await queue.fail(claim, "no")
