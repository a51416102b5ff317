"""Limits of the policy: in every window at most so many items start, and no more are in progress."""

from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any

import pytest

from claimq import Done, Limit, NewItem, ReliableQueue, State
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from claimq.redis_store.scripts import Arg
from testkit.checkers.starts import RandomClaims, fullest
from testkit.queues.clock import move_clock
from testkit.queues.looking import end_by_lease
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
RATE = Limit("api", rate="10/s", burst=3)
level_of = Struct("<4q").pack


async def filled(queue: ReliableQueue, *limits: Limit, count: int = 100) -> None:
    await queue.update_policy(limits=limits)
    await queue.enqueue_many(NewItem(f"{number}") for number in range(count))


async def starts(queue: ReliableQueue, count: int = 100) -> int:
    return len(await queue.claim(count, wait=0))


async def test_a_rate_lets_a_burst_start_and_then_one_after_the_other(queue: ReliableQueue) -> None:
    await filled(queue, RATE)
    assert await starts(queue) == 3
    seen = []
    for _ in range(10):
        await move_clock(queue, 0.05)
        seen.append(await starts(queue))
    assert seen == [0, 1] * 5
    await move_clock(queue, 60)
    assert await starts(queue) == 3


async def test_a_burst_of_one_spreads_starts_evenly(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="20/m"))
    seen = [await starts(queue)]
    for _ in range(12):
        await move_clock(queue, 1)
        seen.append(await starts(queue))
    assert seen == [1, 0, 0] * 4 + [1]


async def test_no_more_than_the_bound_are_in_progress(queue: ReliableQueue) -> None:
    await filled(queue, Limit("licences", busy=5))
    claims = await queue.claim(3, wait=0)
    claims += await queue.claim(100, wait=0)
    assert (len(claims), await starts(queue)) == (5, 0)
    await queue.done(claims[:2])
    assert (await starts(queue), await starts(queue)) == (2, 0)


async def test_several_limits_hold_at_once(queue: ReliableQueue) -> None:
    await filled(
        queue, Limit("a", rate="10/s", burst=4), Limit("b", rate="100/m", burst=50), Limit("c", busy=6)
    )
    first = await queue.claim(100, wait=0)
    await move_clock(queue, 10)
    second = await queue.claim(100, wait=0)
    assert (len(first), len(second)) == (4, 2)
    await queue.done(first + second)
    assert await starts(queue) == 2  # of the burst of 4, two are left


async def done_and_claim(queue: ReliableQueue, claims: list[Claim]) -> None:
    _, claimed = await next_claims(queue).done_and_claim(claims, 100)
    assert len(claimed) == len(claims)
    await queue.done(claimed)


async def flush(queue: ReliableQueue) -> None:
    await queue.flush()
    await queue.enqueue_many(NewItem("again") for _ in range(10))


ENDS: dict[str, Callable[[ReliableQueue, list[Claim]], Awaitable[object]]] = {
    "done": lambda queue, claims: queue.done(claims),
    "done, and claim": done_and_claim,
    "done, and enqueue": lambda queue, claims: queue.done([Done(claim, ["next"]) for claim in claims]),
    "fail": lambda queue, claims: queue.fail(claims, "no"),
    "fail for good": lambda queue, claims: queue.fail(claims, "no", permanent=True),
    "drop": lambda queue, claims: queue.drop(claims, "no"),
    "unclaim": lambda queue, claims: queue.unclaim(claims),
    "release": lambda queue, _: queue.release_worker("w1"),
    "lease": lambda queue, _: end_by_lease(queue),
    "flush": lambda queue, _: flush(queue),
}


@pytest.mark.parametrize("end", list(ENDS))
async def test_every_end_makes_room_and_wakes_a_waiting_claim(
    queue: ReliableQueue, server: Server, end: str
) -> None:
    await filled(queue, Limit("licences", busy=3))
    claims = await queue.claim(3, wait=0)
    server.call("DEL", "cq:{q}:wake")
    assert await starts(queue) == 0
    assert server.call("LLEN", "cq:{q}:wake") == 0
    await ENDS[end](queue, claims)
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert await starts(queue) == 3


