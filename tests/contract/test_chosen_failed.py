"""Failed items that a program has read and chosen are requeued and removed together."""

import pytest

from claimq import NewItem, ReliableQueue
from claimq.internals.chosen_failed import chosen_failed
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts, waiting
from testkit.queues.script_calls import call

pytestmark = pytest.mark.frozen_clock(True)


async def fail(queue: ReliableQueue, *payloads: str) -> None:
    await queue.enqueue_many([NewItem(payload, id=payload) for payload in payloads])
    await queue.fail(await queue.claim(1000, wait=0), "no", permanent=True)
    await move_clock(queue, 1)


async def failed(queue: ReliableQueue) -> list[str]:
    return [located.name for located in await queue.failed_items(1000)]


async def test_the_chosen_failed_items_are_requeued_in_their_order(queue: ReliableQueue) -> None:
    await fail(queue, *"abcde")
    items = await queue.failed_items(10)
    assert await chosen_failed(queue).requeue([items[1], items[3], items[3]]) == 2
    assert await waiting(queue) == ["b", "d"]
    assert await failed(queue) == ["a", "c", "e"]
    assert await queue.failed_reasons() == {"no": 3}
    assert await chosen_failed(queue).requeue([]) == 0


@pytest.mark.parametrize("action", ["requeue", "remove"])
async def test_a_chosen_item_that_is_gone_or_has_failed_again_stays_as_it_is(
    queue: ReliableQueue, action: str
) -> None:
    await fail(queue, *"abc")
    items = await queue.failed_items(10)
    await queue.remove_failed_item("a")
    await queue.requeue_failed_item("b")
    await queue.fail(await queue.claim(wait=0), "again", permanent=True)
    assert await getattr(chosen_failed(queue), action)(items) == 1
    assert await failed(queue) == ["b"]


async def test_a_call_names_an_item_twice_and_requeues_it_once(queue: ReliableQueue) -> None:
    await fail(queue, "a", "b")
    _, words = await call(queue, "requeue_failed", "", 0, "", "-inf", 0, 3, "a", "a", "b")
    assert words.split()[:2] == [b"2", b"3"]
    assert texts(await queue.claim(9, wait=0)) == ["a", "b"]


@pytest.mark.parametrize("action", ["requeue", "remove"])
async def test_chosen_items_of_any_number_and_size_are_all_changed(queue: ReliableQueue, action: str) -> None:
    await fail(queue, *map(str, range(150)))
    await queue.enqueue_many([NewItem(b"x" * 600_000, id=f"large-{n}") for n in range(5)])
    while claims := await queue.claim(9, wait=0):
        await queue.fail(claims, "no", permanent=True)
    items = await queue.failed_items(150) + await queue.failed_items(5, offset=150)
    assert await getattr(chosen_failed(queue), action)(items) == 155
    assert await failed(queue) == []
