"""later with close: until its delay is over, nothing is claimed from the queue, and no slot is held."""

from dataclasses import replace
from datetime import timedelta

import pytest

from claimq import Claim, NewItem, Pause, Policy, ReliableQueue
from claimq.internals.next_claims import next_claims
from claimq.waiting.texts import instant_text
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts

pytestmark = pytest.mark.frozen_clock(True)


async def busy(queue: ReliableQueue, count: int = 1) -> list[Claim]:
    await queue.enqueue_many([f"busy {number}" for number in range(count)])
    return await queue.claim(count, wait=0)


async def opens_in(queue: ReliableQueue) -> float | None:
    """Seconds until the queue opens by itself; None if it is open, or does not."""
    seen = await queue.snapshot()
    return None if seen.pause is None or seen.pause.until is None else round(seen.pause.until - seen.now, 3)


@pytest.mark.parametrize("kind", ["claim", "done and claim"])
async def test_nothing_is_claimed_from_a_closed_queue_until_then(queue: ReliableQueue, kind: str) -> None:
    await queue.set_policy(Policy(busy_expiry=600))
    closing, held = await busy(queue, 2)
    await queue.enqueue("waits")
    (outcome,) = await queue.later(closing, 60, close="queue")
    assert (outcome.verdict, outcome.delay) == ("delayed", 60)
    await move_clock(queue, 59.9)
    assert await queue.claim(5, wait=0) == []
    assert await lengths(queue) == Lengths(main=1, busy=1, delayed=1)
    await move_clock(queue, 0.1)
    assert (await queue.snapshot()).paused is False
    if kind == "claim":
        assert texts(await queue.claim(wait=0)) == ["waits"]
    else:
        assert texts((await next_claims(queue).done_and_claim(held))[1]) == ["waits"]


async def test_a_closing_says_in_which_worker_why_since_and_until_when(queue: ReliableQueue) -> None:
    (claim,) = await busy(queue)
    await queue.enqueue("waits", id="waits")
    await queue.later(claim, 60, close="queue", error="the api is away")
    seen = await queue.snapshot()
    assert seen.pause == Pause(seen.now, seen.now + 60, queue.worker, "the api is away", by_app=True)
    where = await queue.where("waits")
    assert where is not None
    since, until = instant_text(seen.now), instant_text(seen.now + 60)
    assert where.text == (
        f"the queue is closed by its app in {queue.worker} since {since} until {until} (the api is away)"
    )


async def test_of_several_closings_the_latest_end_holds_since_the_first(queue: ReliableQueue) -> None:
    first, second, third = await busy(queue, 3)
    await queue.later(first, 60, close="queue", error="first")
    began = (await queue.snapshot()).now
    await move_clock(queue, 10)
    await queue.later(second, 20, close="queue", error="earlier")
    assert await opens_in(queue) == 50
    await queue.later(third, 70, close="queue", error="later")
    pause = (await queue.snapshot()).pause
    assert pause == Pause(began, began + 80, queue.worker, "later", by_app=True)
    await move_clock(queue, 70)
    (claim, *_) = await queue.claim(3, wait=0)
    await queue.later(claim, 5, close="queue")
    pause = (await queue.snapshot()).pause
    assert pause == Pause(began + 80, began + 85, queue.worker, "", by_app=True), "nothing of the last one"


async def test_one_call_closes_once_for_all_of_its_claims(queue: ReliableQueue) -> None:
    claims = await busy(queue, 6)
    assert verdicts(await queue.later(claims, 60, close="queue")) == ["delayed"] * 6
    assert await opens_in(queue) == 60


@pytest.mark.parametrize("seconds", [60, 600, None])
async def test_a_pause_by_hand_is_neither_ended_nor_shortened_nor_renamed(
    queue: ReliableQueue, seconds: int | None
) -> None:
    (claim,) = await busy(queue)
    await queue.pause(
        until=None if seconds is None else timedelta(seconds=seconds), reason="upgrade", by="ann"
    )
    before = (await queue.snapshot()).pause
    await queue.later(claim, 60, close="queue")
    assert (await queue.snapshot()).pause == before
    await move_clock(queue, 59)
    assert (await queue.snapshot()).pause == before