async def test_at_the_bound_a_claim_leaves_no_wake_token(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("licences", busy=3))
    server.call("DEL", "cq:{q}:wake")
    await queue.claim(3, wait=0)
    assert server.call("LLEN", "cq:{q}:wake") == 0


async def test_one_worker_at_a_time_waits_for_the_next_start(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await filled(queue, Limit("api", rate="10/s"))
    assert await starts(queue) == 1
    waits = [
        (await claims_of._claim_once(1, None)).next_due_in
        for claims_of in (queue, other_worker, queue, other_worker)
    ]
    assert waits == [0.1, None, 0.1, None]
    await move_clock(queue, 0.1)
    assert await starts(queue) == 1
    assert (await other_worker._claim_once(1, None)).next_due_in == 0.1


async def test_items_given_back_before_their_app_began_give_their_starts_back(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=10))
    claims = await queue.claim(6, wait=0)
    await queue.unclaim(claims[:4])
    assert await starts(queue) == 8


@pytest.mark.parametrize("end", ["unclaim with a reason", "requeue", "release"])
async def test_other_items_that_come_back_give_no_start_back(queue: ReliableQueue, end: str) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=10))
    claims = await queue.claim(6, wait=0)
    if end == "release":
        await queue.release_worker("w1")
    elif end == "requeue":
        await queue.requeue(claims)
    else:
        await queue.unclaim(claims, why="the app was stopped")
    assert await starts(queue) == 4


async def test_what_time_has_given_back_is_not_given_back_twice(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/s", burst=2))
    first = await queue.claim(2, wait=0)
    await move_clock(queue, 1)
    assert await starts(queue) == 1
    await queue.unclaim(first)
    assert await starts(queue) == 1  # of the two, one second has given one back already


async def test_a_claim_by_id_starts_at_once_and_counts(queue: ReliableQueue) -> None:
    await queue.enqueue("chosen", id="chosen")
    await filled(queue, Limit("api", rate="1/s", burst=2), Limit("licences", busy=50))
    assert await starts(queue) == 2
    await queue.enqueue("later", id="later")
    claim = await queue.claim_item("later")
    assert claim is not None
    await move_clock(queue, 1)
    assert await starts(queue) == 0
    await queue.unclaim(claim)
    assert await starts(queue) == 1


async def test_a_repeated_call_counts_once(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=10))
    reply, nonce = await queue._run_claim(_twice(queue), 4)
    assert len(queue._read_claims(reply, nonce).claims) == 4
    assert await starts(queue) == 6


def _twice(queue: ReliableQueue) -> Callable[[list[Arg]], Awaitable[list[Any]]]:
    async def call(words: list[Arg]) -> list[Any]:
        await queue._connection.run("claim", [queue._keys.main], words)
        return list(await queue._connection.run("claim", [queue._keys.main], words))

    return call


@pytest.mark.parametrize("clients", [False, True], ids=["one list", "a ring of clients"])
async def test_in_every_window_no_more_items_start_than_the_rate_allows(
    queue: ReliableQueue, other_worker: ReliableQueue, clients: bool
) -> None:
    work = RandomClaims(queue, other_worker)
    await queue.enqueue_many(
        NewItem(f"{number}", client=f"c{number % 7}" if clients else None) for number in range(900)
    )
    busy, rate = 9, Limit("api", rate="7/s", burst=6)
    await queue.update_policy(limits=[rate, Limit("licences", busy=busy)])
    for _ in range(600):
        await work.wait(0, 0.001, 0.02, 0.1, 0.1428, 0.4, 1.5)
        match work.choose.randrange(5):
            case 0 | 1 | 2:
                await work.claim(8)
            case 3 if work.held:
                await work.unclaim(work.choose.randint(1, len(work.held)))
            case _:
                if work.held:
                    await queue.done(work.pop())
        lengths = await queue.lengths()
        assert lengths[State.BUSY] == len(work.held) <= busy
    (instants,) = work.instants("queue").values()
    assert fullest(instants, rate) <= 6
    assert len(instants) > 100


