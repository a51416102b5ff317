"""deadline and max_requeues: limits that a producer gives an item of its own."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import claimq
from claimq import FailedPolicy, NewItem, OnExpiry, Policy, ReliableQueue, State, Verdict
from claimq.internals.next_claims import next_claims
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.queues.retries import retrying_at_once
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
SOON = timedelta(seconds=10)


async def counted(queue: ReliableQueue) -> tuple[int, ...]:
    stats = await queue.stats()
    return tuple(stats[name] for name in ("claimed", "failed", "past_deadline"))


async def in_failed(queue: ReliableQueue) -> list[str]:
    return texts(await queue.failed_items())


@pytest.mark.parametrize("client", [None, "ann"])
@pytest.mark.parametrize("count", [1, 9])
async def test_an_item_past_its_deadline_goes_to_failed_instead_of_being_started(
    queue: ReliableQueue, client: str | None, count: int
) -> None:
    soon = [NewItem(text, client=client, deadline=SOON) for text in "ab"]
    await queue.enqueue_many([*soon, NewItem("c", client=client), NewItem("d", deadline=timedelta(hours=1))])
    await move_clock(queue, 10)
    claims: list[claimq.Claim] = []
    while found := await queue.claim(count, wait=0):
        claims += found
    assert sorted(claim.item.text for claim in claims) == ["c", "d"]
    assert await counted(queue) == (2, 2, 2)
    assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 2, State.DELAYED: 0, State.FAILED: 2}
    (first, _) = await queue.failed_items()
    assert (first.item.last_error, first.item.given_up_count) == (
        "its deadline passed before it was started",
        1,
    )
    assert [entry.kind for entry in first.item.history] == ["deadline"]


async def test_a_deadline_is_an_instant_of_the_queues_clock_or_a_time_from_now(queue: ReliableQueue) -> None:
    now = (await queue.snapshot()).now
    await queue.enqueue("a", deadline=SOON, delay=2)
    await queue.enqueue("b", deadline=now + 5)
    await queue.enqueue(
        "c", deadline=datetime.fromtimestamp(now + 7, UTC), headers={"h": "1"}, max_requeues=3
    )
    items = [*await queue.peek(9), *(one.item for one in await queue.items(State.DELAYED))]
    assert [item.deadline for item in items] == pytest.approx([now + 5, now + 7, now + 10], abs=0.002)
    assert (items[1].headers, items[1].max_requeues) == ({"h": "1"}, 3)


async def test_the_end_of_a_claim_and_the_next_claim_in_one_step_leave_out_what_is_late(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue_many(["now", NewItem("late", deadline=SOON), "next"])
    (claim,) = await queue.claim(wait=0)
    await move_clock(queue, 11)
    (outcome,), claims = await next_claims(queue).done_and_claim(claim)
    assert (outcome.verdict, claims) == (Verdict.DONE, [])
    (outcome,), claims = await next_claims(queue).done_and_claim(claim)
    assert (outcome.verdict, texts(claims)) == (Verdict.LOST, ["next"])
    assert await in_failed(queue) == ["late"]
    assert await counted(queue) == (2, 1, 1)
    await queue.enqueue("late too", deadline=timedelta(0))
    (outcome,), claims = await next_claims(queue).done_and_claim(claim)
    assert (outcome.verdict, claims, await counted(queue)) == (Verdict.LOST, [], (2, 2, 2))


@pytest.mark.parametrize("give_back", ["fail", "requeue", "crash", "reap"])
async def test_an_attempt_that_ends_past_the_deadline_is_the_last(
    queue: ReliableQueue, give_back: str
) -> None:
    await queue.enqueue("a", deadline=SOON)
    (claim,) = await queue.claim(wait=0)
    await move_clock(queue, 31)
    if give_back == "reap":
        assert [one.verdict for one in (await queue.reap()).expired] == [Verdict.FAILED]
    else:
        words: Any = {} if give_back == "requeue" else {"error": "broken"}
        assert [one.verdict for one in await getattr(queue, give_back)(claim, **words)] == [Verdict.FAILED]
    assert await counted(queue) == (1, 1, 1)


async def test_an_interrupted_item_past_its_deadline_is_not_started_again(queue: ReliableQueue) -> None:
    await queue.enqueue("a", deadline=SOON)
    claims = await queue.claim(wait=0)
    await move_clock(queue, 11)
    assert [one.verdict for one in await queue.unclaim(claims)] == [Verdict.UNCLAIMED]
    assert await queue.claim(wait=0) == []
    assert await in_failed(queue) == ["a"]


async def test_a_failed_item_that_is_requeued_has_no_deadline_any_more(queue: ReliableQueue) -> None:
    # Items that fail at the same instant are ordered by their ids.
    await queue.enqueue("a", id="1", deadline=SOON)
    await queue.enqueue("b", id="2", deadline=SOON, max_requeues=7)
    await move_clock(queue, 11)
    assert await queue.claim(wait=0) == []
    assert await queue.requeue_failed() == 2
    claims = await queue.claim(2, wait=0)
    assert [(claim.item.text, claim.item.deadline, claim.item.max_requeues) for claim in claims] == [
        ("a", None, None), ("b", None, 7),
    ]  # fmt: skip


async def test_late_items_keep_failed_within_its_bound(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=3)))
    # Items that fail at the same instant are ordered by their ids.
    await queue.enqueue_many([NewItem(str(number), id=str(number), deadline=SOON) for number in range(9)])
    await move_clock(queue, 11)
    assert await queue.claim(9, wait=0) == []
    assert await in_failed(queue) == ["6", "7", "8"]
    assert len(await queue.removed_items()) == 6


async def test_a_late_item_can_be_claimed_by_its_id(queue: ReliableQueue) -> None:
    await queue.enqueue("a", id="late", deadline=SOON)
    await move_clock(queue, 11)
    claim = await queue.claim_item("late")
    assert claim is not None
    assert claim.item.text == "a"
    assert await counted(queue) == (1, 0, 0)


@pytest.mark.frozen_clock(False)
async def test_where_failed_is_of_another_type_late_items_are_handed_out(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem("a", deadline=timedelta(0)), "b"])
    server.call("SET", "cq:{q}:failed", "x")
    assert sorted(claim.item.text for claim in await queue.claim(9, wait=0)) == ["a", "b"]


@pytest.mark.parametrize(("own", "attempts"), [(0, 1), (3, 4), (None, 2)])
async def test_an_items_own_limit_of_requeues_replaces_that_of_the_queue(
    queue: ReliableQueue, own: int | None, attempts: int
) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=1, on_expiry=OnExpiry.REQUEUE))
    await queue.enqueue("a", max_requeues=own)
    for left in range(attempts, 0, -1):
        claims = await queue.claim(wait=0)
        await move_clock(queue, 31)
        (outcome,) = await queue.fail(claims, "broken") if left % 2 else (await queue.reap()).expired
        assert outcome.verdict is (Verdict.FAILED if left == 1 else Verdict.REQUEUED)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"deadline": timedelta(seconds=-1)}, "deadline"),
        ({"deadline": 1e10}, "before the year 2286"),
        ({"deadline": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the error
        ({"max_requeues": -1}, "max_requeues"),
        ({"max_requeues": 1_000_001}, "max_requeues"),
        ({"max_requeues": 1.0}, "max_requeues"),
    ],
)
async def test_invalid_limits_are_refused_and_named(
    queue: ReliableQueue, limits: dict[str, Any], says: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        await queue.enqueue("a", **limits)
