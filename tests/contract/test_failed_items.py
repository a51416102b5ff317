"""Failed items: sent back, removed, drained: by filters, in chunks, atomically for each chunk."""

import asyncio

import pytest

import claimq
from claimq import FailedPass, FailedPolicy, Match, NewItem, Policy, ReliableQueue, State
from testkit.queues.clock import move_clock
from testkit.queues.damaged_keys import correct
from testkit.queues.looking import Lengths, lengths, texts, waiting
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def fail(queue: ReliableQueue, *payloads: str, client: str | None = None) -> None:
    """These are in failed, each a moment after the one before; their ids are their payloads."""
    for payload in payloads:
        await queue.enqueue(payload, id=payload, client=client)
        (claim,) = await queue.claim(wait=0)
        await queue.fail(claim, f"{payload} is bad", permanent=True)
        await move_clock(queue, 0.01)


async def failed(queue: ReliableQueue) -> list[str]:
    return texts(await queue.failed_items(1000))


async def give_up_again(queue: ReliableQueue, name: str, times: int) -> None:
    for _ in range(times):
        assert await queue.requeue_failed_item(name)
        await queue.fail(await queue.claim(wait=0), "again", permanent=True)
        await move_clock(queue, 0.01)


@pytest.mark.usefixtures("retries_at_once")
async def test_requeue_failed_returns_all_oldest_first_with_new_counters_and_old_history(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("x")
    await queue.fail(await queue.claim(wait=0), "first")
    await queue.crash(await queue.claim(wait=0), "second")
    await queue.unclaim(await queue.claim(wait=0))
    await queue.fail(await queue.claim(wait=0), "third", permanent=True)
    await move_clock(queue, 5)
    await fail(queue, "y")
    await move_clock(queue, 100)
    assert await queue.requeue_failed() == 2
    assert await waiting(queue) == ["x", "y"]
    item = (await queue.peek())[0]
    assert (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count) == (0, 0, 0, 0)
    assert (item.given_up_count, item.last_error) == (1, None)
    assert [entry.kind for entry in item.history] == ["fail", "crash", "permanent", "requeue_failed"]
    assert item.enqueued_at - item.first_enqueued_at > 100
    assert texts(await queue.claim(9, wait=0)) == ["x", "y"], "it crashed a worker in its former life"
    assert (await queue.stats())["failed_requeued"] == 2


@pytest.mark.usefixtures("retries_at_once")
async def test_a_requeued_item_has_its_whole_limit_again(strict: ReliableQueue) -> None:
    await strict.enqueue("a")
    for _ in range(2):
        await strict.fail(await strict.claim(wait=0), "no")
    await strict.requeue_failed()
    await strict.fail(await strict.claim(wait=0), "no")
    assert await lengths(strict) == Lengths(main=1)
    await strict.fail(await strict.claim(wait=0), "no")
    assert (await strict.failed_items())[0].item.given_up_count == 2


async def test_requeue_failed_leaves_what_failed_too_often(queue: ReliableQueue) -> None:
    await fail(queue, "once", "twice", "thrice")
    await give_up_again(queue, "twice", 1)
    await give_up_again(queue, "thrice", 2)
    assert await queue.requeue_failed(max_given_up_count=2) == 2
    assert await failed(queue) == ["thrice"]
    assert sorted(await waiting(queue)) == ["once", "twice"]
    assert await queue.requeue_failed(max_given_up_count=0) == 0


async def test_requeue_failed_leaves_what_failed_too_lately(queue: ReliableQueue) -> None:
    await fail(queue, "old")
    await move_clock(queue, 60)
    await fail(queue, "new")
    assert await queue.requeue_failed(min_age=30) == 1
    assert await failed(queue) == ["new"]
    await move_clock(queue, 31)
    assert await queue.requeue_failed(min_age=30) == 1


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
async def test_chunks_of_any_size_handle_every_item_once_around_those_that_stay(
    queue: ReliableQueue, chunk: int
) -> None:
    await fail(queue, *(str(number) for number in range(12)))
    for stays in ("0", "5", "6", "11"):
        await give_up_again(queue, stays, 1)
    assert await queue.requeue_failed(max_given_up_count=1, chunk=chunk) == 8
    assert sorted(await failed(queue), key=int) == ["0", "5", "6", "11"]
    assert sorted(await waiting(queue), key=int) == ["1", "2", "3", "4", "7", "8", "9", "10"]


async def test_one_failed_item_is_sent_back_by_its_id(queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    assert await queue.requeue_failed_item("b") is True
    assert await queue.requeue_failed_item("b") is False
    assert await queue.requeue_failed_item("never") is False
    assert await waiting(queue) == ["b"]
    assert await failed(queue) == ["a"]


async def test_sending_back_keeps_the_client(queue: ReliableQueue) -> None:
    await fail(queue, "a", client="ann")
    await queue.requeue_failed()
    assert (await queue.claim(wait=0))[0].item.client == "ann"


async def test_remove_failed_removes_all_and_returns_the_first_of_them(queue: ReliableQueue) -> None:
    await fail(queue, *"abcde")
    removed = await queue.remove_failed(chunk=2, log_limit=3)
    assert removed.count == 5
    assert texts(removed.items) == ["a", "b", "c"]
    first = removed.items[0]
    assert (first.state, first.name, first.item.last_error) == (State.FAILED, "a", "a is bad")
    assert first.failed_at is not None
    assert await lengths(queue) == Lengths()
    assert (await queue.stats())["failed_removed"] == 5


async def test_removing_all_returns_the_first_hundred_unasked(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(str(number), id=f"{number:03}") for number in range(130)])
    await queue.fail(await queue.claim(130, wait=0), "no", permanent=True)
    removed = await queue.remove_failed()
    assert removed.count == 130
    assert [located.name for located in removed.items] == [f"{number:03}" for number in range(100)]


@pytest.mark.parametrize(("limit", "chunk"), [(1, 100), (4, 3), (5, 5), (9, 2)])
async def test_a_limit_leaves_the_later_failures_to_another_time(
    queue: ReliableQueue, limit: int, chunk: int
) -> None:
    await fail(queue, *"abcdef")
    assert await queue.requeue_failed(limit=limit, chunk=chunk) == min(limit, 6)
    assert await waiting(queue) == list("abcdef"[:limit])
    await queue.flush()
    await fail(queue, *"ABCDEF")
    assert (await queue.remove_failed(limit=limit, chunk=chunk)).count == min(limit, 6)
    assert await failed(queue) == list("ABCDEF"[limit:])
    await queue.flush()
    await fail(queue, *"uvwxyz")
    drained = [located.name async for located in queue.drain_failed(limit=limit, chunk=chunk)]
    assert drained == list("uvwxyz"[:limit])
    assert await failed(queue) == list("uvwxyz"[limit:])


async def old_and_new_that_failed_once_and_twice(queue: ReliableQueue) -> None:
    await fail(queue, "old1", "old2")
    await give_up_again(queue, "old2", 1)
    await move_clock(queue, 60)
    await fail(queue, "new1", "new2")
    await give_up_again(queue, "new2", 1)


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize(("match", "gone"), [("both", ["old2"]), ("either", ["old1", "old2", "new2"])])
async def test_two_filters_choose_what_passes_both_or_either(
    queue: ReliableQueue, match: str, gone: list[str], chunk: int
) -> None:
    everything = ["old1", "old2", "new1", "new2"]
    rest = [name for name in everything if name not in gone]
    await old_and_new_that_failed_once_and_twice(queue)
    drain = queue.drain_failed(min_age=30, min_given_up_count=2, match=match, chunk=chunk)
    assert [located.item.text async for located in drain] == gone
    assert await failed(queue) == rest
    await queue.flush()
    await old_and_new_that_failed_once_and_twice(queue)
    removed = await queue.remove_failed(min_age=30, min_given_up_count=2, match=match, chunk=chunk)
    assert texts(removed.items) == gone
    assert await failed(queue) == rest


@pytest.mark.parametrize("match", ["both", "either"])
async def test_a_single_filter_means_the_same_with_both_and_either(queue: ReliableQueue, match: str) -> None:
    await old_and_new_that_failed_once_and_twice(queue)
    assert (await queue.remove_failed(min_given_up_count=2, match=match)).count == 2
    assert (await queue.remove_failed(min_age=30, match=match)).count == 1
    assert await failed(queue) == ["new1"]
    assert (await queue.remove_failed(match=match)).count == 1


async def test_a_filtered_drain_leaves_what_fails_while_it_runs(queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    seen: list[str] = []
    async for located in queue.drain_failed(min_given_up_count=1, chunk=1):
        seen.append(located.item.text)
        await move_clock(queue, 0.01)
        await fail(queue, f"late-{len(seen)}")
    assert seen == ["a", "b"]
    assert await failed(queue) == ["late-1", "late-2"]


async def test_an_unknown_way_to_match_is_refused(queue: ReliableQueue) -> None:
    await fail(queue, "a")
    with pytest.raises(ValueError, match="any"):
        await queue.remove_failed(match="any")
    assert await failed(queue) == ["a"]


@pytest.mark.parametrize(("log_limit", "returned"), [(0, 0), (1, 1), (5, 5), (99, 5)])
async def test_the_log_is_as_long_as_asked_for(queue: ReliableQueue, log_limit: int, returned: int) -> None:
    await fail(queue, *"abcde")
    removed = await queue.remove_failed(chunk=2, log_limit=log_limit)
    assert (removed.count, len(removed.items)) == (5, returned)


async def test_remove_failed_leaves_the_young_and_those_that_failed_seldom(queue: ReliableQueue) -> None:
    await fail(queue, "old-seldom", "old-often")
    await give_up_again(queue, "old-often", 2)
    await move_clock(queue, 60)
    await fail(queue, "new-often")
    await give_up_again(queue, "new-often", 2)
    removed = await queue.remove_failed(min_age=30, min_given_up_count=3, log_limit=9)
    assert texts(removed.items) == ["old-often"]
    assert await failed(queue) == ["old-seldom", "new-often"]


async def test_one_failed_item_is_removed_by_its_id_and_returned(queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    located = await queue.remove_failed_item("a")
    assert located is not None
    assert (located.item.text, located.item.last_error) == ("a", "a is bad")
    assert await queue.remove_failed_item("a") is None
    assert await failed(queue) == ["b"]


async def test_one_failed_item_is_looked_at_by_its_id(queue: ReliableQueue) -> None:
    await fail(queue, "a")
    located = await queue.failed_item("a")
    assert located is not None
    assert located.item.last_error == "a is bad"
    assert await queue.failed_item("b") is None


async def test_failed_items_are_listed_oldest_failure_first_by_pages(queue: ReliableQueue) -> None:
    await fail(queue, *"cabd")
    assert texts(await queue.failed_items(2)) == ["c", "a"]
    assert texts(await queue.failed_items(9, offset=2)) == ["b", "d"]
    assert await queue.failed_items(0) == []


async def test_draining_hands_over_everything_and_leaves_nothing(queue: ReliableQueue) -> None:
    await fail(queue, *"abcde")
    assert [located.item.text async for located in queue.drain_failed(chunk=2)] == list("abcde")
    assert await lengths(queue) == Lengths()


async def test_a_drain_that_dies_in_the_middle_repeats_its_chunk_and_loses_none(queue: ReliableQueue) -> None:
    await fail(queue, *"abcde")
    drain = queue.drain_failed(chunk=2)
    taken = [(await anext(drain)).item.text for _ in range(4)]
    assert taken == ["a", "b", "c", "d"]
    await drain.aclose()  # "c" and "d" were handed over, and the page after them was not asked for
    assert await failed(queue) == ["c", "d", "e"]
    assert [located.item.text async for located in queue.drain_failed()] == ["c", "d", "e"]


async def test_a_drain_takes_also_what_fails_while_it_runs(queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    seen: list[str] = []
    async for located in queue.drain_failed(chunk=1):
        seen.append(located.item.text)
        if located.item.text == "a":
            await fail(queue, "late")
    assert seen == ["a", "b", "late"]


async def test_many_who_send_back_at_once_handle_each_item_once(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem(str(number), id=str(number)) for number in range(100)])
    await queue.fail(await queue.claim(100, wait=0), "no", permanent=True)
    await move_clock(queue, 1)
    counts = await asyncio.gather(*(store.queue("q").requeue_failed(chunk=7) for _ in range(5)))
    assert sum(counts) == 100
    assert sorted(await waiting(queue), key=int) == [str(number) for number in range(100)]


async def test_what_fails_while_items_are_sent_back_stays(queue: ReliableQueue) -> None:
    """A worker that fails them at once does not make it an endless loop."""
    await fail(queue, *"abc")
    busy = asyncio.ensure_future(queue.requeue_failed(chunk=1))
    again = 0
    while not busy.done():
        for claim in await queue.claim(9, wait=0):
            again += 1
            await move_clock(queue, 0.002)  # another instant than that of the first chunk
            await queue.fail(claim, "again", permanent=True)
        await asyncio.sleep(0)
    assert await busy == 3
    assert again <= 3


async def test_a_failed_entry_without_its_item_stops_no_call(server: Server, queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    server.call("HDEL", "cq:{q}:failed:items", "a")
    assert await failed(queue) == ["b"]
    assert [located.name async for located in queue.drain_failed(chunk=1)] == ["b"]
    await fail(queue, "c")
    assert await queue.requeue_failed() == 1
    assert (await queue.remove_failed()).count == 1
    assert await lengths(queue) == Lengths(main=1)


# The queue's own policy for them.
async def test_without_a_policy_failed_items_stay(queue: ReliableQueue) -> None:
    await fail(queue, "a")
    await move_clock(queue, 10**7)
    assert await queue.apply_failed_policy() == FailedPass()
    assert await failed(queue) == ["a"]


async def test_the_policy_sends_back_after_its_time_up_to_its_count(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(requeue_min_age=60, requeue_max_given_up_count=1)))
    await fail(queue, "once", "twice")
    await give_up_again(queue, "twice", 1)
    assert await queue.apply_failed_policy() == FailedPass()
    await move_clock(queue, 61)
    assert await queue.apply_failed_policy() == FailedPass(requeued=1)
    assert await waiting(queue) == ["once"]


async def test_the_policy_removes_the_old_that_failed_often_enough(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(remove_min_age=60, remove_min_given_up_count=2)))
    await fail(queue, "once", "twice")
    await give_up_again(queue, "twice", 1)
    await move_clock(queue, 61)
    assert await queue.apply_failed_policy() == FailedPass(removed=1)
    assert await failed(queue) == ["once"]


async def test_the_policy_removes_the_old_and_those_that_failed_often_enough(queue: ReliableQueue) -> None:
    often = FailedPolicy(remove_min_age=30, remove_min_given_up_count=2, remove_match=Match.EITHER)
    await queue.set_policy(Policy(failed=often))
    await old_and_new_that_failed_once_and_twice(queue)
    assert await queue.apply_failed_policy() == FailedPass(removed=3)
    assert await failed(queue) == ["new1"]
    await move_clock(queue, 60)
    assert await queue.apply_failed_policy() == FailedPass(removed=1)


async def test_the_policy_removes_by_the_count_alone_where_either_is_enough(queue: ReliableQueue) -> None:
    await queue.set_policy(
        Policy(failed=FailedPolicy(remove_min_given_up_count=2, remove_match=Match.EITHER))
    )
    await old_and_new_that_failed_once_and_twice(queue)
    passes = [(await queue.apply_failed_policy(limit=1)).removed for _ in range(3)]
    assert passes == [1, 1, 0]
    assert await failed(queue) == ["old1", "new1"]


async def test_the_policy_keeps_the_newest_so_many(queue: ReliableQueue) -> None:
    await fail(queue, *"abcdef")
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=2)))
    assert await queue.apply_failed_policy() == FailedPass(removed=4)
    assert await failed(queue) == ["e", "f"]


