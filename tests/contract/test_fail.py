"""fail: this attempt failed; back to the tail, or delayed, or given up: by the counters and the policy."""

import pytest

from claimq import FailedPolicy, NewItem, Policy, ReliableQueue, RetryDelay, State
from testkit.queues.clock import Near, move_clock
from testkit.queues.looking import Lengths, claim_one, lengths, texts, verdicts, waiting
from testkit.queues.retries import retrying_at_once

pytestmark = pytest.mark.frozen_clock(True)


@pytest.mark.usefixtures("retries_at_once")
async def test_a_failed_attempt_goes_to_the_tail_and_counts(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    claim = await claim_one(queue)
    (outcome,) = await queue.fail(claim, "no network")
    assert (outcome.verdict, outcome.id, outcome.delay) == ("requeued", claim.item.id, None)
    assert await waiting(queue) == ["b", "a"]
    item = (await queue.peek(2))[1]
    assert (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count) == (1, 1, 0, 0)
    assert item.last_error == "no network"
    stats = await queue.stats()
    assert (stats["fails"], stats["requeued"]) == (1, 1)


async def test_a_delay_of_the_callers_own_replaces_the_policys(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=1, retry_delay=RetryDelay(initial=100.0, jitter=0.0)))
    await queue.enqueue("a")
    (outcome,) = await queue.fail(await claim_one(queue), "no network", delay=0)
    assert (outcome.verdict, outcome.delay) == ("requeued", None)
    (outcome,) = await queue.fail(await claim_one(queue), "no network", delay=7)
    assert (outcome.verdict, outcome.delay) == ("failed", None)
    await queue.enqueue("b")
    (outcome,) = await queue.fail(await claim_one(queue), "no network", delay=7)
    assert (outcome.verdict, outcome.delay) == ("delayed", 7.0)


async def test_an_item_is_tried_once_more_than_its_limit_and_then_given_up(queue: ReliableQueue) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=2))
    await queue.enqueue("a")
    said = [verdicts(await queue.fail(await claim_one(queue), f"try {n}"))[0] for n in range(3)]
    assert said == ["requeued", "requeued", "failed"]
    assert await lengths(queue) == Lengths(failed=1)
    (located,) = await queue.failed_items()
    item = located.item
    assert (item.requeue_count, item.fail_count, item.given_up_count) == (2, 3, 1)
    assert item.last_error == "try 2"
    assert located.failed_at is not None
    assert [entry.error for entry in item.history] == ["try 0", "try 1", "try 2"]


@pytest.mark.usefixtures("retries_at_once")
async def test_the_default_limit_is_five_requeues(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    said = [verdicts(await queue.fail(await claim_one(queue), "no"))[0] for _ in range(6)]
    assert said == ["requeued"] * 5 + ["failed"]


async def test_with_a_limit_of_zero_the_first_failure_goes_to_failed(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("a")
    assert verdicts(await queue.fail(await claim_one(queue), "no")) == ["failed"]


async def test_a_permanent_failure_goes_to_failed_whatever_the_limit(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    assert verdicts(await queue.fail(await claim_one(queue), "malformed", permanent=True)) == ["failed"]
    (located,) = await queue.failed_items()
    assert (located.item.fail_count, located.item.requeue_count, located.item.given_up_count) == (1, 0, 1)
    assert located.item.history[0].kind == "permanent"


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.usefixtures("retries_at_once")
async def test_a_new_limit_holds_at_once_for_what_is_queued_already(queue: ReliableQueue, limit: int) -> None:
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "no")
    claim = await claim_one(queue)
    await queue.set_policy(retrying_at_once(requeue_limit=limit))
    assert verdicts(await queue.fail(claim, "no")) == ["failed"]


async def test_a_higher_limit_holds_at_once_too(strict: ReliableQueue) -> None:
    await strict.enqueue("a")
    await strict.fail(await claim_one(strict), "no")
    claim = await claim_one(strict)
    await strict.set_policy(retrying_at_once(requeue_limit=2))
    assert verdicts(await strict.fail(claim, "no")) == ["requeued"]


async def test_the_history_says_what_happened_when_why_and_at_whom(
    queue: ReliableQueue, other_worker: ReliableQueue, near: Near
) -> None:
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "first")
    await move_clock(queue, 100)
    await other_worker.crash(await claim_one(other_worker), "killed")
    claim = await claim_one(queue)
    first, second = claim.item.history
    assert (first.kind, first.error, first.worker) == ("fail", "first", "w1")
    assert (second.kind, second.error, second.worker) == ("crash", "killed", "w2")
    assert second.at - first.at == near(100)


async def test_the_history_keeps_the_last_ten_lines(queue: ReliableQueue) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=99))
    await queue.enqueue("a")
    for number in range(13):
        await queue.fail(await claim_one(queue), f"error {number}")
    assert [entry.error for entry in (await claim_one(queue)).item.history] == [
        f"error {n}" for n in range(3, 13)
    ]


