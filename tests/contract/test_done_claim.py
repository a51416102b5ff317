"""done and claim in one step: what a worker that takes item after item needs of the server, in one call."""

import pytest

from claimq import Claim, NewItem, Policy, ReliableQueue, State
from claimq.internals.next_claims import next_claims
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts, waiting
from testkit.servers.server import Server
from testkit.waiting import eventually

pytestmark = pytest.mark.frozen_clock(True)


async def held(queue: ReliableQueue, payloads: str, count: int = 1) -> list[Claim]:
    await queue.enqueue_many(list(payloads))
    return await queue.claim(count, wait=0)


def log_of_claims(server: Server) -> int:
    length = server.call("ZCARD", "cq:{q}:claims")
    assert isinstance(length, int)
    return length


async def test_one_step_ends_a_claim_and_claims_the_next_item(queue: ReliableQueue) -> None:
    (first,) = await held(queue, "ab")
    (outcome,), (second,) = await next_claims(queue).done_and_claim(first)
    assert (outcome.token, outcome.verdict, outcome.id) == (first.token, "done", first.item.id)
    assert (second.item.text, second.worker) == ("b", "w1")
    assert second.lease_until - second.claimed_at == 30
    assert await lengths(queue) == Lengths(busy=1)
    assert (await queue.snapshot()).seq == 3
    stats = await queue.stats()
    assert (stats["done"], stats["claimed"]) == (1, 2)
    assert verdicts(await queue.done(second)) == ["done"]


async def test_a_lost_claim_is_reported_and_the_next_item_is_claimed(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    (late,) = await held(queue, "ab")
    await move_clock(queue, 31)
    await queue.reap()
    (other,) = await other_worker.claim(wait=0)
    (outcome,), (mine,) = await next_claims(queue).done_and_claim(late)
    assert outcome.verdict == "lost"
    assert (other.item.text, mine.item.text) == ("b", "a")
    assert await lengths(queue) == Lengths(busy=2)


async def test_an_empty_or_paused_queue_takes_the_verdict(queue: ReliableQueue) -> None:
    first, second = await held(queue, "ab", 2)
    outcomes, claims = await next_claims(queue).done_and_claim(first)
    assert (verdicts(outcomes), claims) == (["done"], [])
    await queue.enqueue("c")
    await queue.pause()
    outcomes, claims = await next_claims(queue).done_and_claim(second)
    assert (verdicts(outcomes), claims) == (["done"], [])
    assert await lengths(queue) == Lengths(main=1)


async def test_lost_claims_of_an_empty_queue_write_nothing(queue: ReliableQueue) -> None:
    (claim,) = await held(queue, "a")
    await queue.done(claim)
    before = (await queue.snapshot()).seq
    outcomes, claims = await next_claims(queue).done_and_claim([claim, "w9/1.AAAAAAAA", "w1/7.AAAAAAAA"])
    assert (verdicts(outcomes), claims) == (["lost"] * 3, [])
    assert (await queue.snapshot()).seq == before


async def test_batches_are_ended_and_claimed_together_in_the_turns_of_the_clients(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem(f"{client}{n}", client=client) for client in "ab" for n in range(3)])
    mine, theirs = await queue.claim(2, wait=0), await other_worker.claim(1, wait=0)
    outcomes, claims = await next_claims(queue).done_and_claim([*mine, *theirs, mine[0]], 2)
    assert verdicts(outcomes) == ["done", "done", "done", "lost"]
    assert texts([*mine, *theirs, *claims]) == ["a0", "b0", "a1", "b1", "a2"]
    assert await waiting(queue) == ["b2"]


async def test_an_item_that_has_crashed_a_worker_comes_alone(queue: ReliableQueue) -> None:
    first, second = await held(queue, "ab", 2)
    await queue.crash(second, "killed")
    await queue.enqueue("c")
    _, claims = await next_claims(queue).done_and_claim(first, 10)
    assert texts(claims) == ["b"]


async def test_the_log_of_claim_calls_does_not_grow_with_the_items(
    server: Server, queue: ReliableQueue
) -> None:
    (claim,) = await held(queue, "x" * 40)
    for _ in range(30):
        _, (claim,) = await next_claims(queue).done_and_claim(claim)
    assert log_of_claims(server) == 1


async def test_what_is_overdue_is_moved_when_the_next_item_is_claimed(queue: ReliableQueue) -> None:
    (claim,) = await held(queue, "ab")
    await queue.enqueue("late", delay=5)
    await move_clock(queue, 6)
    await next_claims(queue).done_and_claim(claim)
    await eventually(lambda: waiting(queue), why="the delayed item waits")


async def test_large_items_are_ended_in_several_calls_before_any_is_claimed(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(max_payload=2**23))
    await queue.enqueue_many([b"x" * 2**21] * 7)
    claims: list[Claim] = []
    while len(claims) < 6:
        claims += await queue.claim(6 - len(claims), wait=0)
    outcomes, (last,) = await next_claims(queue).done_and_claim(claims, 5)
    assert verdicts(outcomes) == ["done"] * 6
    assert await lengths(queue) == Lengths(busy=1)
    assert len(last.item.payload) == 2**21


async def test_a_count_that_is_none_is_refused(queue: ReliableQueue) -> None:
    (claim,) = await held(queue, "ab")
    with pytest.raises(ValueError, match="count"):
        await next_claims(queue).done_and_claim(claim, 0)
    assert (await queue.lengths())[State.BUSY] == 1
