"""Pauses of keys: their items are held in their places, and the others go on."""

from datetime import timedelta

import pytest

from claimq import Claim, NewItem, ReliableQueue, State
from claimq.waiting.reasons import WaitReason, waiting_counts
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
MINUTE = timedelta(minutes=1)


async def fill(queue: ReliableQueue, names: str) -> None:
    """Items with the texts and ids a0, b1, ..., whose keys are their first letters."""
    await queue.enqueue_many(
        NewItem(f"{key}{number}", id=f"{key}{number}", key=key) for number, key in enumerate(names)
    )


async def all_of(queue: ReliableQueue, count: int = 20) -> list[str]:
    """What is done one after the other, until nothing can be claimed."""
    done = list[str]()
    while claims := await queue.claim(count, wait=0):
        done += texts(claims)
        await queue.done(claims)
    return done


async def test_items_of_a_paused_key_are_held_and_start_in_order_after_it(queue: ReliableQueue) -> None:
    await fill(queue, "abaab")
    await queue.pause(key="a", until=timedelta(seconds=20), reason="moving", by="ann")
    await queue.enqueue("x")
    assert sorted(await all_of(queue)) == ["b1", "b4", "x"]
    snapshot = await queue.snapshot()
    assert [(pause.key, pause.items, pause.by) for pause in snapshot.pauses] == [("a", 3, "ann")]
    assert (waiting_counts(snapshot)["paused"], waiting_counts(snapshot)["key_busy"]) == (3, 0)
    where = await queue.where("a2")
    assert where is not None
    assert where.reason is WaitReason.PAUSED
    assert where.text.startswith("the key a is paused by ann since ")
    await move_clock(queue, 19.9)
    assert await all_of(queue) == []
    await move_clock(queue, 0.1)
    assert await all_of(queue, 1) == ["a0", "a2", "a3"]


@pytest.mark.parametrize("order", ["relaxed", "strict"])
async def test_an_item_in_progress_that_comes_back_is_held_in_its_place(
    queue: ReliableQueue, order: str
) -> None:
    await queue.update_policy(key_order=order)
    await fill(queue, "aa")
    held = await queue.claim(1, wait=0)
    await queue.pause(key="a")
    await queue.unclaim(held)
    assert await all_of(queue) == []
    assert await queue.resume(key="a")
    assert not await queue.resume(key="a")
    assert await all_of(queue, 1) == ["a0", "a1"]


@pytest.mark.parametrize("change", ["pause", "resume"])
async def test_a_pause_that_is_over_lets_its_key_go_though_others_change(
    queue: ReliableQueue, change: str
) -> None:
    await fill(queue, "ab")
    await queue.pause(key="a", until=timedelta(seconds=1))
    await queue.pause(key="b")
    assert await all_of(queue) == []
    await move_clock(queue, 2)
    await (queue.pause(key="c") if change == "pause" else queue.resume(key="b"))
    done = await all_of(queue) + await all_of(queue)  # one that finds something does not reap
    assert sorted(done) == (["a0"] if change == "pause" else ["a0", "b1"])


async def test_a_paused_key_whose_claim_ends_lets_nothing_go(queue: ReliableQueue) -> None:
    await fill(queue, "aaa")
    held = await queue.claim(3, wait=0)
    assert texts(held) == ["a0"]
    await queue.pause(key="a")
    await queue.done(held)
    assert await all_of(queue) == []
    for _ in range(3):
        assert (await queue.reap()).repaired == 0
        assert await all_of(queue) == []
    assert (await queue.lengths())[State.DELAYED] == 2
    await queue.resume(key="a")
    assert await all_of(queue, 1) == ["a1", "a2"]


async def test_a_resume_while_the_key_is_busy_lets_nothing_go(queue: ReliableQueue) -> None:
    await fill(queue, "aa")
    held = await queue.claim(1, wait=0)
    await queue.pause(key="a")
    assert await all_of(queue) == []
    await queue.resume(key="a")
    assert await all_of(queue) == []
    await queue.done(held)
    assert await all_of(queue) == ["a1"]


async def test_an_item_of_a_paused_key_is_claimed_by_its_id(queue: ReliableQueue) -> None:
    await fill(queue, "aaa")
    await queue.pause(key="a")
    assert await all_of(queue) == []
    claim = await queue.claim_item("a1")
    assert isinstance(claim, Claim)
    await queue.done([claim])
    assert await all_of(queue) == []
    await queue.resume(key="a")
    assert await all_of(queue, 1) == ["a0", "a2"]


async def test_an_item_that_waits_for_its_retry_stays_behind_the_pause(queue: ReliableQueue) -> None:
    await fill(queue, "a")
    await queue.requeue(await queue.claim(1, wait=0), delay=5)
    await queue.pause(key="a", until=MINUTE)
    await move_clock(queue, 5)
    await queue.reap()
    assert await all_of(queue) == []
    await move_clock(queue, 55)
    assert await all_of(queue) == ["a0"]


async def test_a_waiting_claim_asks_again_when_the_pause_of_a_key_ends(queue: ReliableQueue) -> None:
    await fill(queue, "a")
    await queue.pause(key="a", until=timedelta(seconds=0.5))
    assert (await queue._claim_once(1, None)).next_due_in == 0.5
    await queue.pause(key="a")
    assert (await queue._claim_once(1, None)).next_due_in is None


@pytest.mark.parametrize("ends", ["by time", "by hand"])
async def test_the_end_of_a_pause_of_a_key_leaves_a_wake_token(
    queue: ReliableQueue, server: Server, ends: str
) -> None:
    await fill(queue, "a")
    await queue.pause(key="a", until=MINUTE)
    assert await all_of(queue) == []
    if ends == "by time":
        await move_clock(queue, 60)
        assert (await queue.reap()).due == 1
    else:
        await queue.resume(key="a")
    assert (server.call("LLEN", "cq:{q}:wake"), (await queue.lengths())[State.MAIN]) == (1, 1)
    assert server.call("HGETALL", "cq:{q}:pauses") == []


async def test_a_flush_leaves_the_pause_of_a_key(queue: ReliableQueue) -> None:
    await fill(queue, "aa")
    await queue.pause(key="a")
    assert await all_of(queue) == []
    await queue.flush()
    await fill(queue, "ab")
    assert await all_of(queue) == ["b1"]


async def test_a_hundred_keys_may_be_paused_beside_a_hundred_clients(queue: ReliableQueue) -> None:
    for number in range(100):
        await queue.pause(key=f"{number}", until=MINUTE)
    await queue.pause(client="c")
    with pytest.raises(ValueError, match=r"^100 clients, or keys, of the queue are paused"):
        await queue.pause(key="other")
    with pytest.raises(ValueError, match=r"^client and key are both given"):
        await queue.pause(key="a", client="c")
