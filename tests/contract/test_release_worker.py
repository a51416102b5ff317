"""release_worker: at once and in order, all that a dead worker held."""

import pytest

from claimq import InvalidName, NewItem, Reason, Released, ReliableQueue, State
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts, waiting


async def test_a_crashed_workers_items_go_to_the_tail_counted_and_in_order(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcde"))
    mine = await queue.claim(3, wait=0)
    theirs = await other_worker.claim(wait=0)
    released = await other_worker.release_worker("w1", error="OOMKilled on node-3")
    assert released == Released(requeued=3)
    assert released.total == 3
    assert await waiting(queue) == ["e", "a", "b", "c"]
    item = (await queue.peek(9))[1]
    assert (item.crash_count, item.requeue_count, item.last_error) == (1, 1, "OOMKilled on node-3")
    assert verdicts(await queue.done(mine)) == ["lost"] * 3
    assert verdicts(await other_worker.done(theirs)) == ["done"]
    assert (await queue.stats())["crashes"] == 3


async def test_an_interrupted_workers_items_go_to_the_head_uncounted_and_in_order(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue_many(list("abcde"))
    await queue.claim(3, wait=0)
    assert await queue.release_worker("w1", Reason.INTERRUPTED) == Released(unclaimed=3)
    assert await waiting(queue) == list("abcde")
    item = (await queue.peek())[0]
    assert (item.crash_count, item.requeue_count, item.interrupted_count) == (0, 0, 1)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("count", [499, 500, 501, 1700])
async def test_the_order_holds_over_many_chunks(queue: ReliableQueue, reason: Reason, count: int) -> None:
    payloads = [str(number) for number in range(count + 5)]
    await queue.enqueue_many(payloads)
    claimed = 0
    while claimed < count:
        claimed += len(await queue.claim(min(count - claimed, 1000), wait=0))
    released = await queue.release_worker("w1", reason)
    assert released.total == count
    order = texts(await queue.peek(5000))
    if reason is Reason.INTERRUPTED:
        assert order == payloads
    else:
        assert order == payloads[count:] + payloads[:count]


@pytest.mark.usefixtures("retries_at_once")
async def test_a_crashed_worker_can_use_up_the_limit(strict: ReliableQueue) -> None:
    await strict.enqueue_many(list("ab"))
    await strict.fail(await strict.claim(wait=0), "no")
    await strict.claim(2, wait=0)
    assert await strict.release_worker("w1") == Released(requeued=1, failed=1)
    assert await lengths(strict) == Lengths(main=1, failed=1)


async def test_an_item_whose_worker_died_waits_from_the_second_time_on(queue: ReliableQueue) -> None:
    """One death is mostly that of the worker; a second one makes the item the likelier cause."""
    await queue.enqueue("a")
    await queue.claim(wait=0)
    assert await queue.release_worker("w1") == Released(requeued=1)
    await queue.claim(wait=0)
    assert await queue.release_worker("w1") == Released(delayed=1)


async def test_releasing_again_or_a_stranger_finds_nothing(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await queue.release_worker("w1", Reason.INTERRUPTED)
    assert await queue.release_worker("w1", Reason.INTERRUPTED) == Released()
    assert await queue.release_worker("never-seen") == Released()
    assert (await queue.peek())[0].interrupted_count == 1


@pytest.mark.frozen_clock(True)
async def test_clients_get_theirs_back(queue: ReliableQueue) -> None:
    await queue.enqueue_many(
        [NewItem(f"{client}{n}", client=client) for n in range(2) for client in ("ann", "bob")]
    )
    await queue.claim(3, wait=0)
    await move_clock(queue, 1)
    await queue.release_worker("w1", Reason.INTERRUPTED)
    assert await waiting(queue) == ["bob0", "ann0", "bob1", "ann1"]  # ann had two items for a second, bob one


async def test_a_name_that_no_worker_can_have_is_refused(queue: ReliableQueue) -> None:
    with pytest.raises(InvalidName):
        await queue.release_worker("w1/2")
    with pytest.raises(ValueError, match="sleepy"):
        await queue.release_worker("w1", "sleepy")  # type: ignore[arg-type]  # a wrong value on purpose


async def test_any_text_can_be_the_reason(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await queue.release_worker("w1", error="exit \ud800\n" + "x" * 5000)
    (claim,) = await queue.claim(wait=0)
    assert claim.item.last_error is not None
    assert claim.item.last_error.startswith("exit ?\nxxx")
    assert len(claim.item.last_error) == 1000
    assert texts([claim]) == ["a"]
    assert await queue.length(State.BUSY) == 1
