"""done with followers: what follows from an item is enqueued in the same atomic step, or not at all."""

from typing import Any

import pytest

import claimq
from claimq import Done, NewItem, ReliableQueue
from claimq.redis_store.connection import Connection
from testkit.queues.looking import Lengths, enqueued_and_claimed, lengths, verdicts, waiting


async def test_followers_take_the_place_of_the_done_item(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    assert verdicts(
        await queue.done(claim, enqueue=["a1", NewItem("a2", client="ann"), NewItem("a3", delay=9)])
    ) == ["done"]
    assert sorted(await waiting(queue)) == ["a1", "a2"]
    assert await lengths(queue) == Lengths(main=2, delayed=1)
    stats = await queue.stats()
    assert (stats["done"], stats["enqueued"]) == (1, 4)
    assert (await queue.snapshot()).seq == 3


async def test_each_of_several_claims_has_followers_of_its_own(queue: ReliableQueue) -> None:
    one, two, three = await enqueued_and_claimed(queue, "abc")
    await queue.done([Done(one, ["1"]), Done(two, []), three, Done("w1/1.AAAAAAAA", ["not this"])])
    assert await waiting(queue) == ["1"]
    assert await lengths(queue) == Lengths(main=1)


async def test_what_would_follow_from_a_lost_claim_is_not_enqueued(queue: ReliableQueue) -> None:
    one, two, three = await enqueued_and_claimed(queue, "abc")
    await queue.unclaim(two)
    pairs = [
        Done(one, ["1"]),
        Done(two, ["2"]),
        Done(three, ["3"]),
        Done(one, ["again"]),
        Done("w9/9.AAAAAAAA", ["9"]),
    ]
    assert verdicts(await queue.done(pairs)) == ["done", "lost", "done", "lost", "lost"]
    assert await waiting(queue) == ["b", "1", "3"]


async def test_followers_go_to_other_queues_too(store: claimq.Server, queue: ReliableQueue) -> None:
    thumbs, mails = store.queue("thumbs"), store.queue("mails")
    (claim,) = await enqueued_and_claimed(queue, "a")
    await queue.done(
        claim, enqueue={"thumbs": ["t1", "t2"], "mails": [NewItem("m", id="m1")], "q": ["again"]}
    )
    assert await waiting(thumbs) == ["t1", "t2"]
    assert await waiting(mails) == ["m"]
    assert await waiting(queue) == ["again"]
    assert (await thumbs.stats())["enqueued"] == 2


async def test_a_follower_whose_id_is_known_is_not_queued_twice(queue: ReliableQueue) -> None:
    one, two, _ = await enqueued_and_claimed(queue, "abc")
    await queue.done(one, enqueue=[NewItem("next", id="n")])
    await queue.done(
        two, enqueue=[NewItem("next", id="n"), NewItem("other", id="o"), NewItem("other", id="o")]
    )
    assert await waiting(queue) == ["next", "other"]


async def test_a_queue_that_gets_nothing_is_left_alone(store: claimq.Server, queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    await queue.done(claim, enqueue={"other": [], "q": ["next"]})
    assert (await store.queue("other").snapshot()).seq == 0


async def test_followers_of_many_claims_in_one_argument_are_refused(queue: ReliableQueue) -> None:
    claims = await enqueued_and_claimed(queue, "abc")
    with pytest.raises(ValueError, match="give Done"):
        await queue.done(claims, enqueue=["whose?"])
    with pytest.raises(ValueError, match="give Done"):
        await queue.done(Done(claims[0], []), enqueue=["whose?"])
    assert await lengths(queue) == Lengths(busy=3)


async def test_too_many_pairs_are_refused_before_anything_happens(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    with pytest.raises(ValueError, match="at most 1000"):
        await queue.done([Done(claim, ["x"])] * 1001)
    assert await lengths(queue) == Lengths(busy=1)


async def test_claims_with_many_followers_end_in_several_steps(
    store: claimq.Server, queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.enqueue_many(["x"] * 400)
    claims = await queue.claim(400, wait=0)
    real, replies = Connection.run, list[bytes]()

    async def noted(self: Connection, name: str, *words: Any, **options: Any) -> Any:
        reply = await real(self, name, *words, **options)
        replies.append(reply[1])
        return reply

    monkeypatch.setattr(Connection, "run", noted)
    pairs = [Done(claim, {"a": [NewItem("y", client=f"c{n}")], "b": ["z"]}) for n, claim in enumerate(claims)]
    pairs[0] = Done(claims[0], [NewItem("w", client=f"c{n}") for n in range(300)])
    assert verdicts(await queue.done(pairs[:1])) == ["done"]
    assert verdicts(await queue.done(pairs[1:])) == ["done"] * 399
    assert [reply.split().count(b"done") for reply in replies] == [1, 125, 125, 125, 24]
    assert await queue.length() == 300
    assert (await store.queue("a").length(), await store.queue("b").length()) == (399, 399)