async def test_a_closing_goes_on_after_a_pause_by_hand_that_ends_earlier(queue: ReliableQueue) -> None:
    first, second = await busy(queue, 2)
    await queue.pause(until=timedelta(seconds=10), by="ann", reason="upgrade")
    began = (await queue.snapshot()).now
    await queue.enqueue("waits", id="waits")
    await queue.later(first, 20, close="queue")
    await queue.later(second, 60, close="queue", error="the api is away")
    pause = Pause(began, began + 60, "ann", "upgrade", closed_from=began + 10)
    assert (await queue.snapshot()).pause == pause
    where = await queue.where("waits")
    assert where is not None
    since, then, until = (instant_text(began + seconds) for seconds in (0, 10, 60))
    by_hand = f"the queue is paused by ann since {since} until {then} (upgrade)"
    assert where.text == f"{by_hand}, then closed by its app until {until}"
    assert (await queue._claim(1, wait=0)).paused is True
    await move_clock(queue, 10)
    assert (await queue.snapshot()).pause == Pause(began + 10, began + 60, by_app=True)
    assert (await queue._claim(1, wait=0)).is_held_back is True, "a run until the queue is empty waits"
    claim = await queue.claim_item("waits")
    assert claim is not None
    await queue.later(claim, 60, close="queue", error="still away")
    pause = Pause(began + 10, began + 70, queue.worker, "still away", by_app=True)
    assert (await queue.snapshot()).pause == pause
    await move_clock(queue, 60)
    assert (await queue.snapshot()).pause is None


@pytest.mark.parametrize("unit", ["client", "key"])
async def test_a_closed_client_or_key_keeps_its_pause_by_hand(queue: ReliableQueue, unit: str) -> None:
    await queue.set_policy(Policy(busy_expiry=600))
    client, key = ("a", None) if unit == "client" else (None, "a")
    await queue.enqueue_many([NewItem(text, client=client, key=key) for text in ("busy", "waits")])
    (claim,) = await queue.claim(wait=0)
    await queue.pause(until=timedelta(seconds=10), by="ann", client=client, key=key)
    assert await queue.claim(wait=0) == []
    await queue.later(claim, 60, close=unit)
    await queue.reap()
    for seconds, by, by_app in ((0, "ann", False), (30, "", True)):
        await move_clock(queue, seconds)
        await queue.reap()
        assert await queue.claim(wait=0) == []
        (pause,) = (await queue.snapshot()).pauses
        assert (pause.by, pause.by_app) == (by, by_app)
    await move_clock(queue, 30)
    await queue.reap()
    assert len(await queue.claim(9, wait=0)) == (2 if unit == "client" else 1)
    assert await queue.resume(client=client, key=key) is False


async def test_a_user_resumes_or_pauses_what_an_app_has_closed(queue: ReliableQueue) -> None:
    (claim,) = await busy(queue)
    await queue.later(claim, 60, close="queue")
    await queue.enqueue("waits")
    await queue.pause(until=timedelta(seconds=90), by="ann")
    seen = await queue.snapshot()
    assert seen.pause == Pause(seen.now, seen.now + 90, "ann")
    await queue.resume()
    assert (await queue.snapshot()).pause is None
    assert texts(await queue.claim(wait=0)) == ["waits"]


async def test_a_queue_is_closed_for_a_day_at_most(queue: ReliableQueue) -> None:
    (claim,) = await busy(queue)
    (outcome,) = await queue.later(claim, timedelta(days=3), close="queue")
    assert (outcome.delay, await opens_in(queue)) == (3 * 86400, 86400)