async def test_a_limit_that_is_raised_or_lowered_applies_at_once(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=2))
    assert (await starts(queue), await starts(queue)) == (2, 0)
    server.call("DEL", "cq:{q}:wake")
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=5)])
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert (await starts(queue), await starts(queue)) == (3, 0)
    await queue.update_policy(limits=[Limit("api", rate="10/s")])
    await move_clock(queue, 0.1)
    assert (await starts(queue), await starts(queue)) == (1, 0)
    await queue.update_policy(limits=[])
    assert await starts(queue) == 94


async def test_a_bound_below_what_is_in_progress_holds_back_the_rest(queue: ReliableQueue) -> None:
    await filled(queue)
    claims = await queue.claim(10, wait=0)
    await queue.update_policy(limits=[Limit("licences", busy=3)])
    assert await starts(queue) == 0
    await queue.done(claims[:8])
    assert (await starts(queue), await starts(queue)) == (1, 0)


async def test_ends_leave_no_wake_tokens_once_the_bound_is_gone(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("api", rate="1/m", burst=9), Limit("licences", busy=2))
    claims = await queue.claim(2, wait=0)
    await queue.update_policy(limits=[])
    claims += await queue.claim(1, wait=0)
    server.call("DEL", "cq:{q}:wake")
    await queue.done(claims)
    assert server.call("LLEN", "cq:{q}:wake") == 0


@pytest.mark.parametrize("state", ["no room", "paused"])
async def test_done_and_claim_without_a_claim_reports_the_rate_too(queue: ReliableQueue, state: str) -> None:
    """The sidecar would claim ahead after it."""
    await filled(queue, Limit("api", rate="1/h", burst=2 if state == "paused" else 1))
    claims = await queue.claim(1, wait=0)
    if state == "paused":
        await queue.pause()
    calls = next_claims(queue)
    for _ in range(2):  # the second one ends nothing
        assert (await calls.done_and_claim(claims))[1] == []
        assert calls.has_rate


async def test_the_next_start_is_not_a_millisecond_late_by_rounding(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("api", rate="4/m", burst=210))
    now = round((await queue.snapshot()).now * 1000)
    server.call("HSET", "cq:{q}:stats", "limits", b"0;api 60000 210=" + level_of(12545304, now, 0, 0))
    assert (await queue._claim_once(1, None, 2.0)).next_due_in == 1.326  # (12545304 - 209 * 60000) / 4 ms


async def test_a_level_of_0_from_a_clock_ahead_delays_no_start(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("api", rate="1/s"))
    ahead = round((await queue.snapshot()).now * 1000) + 3900
    server.call("HSET", "cq:{q}:stats", "limits", b"0;api 1000 1=" + level_of(0, ahead, 0, 0))
    assert await starts(queue) == 1
    assert (await queue._claim_once(1, None, 9.0)).next_due_in == 1.0


@pytest.mark.parametrize("limit", [Limit("api", rate="1/h"), Limit("licences", busy=1)], ids=str)
async def test_an_empty_reply_says_whether_limits_hold_items_back(queue: ReliableQueue, limit: Limit) -> None:
    await filled(queue, limit, count=2)
    assert await starts(queue) == 1
    assert (await queue._claim(1, 0)).is_held_back
    await queue.pause()
    seen = await queue._claim(1, 0)
    assert (seen.paused, seen.is_held_back) == (True, False)
    await queue.resume()
    await queue.flush()
    assert not (await queue._claim(1, 0)).is_held_back


async def test_a_snapshot_under_a_rate_has_all_counters(queue: ReliableQueue) -> None:
    await filled(queue, RATE, count=4)
    await queue.done(await queue.claim(1, wait=0))
    await queue.drop(await queue.claim(1, wait=0), "no")
    seen = {name: count for name, count in (await queue.snapshot()).counters.items() if count}
    assert seen == {"enqueued": 4, "claimed": 2, "done": 1, "fails": 1, "dropped": 1}


