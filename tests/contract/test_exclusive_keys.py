"""Exclusive keys: of the items with the same key at most one is busy; the others wait in delayed."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import combinations
from typing import Any

import pytest
import redis
import redis.asyncio

import claimq
from claimq import NewItem, Policy, Priority, ReliableQueue, RetryDelay, State, Verdict
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from testkit.clock import move_clock
from testkit.frozen_clock import BEGIN_MS, FrozenClock
from testkit.plugin import ServerFactory
from testkit.script_calls import claim_once
from testkit.server import Server
from testkit.stored import inconsistencies, read_queue
from testkit.waiting import PATIENCE

pytestmark = pytest.mark.frozen_clock(True)
STEP = 0.1
"""Seconds between the looks at the items that wait for a key."""
LEASE = 30.0
HASH = "cq:{q}:exclusive"


async def enqueue(queue: ReliableQueue, *keys: str, size: int = 0, **options: Any) -> None:
    """Items whose text is their key and a number, filled up to ``size`` characters."""
    texts = [f"{key}{number}".ljust(size) for number, key in enumerate(keys)]
    items = [NewItem(text, exclusive_key=key, **options) for text, key in zip(texts, keys, strict=True)]
    await queue.enqueue_many(items)


def known_keys(server: Server) -> int:
    count = server.call("HLEN", HASH)
    assert isinstance(count, int)
    return count


@asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[claimq.Server]:
    """As the fixture ``store``, where time stands still: in real time, waiting items are soon looked at again."""
    async with redis.asyncio.Redis(unix_socket_path=str(server.unix_path)) as client:
        yield claimq.connect(client=FrozenClock(client, q=BEGIN_MS))


async def claimed(queue: ReliableQueue, count: int = 10) -> list[str]:
    return [claim.item.text for claim in await queue.claim(count, wait=0)]


async def test_of_the_items_with_a_key_one_call_claims_one(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a", "b", "a", "b")
    await queue.enqueue("without")
    claims = await queue.claim(10, wait=0)
    assert [claim.item.text for claim in claims] == ["a0", "b2", "without"]
    assert [claim.item.exclusive_key for claim in claims] == ["a", "b", None]
    assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 3, State.DELAYED: 3, State.FAILED: 0}


@pytest.mark.parametrize("has_clients", [False, True], ids=["one list", "a ring of clients"])
@pytest.mark.parametrize("places", list(combinations(range(4), 2)))
async def test_two_items_of_a_key_at_each_place_of_one_call(
    queue: ReliableQueue, places: tuple[int, int], has_clients: bool
) -> None:
    first, second = places
    await queue.enqueue_many(
        NewItem(
            f"{place}",
            exclusive_key="k" if place in places else None,
            client=f"c{place}" if has_clients else None,
        )
        for place in range(4)
    )
    claims = {claim.item.text: claim for claim in await queue.claim(4, wait=0)}
    assert list(claims) == [f"{place}" for place in range(4) if place != second]
    holder = claims.pop(f"{first}")
    await queue.done(list(claims.values()))  # frees no key
    await move_clock(queue, 2 * STEP)
    assert await claimed(queue) == []
    await queue.done(holder)
    await move_clock(queue, 1)
    assert await claimed(queue) == [f"{second}"]


async def test_the_others_follow_one_by_one_when_the_claim_has_ended(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a", "a")
    for expected in ("a0", "a1", "a2"):
        (claim,) = await queue.claim(10, wait=0)
        assert claim.item.text == expected
        await move_clock(queue, 2 * STEP)
        assert await claimed(queue) == []
        await queue.done(claim)
        await move_clock(queue, 3 * STEP)


ENDS: dict[str, Callable[[ReliableQueue, Claim], Awaitable[object]]] = {
    "done": lambda queue, claim: queue.done(claim),
    "fail": lambda queue, claim: queue.fail(claim, "no", permanent=True),
    "drop": lambda queue, claim: queue.drop(claim, "no"),
    "release": lambda queue, _: queue.release_worker("w1"),
    "lease": lambda queue, _: move_clock(queue, LEASE + 1),
}


@pytest.mark.parametrize("end", list(ENDS))
async def test_a_key_is_free_however_its_claim_ended(queue: ReliableQueue, end: str) -> None:
    await queue.set_policy(Policy(busy_expiry=LEASE, requeue_limit=0))
    await enqueue(queue, "a", "a")
    (claim,) = await queue.claim(10, wait=0)
    await ENDS[end](queue, claim)
    await move_clock(queue, 2 * STEP)
    assert await claimed(queue) == ["a1"]


async def test_an_item_that_is_given_back_is_claimed_again_first(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a")
    (claim,) = await queue.claim(10, wait=0)
    await queue.unclaim(claim)
    assert await claimed(queue) == ["a0"]


async def test_done_and_the_next_claim_in_one_call_pass_the_key_on(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a")
    (claim,) = await queue.claim(1, wait=0)
    _, found = await next_claims(queue).done_and_claim([claim.token], 1)
    assert [one.item.text for one in found] == ["a1"]


async def test_a_call_that_ends_a_lost_claim_takes_no_key_from_its_new_holder(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(busy_expiry=LEASE, requeue_limit=5))
    await enqueue(queue, "a")
    (lost,) = await queue.claim(1, wait=0)
    await move_clock(queue, LEASE + 1)
    (held,) = await other_worker.claim(1, wait=0)
    await enqueue(queue, "a")
    (outcome,), found = await next_claims(queue).done_and_claim([lost.token], 9)
    assert (outcome.verdict, found) == (Verdict.LOST, [])
    await other_worker.done(held)
    await move_clock(queue, LEASE)
    assert len(await claimed(queue)) == 1


async def test_items_that_wait_hide_none_behind_them(queue: ReliableQueue) -> None:
    await enqueue(queue, *["a"] * 600, "b")
    assert await claimed(queue, 1) == ["a0"]
    assert await claimed(queue, 1) == ["b600"]
    assert (await queue.lengths())[State.DELAYED] == 599


@pytest.mark.parametrize("count", [1, 2, 10])
async def test_items_that_wait_are_passed_over_within_the_bytes_of_a_call(
    start_server: ServerFactory, count: int
) -> None:
    """On a server of its own: a script that does not end would stop all that share it."""
    server = start_server()
    async with connected(server) as store, asyncio.timeout(PATIENCE):
        queue, other = store.queue("q", worker="w1"), store.queue("q", worker="w2")
        await enqueue(queue, *["a"] * 6, size=600_000)
        await enqueue(queue, "b")
        await other.claim(1, wait=0)
        assert await claim_once(queue, server, count) == [b"AGAIN"]
        assert await queue.lengths() == {State.MAIN: 4, State.BUSY: 1, State.DELAYED: 2, State.FAILED: 0}
        assert await claimed(queue, count) == ["b0"]
        assert (await queue.lengths())[State.DELAYED] == 5


async def test_a_wrong_count_of_the_items_of_clients_does_not_keep_a_claim_going(
    start_server: ServerFactory,
) -> None:
    server = start_server()
    async with connected(server) as store, asyncio.timeout(PATIENCE):
        queue, other = store.queue("q", worker="w1"), store.queue("q", worker="w2")
        await enqueue(queue, "a", "a")
        await other.claim(1, wait=0)
        server.call("HINCRBY", "cq:{q}:stats", "client_items", 5)
        assert await claimed(queue) == []
        assert (await queue.lengths())[State.DELAYED] == 1


async def test_a_list_of_another_type_behind_items_that_wait_refuses_no_call_halfway(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    for client in ("zoe", "ann", "bob", "cat"):
        await enqueue(queue, "a", client=client)
    await other_worker.claim(1, wait=0)
    server.call("DEL", "cq:{q}:main:cat")
    server.call("SET", "cq:{q}:main:cat", "x")
    with pytest.raises(claimq.StoreMisused, match="cat"):
        await queue.claim(2, wait=0)
    assert (await queue.lengths())[State.DELAYED] == 2
    assert server.call("HGET", "cq:{q}:stats", "client_items") == b"1"  # that of cat


async def test_a_key_costs_ten_looks_a_second_however_many_items_wait(queue: ReliableQueue) -> None:
    await enqueue(queue, *["a"] * 100)
    await queue.claim(10, wait=0)
    while (await queue.lengths())[State.MAIN]:
        await queue.claim(10, wait=0)
    await move_clock(queue, 1)
    await queue.reap()
    assert (await queue.lengths())[State.MAIN] in (9, 10)


async def test_a_key_that_is_busy_for_long_is_looked_at_seldom(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=3600.0))
    await enqueue(queue, "a", "a")
    (claim,) = await queue.claim(10, wait=0)
    looks = 0
    for _ in range(100):
        await move_clock(queue, 0.5)
        looks += (await queue.reap()).due
        assert await claimed(queue) == []
    assert looks < 25
    await queue.done(claim)
    await move_clock(queue, 5.2)
    assert await claimed(queue) == ["a1"]


async def test_keys_are_known_again_when_the_counters_were_lost(queue: ReliableQueue, server: Server) -> None:
    await enqueue(queue, "a", "a")
    await queue.claim(1, wait=0)
    server.call("HDEL", "cq:{q}:stats", "exclusive")
    await queue.reap()
    assert await claimed(queue) == []


@pytest.mark.parametrize("options", [{"client": "ann"}, {"priority": Priority.HIGH}])
async def test_it_holds_across_clients_and_priorities(queue: ReliableQueue, options: dict[str, Any]) -> None:
    await enqueue(queue, "a")
    await enqueue(queue, "a", "b", **options)
    claims = await queue.claim(10, wait=0)
    assert sorted(claim.item.exclusive_key or "" for claim in claims) == ["a", "b"]


async def test_an_item_that_is_chosen_by_its_id_does_not_wait(queue: ReliableQueue) -> None:
    await enqueue(queue, "a")
    await queue.claim(1, wait=0)
    await queue.enqueue("chosen", id="chosen", exclusive_key="a")
    claim = await queue.claim_item("chosen")
    assert claim is not None


async def test_what_it_takes_to_know_the_keys_does_not_grow(queue: ReliableQueue, server: Server) -> None:
    for round_ in range(20):
        await enqueue(queue, *[f"k{round_}-{number}-" for number in range(100)])
        await queue.done(await queue.claim(100, wait=0))
    assert known_keys(server) < 500
    await queue.flush()
    assert known_keys(server) == 0


async def test_single_claims_forget_keys_too(queue: ReliableQueue, server: Server) -> None:
    for number in range(600):
        await queue.enqueue("x", exclusive_key=f"k{number}")
        await queue.done(await queue.claim(wait=0))
    assert known_keys(server) < 300  # one call in sixteen, by chance, removes some


async def test_a_busy_hash_of_another_type_loses_no_item(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    await enqueue(queue, "a", "a", "b")
    await other_worker.claim(1, wait=0)
    server.call("RENAME", "cq:{q}:busy:w2", "aside")
    server.call("SET", "cq:{q}:busy:w2", "x")
    assert sorted(await claimed(queue)) == ["a1", "b2"]  # the claim of the other worker is gone


async def test_keys_are_known_again_before_any_was_claimed(queue: ReliableQueue, server: Server) -> None:
    await enqueue(queue, "a", "a")
    server.call("HDEL", "cq:{q}:stats", "exclusive")
    await queue.reap()
    assert await claimed(queue) == ["a0"]


async def test_a_claim_is_refused_unchanged_where_the_keys_are_of_another_type(
    queue: ReliableQueue, server: Server
) -> None:
    await enqueue(queue, "a")
    server.call("SET", HASH, "x")
    with pytest.raises(claimq.StoreMisused, match="exclusive"):
        await queue.claim(wait=0)
    assert await queue.length() == 1


@pytest.mark.parametrize("key", ["", "two words", "x" * 129, "\u00fc"])
async def test_an_invalid_key_is_refused(queue: ReliableQueue, key: str) -> None:
    with pytest.raises(ValueError, match=r"exclusive_key is .*give 1 to 128 printable ASCII characters"):
        await queue.enqueue("x", exclusive_key=key)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_at_most_one_item_of_a_key_is_busy(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server, seed: int
) -> None:
    chance = random.Random(seed)
    await queue.set_policy(Policy(busy_expiry=5.0, requeue_limit=3, retry_delay=RetryDelay(initial=0.2)))
    held: list[Claim] = []
    with redis.Redis(unix_socket_path=str(server.unix_path)) as client:
        for _ in range(150):
            at = chance.choice((queue, other_worker))
            kind = chance.choice(("enqueue", "claim", "claim", "next", "end", "time"))
            if kind == "enqueue":
                options: dict[str, Any] = {
                    "client": chance.choice((None, "ann")),
                    "priority": chance.choice(("normal", "high")),
                    "size": chance.choice((0, 0, 0, 400_000)),
                }
                await enqueue(at, *chance.choices("abc", k=chance.randint(1, 4)), **options)
            elif kind == "claim":
                held += await at.claim(chance.randint(1, 5), wait=0)
            elif kind == "time":
                await move_clock(queue, chance.choice((0.05, 0.3, 6.0)))
            elif held:
                claim = held.pop(chance.randrange(len(held)))
                if kind == "next":
                    held += (await next_claims(at).done_and_claim(claim, chance.randint(1, 3)))[1]
                else:
                    end = chance.choice((at.done, at.requeue, at.unclaim, partial(at.fail, error="no")))
                    await end(claim)
            assert inconsistencies(read_queue(client, queue.name)) == []
    stats = await queue.stats()
    assert stats["enqueued"] == sum((await queue.lengths()).values()) + stats["done"]


async def test_a_call_removes_a_bounded_number_of_lost_lists_while_items_wait_for_a_key(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    """A claim goes on behind items that have to wait, and counts the clients whose lists are gone in all of that."""
    await queue.enqueue("first", exclusive_key="k")
    await other_worker.claim(1, wait=0)
    await queue.claim(wait=0)  # it knows the data from now on
    clients = [f"c{n}" for n in range(600)]
    await queue.enqueue_many(
        [
            NewItem("x", client=client, exclusive_key=None if n % 60 else "k")
            for n, client in enumerate(clients)
        ]
    )
    server.call("DEL", *(f"cq:{{q}}:main:{client}" for n, client in enumerate(clients) if n % 60))
    incarnation = queue._connection.incarnations[queue._keys.main]
    with queue._connection.lane() as identity:
        words: list[str | int] = [*identity, "w1", 1, "nonce-12", incarnation]
        reply = await queue._connection.run("claim", [queue._keys.main], words)
    assert reply == [b"AGAIN"]
    assert server.call("LLEN", "cq:{q}:clients") == 600 - 100 - 2
    assert await queue.claim(wait=0) == []
    assert server.call("LLEN", "cq:{q}:clients") == 0