async def test_a_pass_is_bounded_and_later_passes_do_the_rest(queue: ReliableQueue) -> None:
    await fail(queue, *"abcdef")
    await queue.set_policy(Policy(failed=FailedPolicy(requeue_min_age=1)))
    await move_clock(queue, 2)
    assert [(await queue.apply_failed_policy(limit=4)).requeued for _ in range(3)] == [4, 2, 0]


async def test_a_pass_removes_before_it_sends_back(queue: ReliableQueue) -> None:
    await fail(queue, "old")
    await move_clock(queue, 100)
    await fail(queue, "new")
    await queue.set_policy(Policy(failed=FailedPolicy(requeue_min_age=0, remove_min_age=50)))
    await move_clock(queue, 1)
    assert await queue.apply_failed_policy() == FailedPass(requeued=1, removed=1)
    assert await waiting(queue) == ["new"]


async def test_a_failed_item_that_is_gone_is_not_requeued_and_hides_no_other(
    queue: ReliableQueue, server: Server
) -> None:
    """Another client has removed its payload: only its place in the index is left."""
    await fail(queue, "a", "b", "c")
    server.call("HDEL", "cq:{q}:failed:items", "a", "b")
    assert await queue.requeue_failed_item("b") is False
    assert await queue.requeue_failed() == 1
    assert await waiting(queue) == ["c"]
    stats = await queue.stats()
    assert (stats["failed_requeued"], stats["enqueued"]) == (1, 3)
    assert await correct(queue, server) == 2
    assert await lengths(queue) == Lengths(main=1)