async def test_a_lost_claim_and_a_delay_of_zero_close_nothing(queue: ReliableQueue) -> None:
    gone, claim = await busy(queue, 2)
    await queue.done(gone)
    assert verdicts(await queue.later(gone, 60, close="queue")) == ["lost"]
    assert verdicts(await queue.later(claim, 0, close="queue")) == ["requeued"]
    assert (await queue.snapshot()).paused is False


async def test_an_item_that_may_not_wait_longer_closes_its_queue_too(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(max_postponed=0))
    (claim,) = await busy(queue)
    assert verdicts(await queue.later(claim, 60, close="queue")) == ["failed"]
    assert await opens_in(queue) == 60
    assert (await queue._claim(1, wait=0)).next_due_in == 60, "although no item becomes due"


async def test_a_waiting_claim_asks_again_when_the_queue_opens(queue: ReliableQueue) -> None:
    (claim,) = await busy(queue)
    await queue.later(claim, 60, close="queue")
    assert (await queue._claim(1, wait=0)).next_due_in == 60
    empty = await queue._claim(1, wait=0)
    assert (empty.paused, empty.is_held_back) == (False, False), "nothing that waits is held back"
    await queue.enqueue("waits")
    claimed = await queue._claim(1, wait=0)
    assert (claimed.paused, claimed.is_held_back, claimed.next_due_in) == (False, True, 60)
    await queue.pause(until=timedelta(seconds=20))
    claimed = await queue._claim(1, wait=0)
    assert (claimed.paused, claimed.is_held_back, claimed.next_due_in) == (True, False, 20)


async def test_a_closing_ends_no_suspension(queue: ReliableQueue) -> None:
    (claim,) = await busy(queue)
    await queue.later(claim, 5, close="queue")
    await queue.set_policy(replace(await queue.policy(), suspended=True))
    await queue.enqueue("waits")
    await move_clock(queue, 5)
    assert await queue.claim(wait=0) == []
    seen = await queue.snapshot()
    assert (seen.paused, seen.pause) == (True, None)


@pytest.mark.parametrize("unit", ["", "worker", 1])
async def test_an_unknown_unit_is_refused_with_the_known_ones(queue: ReliableQueue, unit: object) -> None:
    (claim,) = await busy(queue)
    with pytest.raises(ValueError, match=r"^close is .*; give one of: queue, client, key$"):
        await queue.later(claim, 60, close=unit)  # type: ignore[arg-type]  # what it refuses
    assert await lengths(queue) == Lengths(busy=1)


@pytest.mark.parametrize("unit", ["client", "key"])
async def test_a_closed_client_or_key_waits_and_all_others_go_on(queue: ReliableQueue, unit: str) -> None:
    def item(name: str) -> NewItem:
        return NewItem(name, client=name) if unit == "client" else NewItem(name, key=name)

    await queue.set_policy(Policy(busy_expiry=600))
    await queue.enqueue_many([item("a")])
    (claim,) = await queue.claim(wait=0)
    assert verdicts(await queue.later(claim, 60, close=unit, error="quota")) == ["delayed"]
    await queue.enqueue_many([item("a"), item("b"), "c"])
    assert sorted(texts(await queue.claim(9, wait=0))) == ["b", "c"]
    seen = await queue.snapshot()
    (pause,) = seen.pauses
    assert (seen.paused, pause.by_app, pause.by, pause.reason) == (False, True, queue.worker, "quota")
    assert ((pause.client, pause.key)[unit == "key"], pause.until) == ("a", seen.now + 60)
    await move_clock(queue, 60)
    await queue.reap()
    assert "a" in texts(await queue.claim(9, wait=0))
    assert (await queue.snapshot()).pauses == ()


@pytest.mark.parametrize("unit", ["client", "key"])
async def test_an_item_without_a_client_or_key_closes_nothing(queue: ReliableQueue, unit: str) -> None:
    (claim,) = await busy(queue)
    assert verdicts(await queue.later(claim, 60, close=unit)) == ["delayed"]
    assert (await queue.snapshot()).pauses == ()
