"""claim: up to N items, oldest first, to busy under leases; alone what has crashed a worker."""

import re

import pytest

import claimq
from claimq import Claim, NewItem, Policy, ReliableQueue, State
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts, waiting
from testkit.waiting import eventually

pytestmark = pytest.mark.frozen_clock(True)


async def test_items_are_claimed_in_the_order_in_which_they_came(queue: ReliableQueue) -> None:
    await queue.enqueue_many([str(number) for number in range(100)])
    got: list[str] = []
    for count in (1, 7, 30, 100):
        got += texts(await queue.claim(count, wait=0))
    assert got == [str(number) for number in range(100)]
    assert await lengths(queue) == Lengths(busy=100)


async def test_an_empty_queue_gives_an_empty_list(queue: ReliableQueue) -> None:
    assert await queue.claim(wait=0) == []
    assert await queue.claim(1000, wait=0) == []


async def test_fewer_items_than_asked_for_come_at_once(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abc"))
    assert texts(await queue.claim(1000, wait=60)) == ["a", "b", "c"]


async def test_a_claim_says_who_holds_what_from_when_until_when(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=12))
    done = await queue.enqueue("a", client="ann")
    (claim,) = await queue.claim(wait=0)
    assert claim.worker == "w1"
    assert re.fullmatch(rf"w1/{claim.number}\.[A-Za-z0-9_-]{{8}}", claim.token)
    assert claim.lease_until - claim.claimed_at == pytest.approx(12)
    assert claim.claimed_at >= claim.item.enqueued_at
    item = claim.item
    assert (item.id, item.text, item.client) == (done.id, "a", "ann")
    assert (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count, item.given_up_count) == (
        0, 0, 0, 0, 0,
    )  # fmt: skip
    assert (item.last_error, item.history) == (None, ())


async def test_tokens_grow_with_every_claim_of_the_queue_by_any_worker(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcd"))
    claims = await queue.claim(2, wait=0) + await other_worker.claim(wait=0)
    await queue.flush()
    await queue.enqueue("e")
    claims += await queue.claim(wait=0)
    numbers = [claim.number for claim in claims]
    assert numbers == sorted(set(numbers))


async def test_an_item_is_never_held_twice(queue: ReliableQueue, other_worker: ReliableQueue) -> None:
    await queue.enqueue_many(list("abcdef"))
    assert texts(await queue.claim(4, wait=0)) == ["a", "b", "c", "d"]
    assert texts(await other_worker.claim(4, wait=0)) == ["e", "f"]
    assert await queue.claim(wait=0) == []


async def test_claims_take_what_is_due_and_what_has_expired_without_anybody_elses_help(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("expired")
    await queue.claim(wait=0)
    await queue.enqueue("due", delay=20)
    await move_clock(queue, 31)
    assert sorted(texts(await queue.claim(1, wait=0)) + texts(await queue.claim(1, wait=0))) == [
        "due",
        "expired",
    ]


async def test_a_claim_that_gets_items_reaps_what_it_met_for_the_next(queue: ReliableQueue) -> None:
    await queue.enqueue("expired")
    await queue.claim(wait=0)
    await move_clock(queue, 31)
    await queue.enqueue_many(["new0", "new1"])
    assert texts(await queue.claim(wait=0)) == ["new0"]

    async def reaped() -> bool:
        return (await queue.stats())["expired"] == 1

    await eventually(reaped)
    assert await waiting(queue) == ["new1", "expired"]


async def crashed(queue: ReliableQueue, payload: str, client: str | None = None) -> None:
    """Leaves an item in main that has crashed a worker, behind what waits."""
    await queue.enqueue(payload, client=client)
    claims: list[Claim] = []
    while payload not in texts(claims):
        claims += await queue.claim(1000, wait=0)
    mine = [claim for claim in claims if claim.item.text == payload]
    await queue.unclaim([claim for claim in claims if claim.item.text != payload])
    assert verdicts(await queue.crash(mine, "killed")) == ["requeued"]


async def test_an_item_that_has_crashed_a_worker_comes_alone_when_it_is_first(queue: ReliableQueue) -> None:
    await crashed(queue, "poison")
    await queue.enqueue_many(list("ab"))
    assert texts(await queue.claim(9, wait=0)) == ["poison"]
    assert texts(await queue.claim(9, wait=0)) == ["a", "b"]


async def test_a_batch_ends_before_an_item_that_has_crashed_a_worker(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    await crashed(queue, "poison")
    await queue.enqueue_many(list("cd"))
    assert texts(await queue.claim(9, wait=0)) == ["a", "b"]
    assert texts(await queue.claim(9, wait=0)) == ["poison"]
    assert texts(await queue.claim(9, wait=0)) == ["c", "d"]


async def test_the_last_of_a_batch_may_be_alone_too(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    await crashed(queue, "poison")
    assert texts(await queue.claim(3, wait=0)) == ["a", "b"]
    assert texts(await queue.claim(3, wait=0)) == ["poison"]


async def test_two_that_have_crashed_a_worker_come_one_by_one(queue: ReliableQueue) -> None:
    await crashed(queue, "one")
    await crashed(queue, "two")
    assert texts(await queue.claim(9, wait=0)) == ["one"]
    assert texts(await queue.claim(9, wait=0)) == ["two"]


@pytest.mark.parametrize("before", [0, 1, 2, 3])
async def test_alone_also_holds_among_clients(queue: ReliableQueue, before: int) -> None:
    """Whatever stands before it in the ring, the crashed item is in a batch of its own, and no turn is lost."""
    for number in range(before):
        await queue.enqueue_many([NewItem(f"c{number}-{n}", client=f"c{number}") for n in range(2)])
    await crashed(queue, "poison", client="evil")
    await queue.enqueue_many([NewItem("after", client="late"), NewItem("evil2", client="evil"), "no client"])
    batches: list[list[str]] = []
    while claims := await queue.claim(4, wait=0):
        batches.append(texts(claims))
    assert ["poison"] in batches
    everything = [payload for batch in batches for payload in batch]
    assert sorted(everything) == sorted(
        [
            "poison",
            "after",
            "evil2",
            "no client",
            *(f"c{number}-{n}" for number in range(before) for n in range(2)),
        ]
    )
    assert everything.index("poison") < everything.index("evil2")
    assert everything.index("poison") <= 2 * before + 2


async def test_alone_holds_for_one_client_only(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("a", client="ann"), NewItem("b", client="ann")])
    await crashed(queue, "poison", client="ann")
    assert texts(await queue.claim(9, wait=0)) == ["a", "b"]
    assert texts(await queue.claim(9, wait=0)) == ["poison"]


@pytest.mark.usefixtures("retries_at_once")
async def test_failing_does_not_make_an_item_come_alone(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    await queue.fail(await queue.claim(2, wait=0), "no")
    assert texts(await queue.claim(2, wait=0)) == ["a", "b"]


async def test_every_claim_counts(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abc"))
    await queue.claim(2, wait=0)
    await queue.claim(2, wait=0)
    await queue.claim(2, wait=0)
    assert (await queue.stats())["claimed"] == 3


async def test_queues_know_nothing_of_each_other(store: claimq.Server, queue: ReliableQueue) -> None:
    other = store.queue("other", worker="w1")
    await queue.enqueue("mine")
    await other.enqueue("theirs")
    (claim,) = await queue.claim(9, wait=0)
    assert claim.item.text == "mine"
    assert verdicts(await other.done(claim)) == ["lost"]
    assert await queue.length(State.BUSY) == 1
