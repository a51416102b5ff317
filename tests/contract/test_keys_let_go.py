"""The end of a claim lets the next item of its key go: many at once, large ones, and behind late ones."""

from datetime import timedelta
from typing import Any

import pytest
import redis

from claimq import Limit, NewItem, ReliableQueue, State
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.queues.clock import move_clock
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def enqueue(queue: ReliableQueue, *keys: str, size: int = 0, **options: Any) -> None:
    """Items whose text is their key and a number, filled up to ``size`` characters."""
    texts = [f"{key}{number}".ljust(size) for number, key in enumerate(keys)]
    await queue.enqueue_many(
        [NewItem(text, key=key, **options) for text, key in zip(texts, keys, strict=True)]
    )


async def claimed(queue: ReliableQueue, count: int = 10) -> list[str]:
    return [claim.item.text.strip() for claim in await queue.claim(count, wait=0)]


async def test_the_next_items_of_many_keys_go_on_together_in_their_places(queue: ReliableQueue) -> None:
    keys = [f"k{number:03}" for number in range(600)]
    await enqueue(queue, *keys, *keys)
    claims = [claim for _ in range(6) for claim in await queue.claim(100, wait=0)]
    while (await queue.lengths())[State.MAIN]:
        assert await claimed(queue) == []
    await queue.done(claims)
    found = [text for _ in range(6) for text in await claimed(queue, 100)]
    assert found == [f"{key}{number}" for number, key in enumerate(keys, start=600)]


async def held_behind_many(queue: ReliableQueue, count: int) -> list[Claim]:
    """Claims of so many keys, each with a held item of 1 MB behind it."""
    keys = [f"k{number:02}" for number in range(count)]
    await enqueue(queue, *keys)
    claims = await queue.claim(count, wait=0)
    for key in keys:
        await enqueue(queue, key, size=1_000_000)
        assert await claimed(queue) == []
    return claims


async def test_held_items_beyond_the_bytes_of_a_call_go_on_at_the_next_ends(
    queue: ReliableQueue, server: Server
) -> None:
    claims = await held_behind_many(queue, 20)
    await queue.done(claims)
    assert (await queue.lengths())[State.DELAYED] == 11
    found: list[str] = []
    with redis.Redis(unix_socket_path=str(server.unix_path)) as client:
        while claims := await queue.claim(10, wait=0):
            found += [claim.item.key or "" for claim in claims]
            await queue.done(claims)
            assert inconsistencies(read_queue(client, queue.name)) == []
    assert found == [f"k{number:02}" for number in range(20)]


async def test_held_items_beyond_the_bytes_of_a_call_go_on_at_the_next_reap(queue: ReliableQueue) -> None:
    await queue.done(await held_behind_many(queue, 20))
    found: list[str] = []
    for _ in range(3):
        while claims := await queue.claim(10, wait=0):
            found += [claim.item.key or "" for claim in claims]
        await queue.reap()
    assert found == [f"k{number:02}" for number in range(20)]


async def test_a_repair_lets_no_item_pass_one_of_its_key_that_stands_far_behind(
    queue: ReliableQueue,
) -> None:
    keys = [f"k{number}" for number in range(8)]
    await enqueue(queue, *keys, "a")
    claims = await queue.claim(10, wait=0)
    await enqueue(queue, *keys, size=400_000)
    await enqueue(queue, "a", "a")
    while (await queue.lengths())[State.MAIN]:
        assert await claimed(queue) == []
    await queue.done(claims)
    await queue.reap()
    found: list[Claim] = []
    while claims := await queue.claim(10, wait=0):
        found += claims
        await queue.done(claims)
    assert [claim.item.text.strip() for claim in found if claim.item.key == "a"] == ["a0", "a1"]


async def claim_before_a_late_item(queue: ReliableQueue) -> Claim:
    """The claim of a key's first item. The second one, whose deadline is in five seconds, and the third are held."""
    await enqueue(queue, "a")
    await enqueue(queue, "a", deadline=timedelta(seconds=5))
    await enqueue(queue, "a")
    (claim,) = await queue.claim(10, wait=0)
    assert await claimed(queue) == []
    return claim


async def test_the_next_item_goes_on_when_the_deadline_of_one_has_passed(queue: ReliableQueue) -> None:
    claim = await claim_before_a_late_item(queue)
    await move_clock(queue, 6)
    await queue.done(claim)
    assert await claimed(queue) == ["a0"]
    assert (await queue.lengths())[State.FAILED] == 1


async def test_the_next_item_goes_on_when_a_call_also_fails_a_late_one(
    queue: ReliableQueue,
) -> None:
    claim = await claim_before_a_late_item(queue)
    await move_clock(queue, 6)
    await next_claims(queue).done_and_claim(claim, 1)
    assert (await queue.lengths())[State.FAILED] == 1
    assert len(await claimed(queue)) == 1


async def test_a_held_item_behind_a_late_one_wakes_another_worker(
    queue: ReliableQueue, server: Server
) -> None:
    claim = await claim_before_a_late_item(queue)
    await queue.done(claim)
    await enqueue(queue, "b")
    await move_clock(queue, 6)
    server.call("DEL", "cq:{q}:wake")
    assert await claimed(queue, 2) == ["b0"]
    assert server.call("LLEN", "cq:{q}:wake") == 1


@pytest.mark.parametrize("limits", [(), (Limit("slots", busy=1, per="key"),)], ids=["no limit", "a limit"])
async def test_held_items_behind_an_item_of_a_flushed_client_go_on(
    queue: ReliableQueue, limits: tuple[Limit, ...]
) -> None:
    """An item that came back stands at the head of its client's list, and the next one of its key behind it."""
    await queue.update_policy(limits=limits)
    await enqueue(queue, "a", "b", client="x")
    claims = await queue.claim(2, wait=0)
    await enqueue(queue, "a", "b", client="y")
    assert await claimed(queue) == []
    await queue.unclaim(claims)
    assert await queue.flush_client("x") == 2
    assert sorted(await claimed(queue)) == ["a0", "b1"]
