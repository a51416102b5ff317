"""An interruption that turns out to have been the item's own doing is counted as a crash after all."""

import pytest

from claimq import NewItem, Policy, ReliableQueue
from claimq.internals.operations import internals
from claimq.model import State, Verdict
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts

pytestmark = pytest.mark.frozen_clock(True)

CAUSE = "worker ended: evicted (Pod ephemeral local storage usage exceeds the limit), exit code 137; pod p"
WHY = "its worker was asked to end at once"


@pytest.mark.parametrize("client", [None, "c"])
async def test_what_waits_again_goes_to_the_tail_and_counts(queue: ReliableQueue, client: str | None) -> None:
    await queue.enqueue_many([NewItem("bad", client=client), NewItem("good", client=client)])
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    assert await internals(queue).recount("w1", CAUSE) == 1
    first, second = await queue.peek(2)
    assert (first.text, second.text) == ("good", "bad")
    assert (second.crash_count, second.requeue_count, second.interrupted_count) == (1, 1, 0)
    assert second.last_error == CAUSE
    assert [(entry.kind, entry.error) for entry in second.history] == [("crash", CAUSE)]
    assert texts(await queue.claim(2, wait=0)) == ["good"]  # the other comes alone
    assert texts(await queue.claim(2, wait=0)) == ["bad"]


async def test_what_waits_for_its_key_counts_too(queue: ReliableQueue, other_worker: ReliableQueue) -> None:
    await queue.enqueue("bad", key="k")
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    await queue.enqueue("first", key="k", priority="high")
    await other_worker.claim(1, wait=0)
    assert await queue.claim(1, wait=0) == []
    assert await internals(queue).recount("w1", CAUSE) == 1
    (item,) = await queue.peek(2)
    assert (item.text, item.crash_count, item.interrupted_count, item.last_error) == ("bad", 1, 0, CAUSE)
    assert await internals(queue).recount("w1", CAUSE) == 0
    assert (await queue.lengths())[State.DELAYED] == 0


@pytest.mark.parametrize("client", [None, "c"])
async def test_at_the_limit_it_goes_to_failed_and_the_queue_goes_on(
    queue: ReliableQueue, client: str | None
) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("bad", client=client)
    await queue.enqueue("other", client="d" if client else None)
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    assert await internals(queue).recount("w1", CAUSE) == 1
    (located,) = await queue.items(State.FAILED)
    assert (located.item.text, located.item.last_error, located.item.given_up_count) == ("bad", CAUSE, 1)
    assert (await queue.lengths())[State.MAIN] == 1
    assert texts(await queue.claim(2, wait=0)) == ["other"]
    await queue.enqueue("later", client=client)
    assert texts(await queue.claim(2, wait=0)) == ["later"]


async def test_what_is_in_other_hands_by_now_stays_there_and_has_had_its_last_chance(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("bad")
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    again = await other_worker.claim(1, wait=0)
    assert await internals(queue).recount("w1", CAUSE) == 1
    (located,) = await queue.items(State.BUSY)
    assert (located.item.crash_count, located.item.last_error) == (1, CAUSE)
    (outcome,) = await other_worker.unclaim(again, why=WHY)
    assert outcome.verdict is Verdict.FAILED
    (given_up,) = await queue.items(State.FAILED)
    assert (given_up.item.given_up_count, given_up.item.last_error) == (1, CAUSE)
    assert await queue.requeue_failed() == 1
    (outcome,) = await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    assert outcome.verdict is Verdict.UNCLAIMED  # a new life


async def test_what_is_done_in_other_hands_is_done(queue: ReliableQueue, other_worker: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("bad")
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    again = await other_worker.claim(1, wait=0)
    await internals(queue).recount("w1", CAUSE)
    (outcome,) = await other_worker.done(again)
    assert outcome.verdict is Verdict.DONE
    assert sum((await queue.lengths()).values()) == 0


async def test_nothing_is_counted_twice_or_for_another_or_for_what_never_began(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(["begun", "never begun", "crashed", "of another"])
    begun, never, crashed = (await queue.claim(1, wait=0))[0], *(await queue.claim(2, wait=0))
    theirs = await other_worker.claim(1, wait=0)
    await queue.unclaim(begun, why=WHY)
    await queue.unclaim(never)
    await queue.crash(crashed, "gone")
    await other_worker.unclaim(theirs, why=WHY)
    assert await internals(queue).recount("w1", CAUSE) == 1
    assert await internals(queue).recount("w1", CAUSE) == 0
    assert (await queue.snapshot()).counters["crashes"] == 2
    assert {item.text for item in await queue.peek(4) if item.interrupted_count} == {
        "never begun",
        "of another",
    }


async def test_an_interruption_of_long_ago_stays_one(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    await move_clock(queue, 61)
    assert await internals(queue).recount("w1", CAUSE) == 0


async def test_what_a_client_of_many_gave_back_is_found(queue: ReliableQueue) -> None:
    await queue.enqueue("bad", client="first")
    claims = await queue.claim(1, wait=0)
    await queue.enqueue_many([NewItem("other", client=f"c{number}") for number in range(150)])
    await queue.unclaim(claims, why=WHY)
    assert await internals(queue).recount("w1", CAUSE) == 1
