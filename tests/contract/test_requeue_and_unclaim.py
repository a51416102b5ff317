"""requeue: counted, to the tail. unclaim: it never began, uncounted, to the head. crash: its holder died, counted."""

from typing import Any, cast

import pytest

from claimq import NewItem, Policy, ReliableQueue, RetryDelay, State, Verdict
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, claim_one, lengths, texts, verdicts, waiting
from testkit.queues.retries import retrying_at_once
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def test_a_requeued_item_stands_at_the_tail_and_counts(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    claim = await claim_one(queue)
    (outcome,) = await queue.requeue(claim)
    assert (outcome.verdict, outcome.delay) == ("requeued", None)
    assert await waiting(queue) == ["b", "a"]
    item = (await queue.peek(2))[1]
    assert (item.requeue_count, item.fail_count, item.crash_count) == (1, 0, 0)


@pytest.mark.parametrize("verb", ["requeue", "unclaim", "fail", "crash", "drop"])
async def test_a_claim_whose_item_is_gone_is_lost_and_the_others_are_not(
    queue: ReliableQueue, server: Server, verb: str
) -> None:
    """Another client has removed it: its lease is left."""
    await queue.enqueue_many(list("ab"))
    gone, here = await queue.claim(2, wait=0)
    server.call("HDEL", f"cq:{{q}}:busy:{queue.worker}", gone.token)
    words = ["no"] if verb in ("fail", "crash", "drop") else []
    outcomes = await getattr(queue, verb)([gone, here], *words)
    assert [outcome.is_lost for outcome in outcomes] == [True, False]
    stats = await queue.stats()
    (counter,) = {"requeue": ["requeued"], "unclaim": ["unclaimed"], "fail": ["fails"]}.get(verb, [None])
    assert counter is None or stats[counter] == 1
    left = int(verb != "drop")
    assert sum((await queue.lengths()).values()) - await queue.length(State.BUSY) == left
    await move_clock(queue, 40)
    await queue.reap()
    assert await queue.lengths() == {State.MAIN: left, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 0}


async def test_a_requeue_with_a_delay_is_delayed_for_so_long(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    (outcome,) = await queue.requeue(await claim_one(queue), delay=7.5)
    assert (outcome.verdict, outcome.delay) == ("delayed", 7.5)
    assert await lengths(queue) == Lengths(delayed=1)
    await move_clock(queue, 7.6)
    assert texts(await queue.claim(wait=0)) == ["a"]


async def test_a_requeue_is_not_delayed_by_the_retry_policy(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(retry_delay=RetryDelay(initial=60, jitter=0)))
    await queue.enqueue("a")
    assert verdicts(await queue.requeue(await claim_one(queue))) == ["requeued"]


async def test_a_requeue_can_reach_the_limit(strict: ReliableQueue) -> None:
    await strict.enqueue("a")
    said = [verdicts(await strict.requeue(await claim_one(strict), delay=None))[0] for _ in range(2)]
    assert said == ["requeued", "failed"]
    (located,) = await strict.failed_items()
    assert [entry.kind for entry in located.item.history] == ["requeue", "requeue"]


async def test_a_requeue_can_say_why_and_keeps_the_last_error_otherwise(strict: ReliableQueue) -> None:
    await strict.enqueue("a")
    await strict.requeue(await claim_one(strict), error="too many", detail="quota: 5")
    await strict.requeue(await claim_one(strict))
    (located,) = await strict.failed_items()
    item = located.item
    assert (item.last_error, item.error_detail, item.fail_count) == ("too many", "quota: 5", 0)
    assert [(entry.kind, entry.error) for entry in item.history] == [("requeue", "too many"), ("requeue", "")]


async def test_fails_crashes_and_requeues_count_together_against_the_limit(queue: ReliableQueue) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=3))
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "no")
    await queue.crash(await claim_one(queue), "killed")
    await queue.requeue(await claim_one(queue))
    assert verdicts(await queue.fail(await claim_one(queue), "no")) == ["failed"]
    (located,) = await queue.failed_items()
    item = located.item
    assert (item.requeue_count, item.fail_count, item.crash_count) == (3, 2, 1)


async def test_a_reason_of_another_type_is_named(queue: ReliableQueue) -> None:
    with pytest.raises(TypeError, match=r"^why is None; give text"):
        await queue.unclaim([], why=cast("Any", None))


