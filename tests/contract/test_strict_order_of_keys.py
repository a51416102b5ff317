"""In strict order an item of a key that waits for its retry, or was postponed, holds back the later ones."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from claimq import KeyOrder, NewItem, Policy, Priority, ReliableQueue, RetryDelay, State
from claimq.model import Claim
from testkit.queues.clock import move_clock
from testkit.queues.looking import claimed
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
DELAY, LEASE = 60.0, 600.0
STRICT = Policy(
    key_order=KeyOrder.STRICT, retry_delay=RetryDelay(DELAY, 1, DELAY, jitter=0), busy_expiry=LEASE
)
Act = Callable[[ReliableQueue, Claim], Awaitable[object]]


async def begin(queue: ReliableQueue, policy: Policy = STRICT, **options: Any) -> Claim:
    """The claim of the first of three items with the key k; one of another key stands behind them."""
    await queue.set_policy(policy)
    for text, key in (("a", "k"), ("b", "k"), ("c", "k"), ("other", "x")):
        await queue.enqueue_many([NewItem(text, id=text, key=key, **options)])
    (claim,) = await queue.claim(1, wait=0)
    return claim


WAITS: dict[str, Act] = {
    "fail": lambda queue, claim: queue.fail(claim, "no"),
    "requeue": lambda queue, claim: queue.requeue(claim, delay=DELAY),
    "later": lambda queue, claim: queue.later(claim, DELAY),
    "closed": lambda queue, claim: queue.later(claim, DELAY, close="key"),
}


@pytest.mark.parametrize("wait", list(WAITS))
@pytest.mark.parametrize("options", [{}, {"client": "ann"}, {"priority": Priority.LOW}], ids=str)
async def test_the_later_items_of_a_key_wait_behind_one_that_waits(
    queue: ReliableQueue, wait: str, options: dict[str, Any]
) -> None:
    claim = await begin(queue, **options)
    await WAITS[wait](queue, claim)
    assert await claimed(queue) == ["other"]
    await move_clock(queue, DELAY)
    await queue.reap()
    for text in "abc":
        (claim,) = await queue.claim(10, wait=0)
        assert claim.item.text == text
        await queue.done(claim)


@pytest.mark.parametrize("wait", ["fail", "requeue", "later"])
async def test_they_go_on_in_relaxed_order(queue: ReliableQueue, wait: str) -> None:
    claim = await begin(queue, Policy())
    await WAITS[wait](queue, claim)
    assert await claimed(queue) == ["b", "other"]


AT_ONCE: dict[str, Act] = {
    "requeue": lambda queue, claim: queue.requeue(claim),
    "later": lambda queue, claim: queue.later(claim, 0),
    "crash": lambda queue, claim: queue.crash(claim, "it died"),
    "lease": lambda queue, _: move_clock(queue, LEASE + 1),
    "release": lambda queue, _: queue.release_worker("w1"),
    "unclaim": lambda queue, claim: queue.unclaim(claim),
}


@pytest.mark.parametrize("end", list(AT_ONCE))
async def test_an_item_that_is_tried_again_at_once_comes_before_the_later_ones(
    queue: ReliableQueue, end: str
) -> None:
    claim = await begin(queue)
    await AT_ONCE[end](queue, claim)
    await queue.reap()
    assert await claimed(queue, 1) == ["a"]
    assert await claimed(queue) == ["other"]


ENDS: dict[str, Act] = {
    "fails": lambda queue, claim: queue.fail(claim, "no", permanent=True),
    "is done": lambda queue, claim: queue.done(claim),
    "is dropped": lambda queue, claim: queue.drop(claim, "no"),
    "moves": lambda queue, claim: queue.done(claim, enqueue={"r": [NewItem("a")]}),
}


@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("has_waited", [False, True])
async def test_the_next_item_goes_on_when_the_one_before_it_ends(
    queue: ReliableQueue, end: str, has_waited: bool
) -> None:
    """As a delete or a move of a waiting item does it: by a claim of its id."""
    claim = await begin(queue)
    if has_waited:
        await queue.later(claim, DELAY)
    assert await claimed(queue) == ["other"]
    if has_waited:
        chosen = await queue.claim_item("a")
        assert chosen is not None
        claim = chosen
    await ENDS[end](queue, claim)
    assert (await claimed(queue, 1)) == ["b"]


async def test_an_item_chosen_by_its_id_waits_again_before_the_later_ones(queue: ReliableQueue) -> None:
    await queue.later(await begin(queue), DELAY)
    chosen = await queue.claim_item("a")
    assert chosen is not None
    assert await claimed(queue) == ["other"]
    await queue.later(chosen, DELAY)
    assert await claimed(queue) == []
    await move_clock(queue, DELAY)
    await queue.reap()
    assert await claimed(queue) == ["a"]


async def test_an_item_whose_deadline_passes_while_it_waits_frees_its_key(queue: ReliableQueue) -> None:
    await queue.later(await begin(queue, deadline=timedelta(seconds=DELAY / 2)), DELAY)
    assert await claimed(queue) == ["other"]
    await move_clock(queue, DELAY / 2)
    await queue.reap()
    await queue.claim(10, wait=0)
    failed = await queue.failed_items()
    assert failed[0].item.text == "a"


async def test_a_flush_ends_the_wait(queue: ReliableQueue, server: Server) -> None:
    await queue.later(await begin(queue), DELAY)
    assert await claimed(queue) == ["other"]
    await queue.flush()
    assert server.call("EXISTS", "cq:{q}:held") == 0
    await queue.enqueue("new", key="k")
    assert await claimed(queue) == ["new"]


async def test_many_items_that_are_due_at_one_instant_let_their_keys_go(queue: ReliableQueue) -> None:
    await queue.set_policy(STRICT)
    keys = [f"k{number:03}" for number in range(150)]
    await queue.enqueue_many([NewItem(text, key=key) for text in "ab" for key in keys])
    claims = [claim for _ in range(2) for claim in await queue.claim(75, wait=0)]
    await queue.later(claims, DELAY)
    assert await claimed(queue, 200) == []
    await move_clock(queue, DELAY)
    await queue.reap()
    again = await queue.claim(150, wait=0)
    await queue.done(again)
    assert len(again) == 100
    await queue.reap()
    texts = [text for _ in range(3) for text in await claimed(queue, 100)]
    assert sorted(texts) == ["a"] * 50 + ["b"] * 100


@pytest.mark.parametrize("lost", ["delayed", "keys"])
async def test_a_loss_of_what_waits_holds_back_no_item(
    queue: ReliableQueue, server: Server, lost: str
) -> None:
    await queue.later(await begin(queue), DELAY)
    if lost == "keys":
        assert await claimed(queue) == ["other"]
    server.call("DEL", f"cq:{{q}}:{lost}")
    await move_clock(queue, DELAY)
    for _ in range(2):
        await queue.reap()
    assert (await claimed(queue))[0] == ("b" if lost == "delayed" else "a")


async def test_repair_keeps_the_later_items_behind_one_that_waits(queue: ReliableQueue) -> None:
    await queue.later(await begin(queue), DELAY)
    assert await claimed(queue) == ["other"]
    for _ in range(3):
        await queue.reap()
    assert await claimed(queue) == []
    assert (await queue.lengths())[State.DELAYED] == 3


async def test_items_that_already_wait_keep_their_order_when_the_policy_changes(queue: ReliableQueue) -> None:
    await queue.later(await begin(queue), DELAY)
    await queue.update_policy(key_order="relaxed")
    assert await claimed(queue) == ["other"]
    await move_clock(queue, DELAY)
    await queue.reap()
    assert await claimed(queue) == ["a"]


async def test_an_item_that_waited_for_its_retry_is_the_oldest_of_its_client(queue: ReliableQueue) -> None:
    """Also where another of the client's, which holds none back, is due with it."""
    await queue.set_policy(STRICT)
    await queue.enqueue("a", key="k", client="ann")
    await queue.later(await queue.claim(1, wait=0), DELAY)
    await queue.enqueue("b", client="ann", delay=DELAY)
    await move_clock(queue, DELAY)
    await queue.reap()
    assert await queue.age() == DELAY