@pytest.mark.usefixtures("retries_at_once")
@pytest.mark.parametrize(
    "error",
    [
        "",
        "two\nlines\r\n",
        'quotes " and \\ and \x00',
        "grün \U0001f600",
        "x" * 5000,
        "cq1 x 1 - -\n",
        "\ud800",
        "\x7f\x1b[31m",
    ],
)
async def test_any_text_can_be_an_error_and_breaks_no_item(queue: ReliableQueue, error: str) -> None:
    await queue.enqueue("payload\nwith lines")
    await queue.fail(await claim_one(queue), error)
    item = (await claim_one(queue)).item
    assert item.text == "payload\nwith lines"
    kept = error[:1000].encode("utf-8", "replace").decode()
    assert item.last_error == (kept or None)
    assert item.history[0].error.rstrip("\ufffd") == kept[: len(item.history[0].error.rstrip("\ufffd"))]


@pytest.mark.usefixtures("retries_at_once")
async def test_each_claim_of_a_batch_has_its_own_outcome(strict: ReliableQueue) -> None:
    await strict.enqueue("old")
    await strict.fail(await claim_one(strict), "no")
    await strict.enqueue_many(list("ab"))
    old, a, b = await strict.claim(3, wait=0)
    await strict.done(b)
    assert verdicts(await strict.fail([a, "w1/1.AAAAAAAA", b, old, a], "no")) == [
        "requeued", "lost", "lost", "failed", "lost",
    ]  # fmt: skip
    assert await lengths(strict) == Lengths(main=1, failed=1)


@pytest.mark.usefixtures("retries_at_once")
async def test_a_batch_goes_to_the_tail_in_the_order_of_claiming_however_it_is_named(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcdefghijkl"))
    claims = [(await (queue, other_worker)[number % 2].claim(wait=0))[0] for number in range(12)]
    await queue.fail(list(reversed(claims)), "no")
    assert await waiting(queue) == list("abcdefghijkl")


async def test_by_default_the_pause_before_a_retry_doubles_from_a_second(queue: ReliableQueue) -> None:
    """A fifth of it at most is taken away at random. Without a policy on the server the scripts have the default."""
    await queue.enqueue("a")
    for longest in (1, 2, 4, 8, 16):
        (outcome,) = await queue.fail(await claim_one(queue), "no")
        assert outcome.delay is not None
        assert 0.8 * longest - 0.001 <= outcome.delay <= longest
        await move_clock(queue, longest)
    assert verdicts(await queue.fail(await claim_one(queue), "no")) == ["failed"]


async def test_by_default_no_pause_before_a_retry_is_longer_than_five_minutes(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=50))
    await queue.enqueue("a")
    for _ in range(14):
        await queue.fail(await claim_one(queue), "no")
        await move_clock(queue, 300)
    (outcome,) = await queue.fail(await claim_one(queue), "no")
    assert outcome.delay is not None
    assert 240 - 0.001 <= outcome.delay <= 300


async def test_without_an_initial_delay_the_next_attempt_is_at_once(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(retry_delay=RetryDelay(initial=0)))
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "no")
    assert texts(await queue.claim(wait=0)) == ["a"]