async def test_without_items_a_limit_gives_no_instant_to_wait_for(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h"), count=1)
    assert await starts(queue) == 1
    assert (await queue._claim(1, 0)).next_due_in is None


async def test_a_snapshot_says_what_may_start_and_when_the_next_one_may(queue: ReliableQueue) -> None:
    await filled(queue)
    assert (await queue.snapshot()).limits is None
    await queue.update_policy(limits=[Limit("api", rate="10/s", burst=4), Limit("licences", busy=20)])
    before = (await queue.snapshot()).limits
    assert before is not None
    assert (before.limits, before.startable, before.next_start_in) == ((await queue.policy()).limits, 4, None)
    await queue.claim(4, wait=0)
    after = (await queue.snapshot()).limits
    assert after is not None
    assert (after.startable, after.next_start_in) == (0, 0.1)


async def test_a_policy_has_the_limits_that_were_set(queue: ReliableQueue) -> None:
    limits = (
        Limit("api", rate="100/s", burst=200),
        Limit("licences", busy=20),
        Limit("day", rate="5/d", burst=1),
    )
    await queue.update_policy(limits=limits)
    assert (await queue.policy()).limits == limits


@pytest.mark.parametrize(
    "stored", ["nonsense", "a queue rate 0 1000 1", "a queue busy 0", "a key busy 1", ";;"]
)
async def test_a_limit_that_another_client_has_written_wrong_holds_nothing_back(
    queue: ReliableQueue, server: Server, stored: str
) -> None:
    await filled(queue)
    server.call("HSET", "cq:{q}:config", "limits", stored)
    assert await starts(queue) == 100


@pytest.mark.parametrize(
    "level",
    [
        b"nonsense",
        b"1000 1=" + level_of(-1, -1, -1, -1),
        b"1000 1=" + level_of(2**62, 1, 1, 1),
        b"1000 1=" + level_of(1000, 9 * 10**15, 0, 0),
        b"9" * 400 + b" 1=" + level_of(1000, 1, 1, 1),
    ],
    ids=["nonsense", "below 0", "too high", "in the future", "of a long period"],
)
async def test_a_damaged_level_does_not_stop_the_queue(
    queue: ReliableQueue, server: Server, level: bytes
) -> None:
    await filled(queue, Limit("api", rate="10/s"))
    server.call("HSET", "cq:{q}:stats", "limits", b"0;api " + level, "limits_waiter", "9999999999999 w9")
    await move_clock(queue, 0.1)
    assert await starts(queue) == 1


async def test_done_leaves_no_wake_token_once_the_bound_holds_nothing_back(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("licences", busy=3), count=4)
    claims = await queue.claim(3, wait=0)
    await queue.done(claims)
    claims = await queue.claim(3, wait=0)
    server.call("DEL", "cq:{q}:wake")
    await queue.done(claims)
    assert server.call("LLEN", "cq:{q}:wake") == 0


async def test_a_limit_that_was_removed_leaves_no_mark(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("licences", busy=3))
    await queue.claim(3, wait=0)
    assert server.call("HGET", "cq:{q}:stats", "limits") == b"1"
    await queue.update_policy(limits=[])
    assert await starts(queue) == 97
    assert server.call("HGET", "cq:{q}:stats", "limits") == b"0"


async def test_after_a_loss_of_the_data_a_rate_begins_again(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=2))
    assert (await starts(queue), await starts(queue)) == (2, 0)
    server.call("HDEL", "cq:{q}:stats", "limits")
    assert (await starts(queue), await starts(queue)) == (2, 0)


async def test_a_claim_that_does_not_wait_leaves_the_wait_to_another(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await filled(queue, Limit("api", rate="10/s"))
    assert await starts(queue) == 1
    assert (await queue._claim(1, 0)).next_due_in is None
    assert (await queue._claim_once(1, None, 0.05)).next_due_in is None
    assert (await other_worker._claim_once(1, None)).next_due_in == 0.1