async def test_unclaimed_items_stand_at_the_head_in_the_order_of_claiming(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abcdef"))
    claims = await queue.claim(4, wait=0)
    assert verdicts(await queue.unclaim(claims)) == ["unclaimed"] * 4
    assert await waiting(queue) == list("abcdef")


@pytest.mark.parametrize("form", ["reversed", "tokens", "one by one, last first"])
async def test_however_they_are_named_they_come_back_in_order(
    queue: ReliableQueue, other_worker: ReliableQueue, form: str
) -> None:
    await queue.enqueue_many(list("abcdefghijkl"))
    claims = [(await (queue, other_worker)[number % 2].claim(wait=0))[0] for number in range(11)]
    if form == "reversed":
        await queue.unclaim(list(reversed(claims)))
    elif form == "tokens":
        await queue.unclaim(sorted(claim.token for claim in claims))
    else:
        for claim in reversed(claims):
            await queue.unclaim(claim)
    assert await waiting(queue) == list("abcdefghijkl")


@pytest.mark.usefixtures("retries_at_once")
async def test_an_interruption_never_counts_against_the_limit(strict: ReliableQueue) -> None:
    await strict.enqueue("a")
    for _ in range(20):
        assert verdicts(await strict.unclaim(await claim_one(strict))) == ["unclaimed"]
    item = (await strict.peek())[0]
    assert (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count) == (0, 0, 0, 20)
    assert item.history == ()
    assert verdicts(await strict.fail(await claim_one(strict), "no")) == ["requeued"]
    assert (await strict.stats())["unclaimed"] == 20


async def test_an_interruption_keeps_the_items_age(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    before = (await queue.peek())[0].enqueued_at
    claim = await claim_one(queue)
    await move_clock(queue, 60)
    await queue.unclaim(claim)
    assert (await queue.peek())[0].enqueued_at == before
    assert (await queue.age() or 0) >= 60


async def test_clients_get_their_items_back_at_the_head_and_their_turns_in_order(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue_many(
        [NewItem(f"{client}{n}", client=client) for n in range(3) for client in ("ann", "bob", "cid")]
    )
    await queue.enqueue_many(["x0", "x1"])
    before = await waiting(queue)
    claims = await queue.claim(11, wait=0)
    assert texts(claims) == before
    await queue.unclaim(claims)
    after = await waiting(queue)
    for client in ("ann", "bob", "cid"):
        assert [text for text in after if text.startswith(client)] == [f"{client}{n}" for n in range(3)]
    assert after[:3] == ["ann0", "bob0", "cid0"]
    assert sorted(after) == sorted(before)


async def test_a_crash_counts_and_goes_to_the_tail_and_comes_alone(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abc"))
    claim = await claim_one(queue)
    assert verdicts(await queue.crash(claim, "OOMKilled")) == ["requeued"]
    assert await waiting(queue) == ["b", "c", "a"]
    assert texts(await queue.claim(9, wait=0)) == ["b", "c"]
    item = (await claim_one(queue)).item
    assert (item.crash_count, item.requeue_count, item.fail_count, item.last_error) == (1, 1, 0, "OOMKilled")
    assert (await queue.stats())["crashes"] == 1


async def test_crashes_are_delayed_like_failures_from_the_second_one_on(queue: ReliableQueue) -> None:
    """After the first one, the item can be claimed at once: the clock does not move."""
    await queue.set_policy(Policy(retry_delay=RetryDelay(initial=3, jitter=0)))
    await queue.enqueue("a")
    delays: list[float | None] = []
    for _ in range(3):
        (outcome,) = await queue.crash(await claim_one(queue), "killed")
        delays.append(outcome.delay)
        if outcome.delay:
            await move_clock(queue, outcome.delay + 1)
    assert delays == [None, 6, 12]


async def test_an_item_that_kills_its_worker_again_and_again_ends_in_failed(queue: ReliableQueue) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=3))
    await queue.enqueue("poison")
    handed = 0
    while claims := await queue.claim(9, wait=0):
        handed += 1
        await queue.crash(claims, "killed")
    assert handed == 4
    (located,) = await queue.failed_items()
    assert (located.item.crash_count, located.item.last_error) == (4, "killed")


async def test_lost_claims_are_reported_by_every_verb(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    claim = await claim_one(queue)
    await queue.done(claim)
    for call in (
        queue.requeue([claim]),
        queue.unclaim([claim]),
        queue.crash([claim], "x"),
        queue.renew([claim]),
    ):
        (outcome,) = await call
        assert (outcome.verdict, outcome.token, outcome.delay, outcome.lease_until) == (
            "lost",
            claim.token,
            None,
            None,
        )
    assert await queue.length(State.MAIN) == 0


async def test_unclaiming_more_than_one_call_takes_keeps_the_order_of_claiming(queue: ReliableQueue) -> None:
    await queue.enqueue_many([str(number) for number in range(2100)])
    claims = [claim for size in (1000, 1000, 100) for claim in await queue.claim(size)]
    shuffled = claims[1500:] + claims[:1500]

    outcomes = await queue.unclaim([*shuffled, "w1/99999.AAAAAAAA"])

    assert [outcome.token for outcome in outcomes[:-1]] == [claim.token for claim in shuffled]
    assert {outcome.verdict for outcome in outcomes[:-1]} == {Verdict.UNCLAIMED}
    assert outcomes[-1].verdict is Verdict.LOST
    assert [item.payload for item in await queue.peek(2100)] == [b"%d" % number for number in range(2100)]
