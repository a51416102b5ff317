"""Items that are removed without having been done, and without a caller that is given them, are in a bounded log."""

import pytest

import claimq
from claimq import FailedPass, FailedPolicy, Match, NewItem, OnExpiry, Policy, ReliableQueue, RemovalReason
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def logged(queue: ReliableQueue) -> list[tuple[str, str]]:
    return [(removed.reason, removed.item.text) for removed in await queue.removed_items(1000)]


async def fail(queue: ReliableQueue, *payloads: str) -> None:
    """In failed, each a moment after the one before."""
    for payload in payloads:
        await queue.enqueue(payload, id=payload)
        await queue.fail(await queue.claim(wait=0), f"{payload} is bad", permanent=True)
        await move_clock(queue, 0.01)


async def test_an_item_that_is_dropped_is_gone_counted_and_logged(queue: ReliableQueue) -> None:
    await queue.enqueue(b"a\n\x00b", id="a", client="ann")
    claims = await queue.claim(wait=0)
    assert verdicts(await queue.drop(claims, "of no use")) == ["dropped"]
    assert verdicts(await queue.drop(claims, "of no use")) == ["lost"]
    assert await lengths(queue) == Lengths()
    stats = await queue.stats()
    assert (stats["dropped"], stats["fails"], stats["done"]) == (1, 1, 0)
    (removed,) = await queue.removed_items()
    assert (removed.reason, removed.payload_size) == (RemovalReason.ON_FAILURE, 4)
    assert (removed.item.id, removed.item.client, removed.item.payload) == ("a", "ann", b"a\n\x00b")
    assert (removed.item.last_error, removed.item.fail_count) == ("of no use", 1)
    assert removed.removed_at == pytest.approx(claims[0].claimed_at, abs=60)


async def test_an_item_that_expires_and_is_dropped_is_logged(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(on_expiry=OnExpiry.DROP, busy_expiry=30))
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await move_clock(queue, 31)
    await queue.reap()
    assert await logged(queue) == [("on_expiry", "a")]
    assert (await queue.removed_items())[0].item.last_error == "the lease of w1 ran out"


async def test_what_max_items_removes_is_logged_whichever_call_removes_it(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=2)))
    await fail(queue, *"abcd")
    assert await logged(queue) == [("max_items", "b"), ("max_items", "a")]
    await queue.update_policy(failed_max_items=1)
    assert await queue.apply_failed_policy() == FailedPass(removed=1)
    assert await logged(queue) == [("max_items", "c"), ("max_items", "b"), ("max_items", "a")]


async def test_what_the_policy_removes_is_logged(queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    await queue.set_policy(
        Policy(failed=FailedPolicy(remove_min_age=1, remove_min_given_up_count=9, remove_match=Match.EITHER))
    )
    await move_clock(queue, 2)
    await queue.apply_failed_policy()
    assert await logged(queue) == [("policy", "b"), ("policy", "a")]
    assert (await queue.removed_items())[0].item.last_error == "b is bad"


async def test_what_a_caller_removes_is_returned_to_it_and_not_logged(queue: ReliableQueue) -> None:
    await fail(queue, *"abc")
    assert await queue.remove_failed_item("a")
    assert (await queue.remove_failed(limit=1)).count == 1
    assert [located.name async for located in queue.drain_failed()] == ["c"]
    assert await queue.removed_items() == []


async def test_the_log_is_bounded_in_items_and_in_bytes(server: Server, queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(max_payload=10**6))
    worst = [NewItem(b"p" * 20_000, id=f"{number:0200}", client="c" * 128) for number in range(150)]
    for _ in range(8):
        await queue.enqueue_many(worst)
        while claims := await queue.claim(1000, wait=0):  # a claim is bounded by bytes
            await queue.drop(claims, "\x01" * 2000)
        await move_clock(queue, 4000)  # the ids are forgotten
    assert server.call("LLEN", "cq:{q}:removed") == 1000
    (newest,) = await queue.removed_items(1)
    assert (len(newest.item.payload), newest.payload_size) == (1000, 20_000)
    lines = server.call("LRANGE", "cq:{q}:removed", 0, -1)
    assert isinstance(lines, list)
    assert max(len(line) for line in lines if isinstance(line, bytes)) <= 5000


async def test_a_huge_failed_item_that_makes_room_is_logged_without_its_body(queue: ReliableQueue) -> None:
    size = 5 * 1024 * 1024
    await queue.set_policy(Policy(max_payload=size, failed=FailedPolicy(max_items=1)))
    await queue.enqueue(b"x" * size, id="huge")
    await queue.fail(await queue.claim(wait=0), "no", permanent=True)
    await move_clock(queue, 0.01)
    await fail(queue, "small")
    (removed,) = await queue.removed_items()
    assert (removed.item.id, removed.item.payload) == ("huge", b"")
    assert removed.payload_size >= size


async def test_pages_of_the_log_begin_with_the_newest(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abcde"))
    for claim in await queue.claim(5, wait=0):
        await queue.drop(claim, "no")
    pages = [await queue.removed_items(2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [texts(page) for page in pages] == [["e", "d"], ["c", "b"], ["a"], []]
    assert await queue.removed_items(0) == []


@pytest.mark.parametrize("how", ["flush", "delete"])
async def test_flush_and_delete_empty_the_log(server: Server, queue: ReliableQueue, how: str) -> None:
    await queue.enqueue("a")
    await queue.drop(await queue.claim(wait=0), "no")
    await (queue.flush() if how == "flush" else queue.delete())
    assert await queue.removed_items() == []
    assert server.call("EXISTS", "cq:{q}:removed") == 0


async def test_what_another_client_put_into_the_log_stops_no_reader(
    server: Server, queue: ReliableQueue
) -> None:
    server.call("LPUSH", "cq:{q}:removed", "", "x", "1 2", "1000 policy 3 rest", b"\xff \xff \xff \xff")
    found = await queue.removed_items()
    assert [removed.reason for removed in found] == ["\ufffd", "policy", "2", "", ""]
    assert [removed.item.payload for removed in found][1] == b"rest"


async def test_items_dropped_by_consume_are_counted_as_dropped(store: claimq.Server) -> None:
    queue = store.queue("q")
    await queue.enqueue_many(["good", "bad"])

    async def handler(item: claimq.Item) -> None:
        if item.text == "bad":
            raise ValueError("no good")

    consumed = await queue.consume(handler, on_failure="drop", return_when_empty=True)
    assert (consumed.done, consumed.failed) == (1, 1)
    stats = await queue.stats()
    assert (stats["done"], stats["dropped"]) == (1, 1)
    (removed,) = await queue.removed_items()
    assert (removed.item.text, removed.item.last_error) == ("bad", "ValueError: no good")