async def test_the_retry_delay_grows_by_its_factor_up_to_its_longest(queue: ReliableQueue) -> None:
    await queue.set_policy(
        Policy(retry_delay=RetryDelay(initial=100, factor=3, max=2000, jitter=0), requeue_limit=9)
    )
    await queue.enqueue("a")
    delays: list[float | None] = []
    for _ in range(5):
        (outcome,) = await queue.fail(await claim_one(queue), "no")
        assert outcome.verdict == "delayed"
        delays.append(outcome.delay)
        assert await queue.claim(wait=0) == []
        await move_clock(queue, (outcome.delay or 0) + 1)
    assert delays == [100, 300, 900, 2000, 2000]


async def test_jitter_takes_away_up_to_its_share_and_not_always_the_same(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(retry_delay=RetryDelay(initial=10, factor=1, max=60, jitter=0.5)))
    await queue.enqueue_many(["x"] * 200)
    delays = [outcome.delay or 0 for outcome in await queue.fail(await queue.claim(200, wait=0), "no")]
    assert all(5 <= delay <= 10 for delay in delays)
    assert len(set(delays)) > 50
    assert min(delays) < 6
    assert max(delays) > 9


async def test_full_jitter_goes_down_to_nothing_and_never_below(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(retry_delay=RetryDelay(initial=0.01, factor=1, jitter=1)))
    await queue.enqueue_many(["x"] * 300)
    outcomes = await queue.fail(await queue.claim(300, wait=0), "no")
    assert set(verdicts(outcomes)) <= {"requeued", "delayed"}
    assert all((outcome.delay or 0) <= 0.01 for outcome in outcomes)


async def test_a_delayed_failure_keeps_its_client_and_its_counters(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(retry_delay=RetryDelay(initial=5, jitter=0)))
    await queue.enqueue("a", client="ann")
    await queue.fail(await claim_one(queue), "no")
    await move_clock(queue, 6)
    (claim,) = await queue.claim(wait=0)
    assert (claim.item.client, claim.item.requeue_count, claim.item.last_error) == ("ann", 1, "no")


async def test_the_cap_on_failed_items_holds_when_one_comes(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=3)))
    for number in range(6):
        await queue.enqueue(str(number))
        await queue.fail(await claim_one(queue), "no", permanent=True)
        await move_clock(queue, 1)
    assert texts(located.item for located in await queue.failed_items()) == ["3", "4", "5"]
    assert (await queue.stats())["failed_removed"] == 3


@pytest.mark.usefixtures("retries_at_once")
async def test_failing_keeps_first_enqueued_at_and_renews_enqueued_at(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    claim = await claim_one(queue)
    await move_clock(queue, 10)
    await queue.fail(claim, "no")
    item = (await queue.peek())[0]
    assert item.first_enqueued_at == claim.item.enqueued_at
    assert item.enqueued_at - item.first_enqueued_at >= 10


@pytest.mark.usefixtures("retries_at_once")
async def test_a_failed_attempt_of_a_client_goes_behind_its_own_items(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(f"ann{n}", client="ann") for n in range(3)])
    await queue.fail(await claim_one(queue), "no")
    assert await waiting(queue) == ["ann1", "ann2", "ann0"]
    assert await queue.length(State.MAIN) == 3


@pytest.mark.usefixtures("retries_at_once")
async def test_an_errors_detail_stays_with_the_item_until_the_next_error(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "no", detail="worker.py:7 in résumé\nlib.py:9 in open")
    claim = await claim_one(queue)
    assert claim.item.error_detail == "worker.py:7 in résumé\nlib.py:9 in open"
    await queue.unclaim(claim)
    claim = await claim_one(queue)
    assert claim.item.error_detail is not None
    await queue.requeue(claim)
    assert (await claim_one(queue)).item.error_detail is not None
    await queue.crash((await queue.items(State.BUSY))[0].name, "killed")
    (item,) = await queue.peek()
    assert (item.last_error, item.error_detail) == ("killed", None)


@pytest.mark.usefixtures("retries_at_once")
async def test_of_a_long_detail_the_end_is_kept(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "no", detail="x" * 5000 + "end")
    detail = (await claim_one(queue)).item.error_detail or ""
    assert (len(detail), detail[-4:]) == (2000, "xend")
