"""Keys: of the items with the same key at most one is busy; the others start one by one in the order of arrival."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any

import pytest
import redis
import redis.asyncio

import claimq
from claimq import NewItem, Policy, Priority, ReliableQueue, State, Verdict
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from testkit.plugin import ServerFactory
from testkit.queues.clock import move_clock
from testkit.queues.frozen_clock import BEGIN_MS, FrozenClock
from testkit.queues.looking import claimed
from testkit.queues.script_calls import claim_once
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

pytestmark = pytest.mark.frozen_clock(True)
LEASE = 30.0
HASH = "cq:{q}:keys"


async def enqueue(queue: ReliableQueue, *keys: str, size: int = 0, **options: Any) -> None:
    """Items whose text is their key and a number, filled up to ``size`` characters."""
    texts = [f"{key}{number}".ljust(size) for number, key in enumerate(keys)]
    items = [NewItem(text, key=key, **options) for text, key in zip(texts, keys, strict=True)]
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


async def test_of_the_items_with_a_key_one_call_claims_one(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a", "b", "a", "b")
    await queue.enqueue("without")
    claims = await queue.claim(10, wait=0)
    assert [claim.item.text for claim in claims] == ["a0", "b2", "without"]
    assert [claim.item.key for claim in claims] == ["a", "b", None]
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
            key="k" if place in places else None,
            client=f"c{place}" if has_clients else None,
        )
        for place in range(4)
    )
    claims = {claim.item.text: claim for claim in await queue.claim(4, wait=0)}
    assert list(claims) == [f"{place}" for place in range(4) if place != second]
    holder = claims.pop(f"{first}")
    await queue.done(list(claims.values()))  # frees no key
    assert await claimed(queue) == []
    await queue.done(holder)
    assert await claimed(queue) == [f"{second}"]


async def test_the_others_follow_one_by_one_when_the_claim_has_ended(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a", "a")
    for expected in ("a0", "a1", "a2"):
        (claim,) = await queue.claim(10, wait=0)
        assert claim.item.text == expected
        assert await claimed(queue) == []
        await queue.done(claim)


ENDS: dict[str, Callable[[ReliableQueue, Claim], Awaitable[object]]] = {
    "done": lambda queue, claim: queue.done(claim),
    "done and enqueue": lambda queue, claim: queue.done(claim, enqueue=[NewItem("next", delay=9)]),
    "fail": lambda queue, claim: queue.fail(claim, "no", permanent=True),
    "retry": lambda queue, claim: queue.fail(claim, "no", delay=60),
    "requeue": lambda queue, claim: queue.requeue(claim),
    "later": lambda queue, claim: queue.later(claim, 60),
    "drop": lambda queue, claim: queue.drop(claim, "no"),
    "release": lambda queue, _: queue.release_worker("w1"),
    "lease": lambda queue, _: move_clock(queue, LEASE + 1),
}


@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("options", [{}, {"client": "ann"}, {"priority": Priority.LOW}], ids=str)
async def test_the_end_of_a_claim_lets_the_next_item_go_at_once(
    queue: ReliableQueue, end: str, options: dict[str, Any]
) -> None:
    await queue.set_policy(Policy(busy_expiry=LEASE, requeue_limit=3))
    await enqueue(queue, "a", "a", "a", **options)
    await enqueue(queue, "b", **options)
    claim, _ = await queue.claim(10, wait=0)
    assert (await queue.lengths())[State.DELAYED] == 2
    await ENDS[end](queue, claim)
    if end == "lease":
        await queue.reap()
    assert next(iter(await claimed(queue))) == "a1"


async def test_a_waiting_claim_gets_the_next_item_at_the_end_of_the_last_one(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(claim_wait_timeout=3600))
    await enqueue(queue, "a", "a")
    (claim,) = await queue.claim(10, wait=0)
    assert await claimed(other_worker) == []
    async with asyncio.timeout(PATIENCE):
        waiting = asyncio.create_task(other_worker.claim(wait=3600))
        await queue.done(claim)
        assert [one.item.text for one in await waiting] == ["a1"]


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\\", "a/b", '"key":"x"'])
async def test_any_text_is_a_key(queue: ReliableQueue, key: str) -> None:
    await queue.enqueue_many([NewItem(name, key=key) for name in "ab"])
    (claim,) = await queue.claim(10, wait=0)
    await queue.requeue(claim)  # a script has written the item's header again
    assert await claimed(queue) == ["b"]
    await queue.release_worker("w1")
    (claim,) = await queue.claim(1, wait=0)
    assert await claimed(queue) == []
    await queue.done(claim)
    assert len(await claimed(queue)) == 1


async def test_a_held_item_has_no_due_time_and_is_found(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a")
    await queue.claim(10, wait=0)
    (row,) = await queue.items(State.DELAYED)
    assert (row.item.text, row.due_at) == ("a1", None)
    found = await queue.find(row.item.id)
    assert found is not None
    assert (found.state, found.due_at) == (State.DELAYED, None)
    assert (await queue.snapshot()).next_due_in is None


async def test_an_item_that_is_free_again_stands_in_its_place(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    """Behind what was claimed before it, and before what comes later."""
    await queue.enqueue("first")
    await enqueue(queue, "a", "a", "b")
    first, claim = await queue.claim(2, wait=0)
    assert await claimed(other_worker, 1) == ["b2"]
    await queue.enqueue("last")
    await queue.done(claim)
    await queue.unclaim(first)
    assert [item.text for item in await queue.peek(9)] == ["first", "a1", "last"]


async def test_an_item_chosen_by_its_id_counts_for_its_key(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await enqueue(queue, "a", "a", "a")
    (first,) = await queue.claim(1, wait=0)
    assert await claimed(other_worker) == []
    chosen = await other_worker.claim_item((await queue.items(State.DELAYED))[0].item.id)
    assert chosen is not None
    await queue.done(first)
    assert await claimed(queue) == []
    await other_worker.done(chosen)
    assert await claimed(queue) == ["a2"]


async def test_held_items_go_on_when_the_next_one_was_flushed_with_its_client(queue: ReliableQueue) -> None:
    await enqueue(queue, "a", "a", client="ann")
    await queue.enqueue("other", key="a", client="bob")
    (claim,) = await queue.claim(10, wait=0)
    await queue.done(claim)
    assert await queue.flush_client("ann" if claim.item.client == "ann" else "bob") <= 1
    assert len(await claimed(queue)) == 1


@pytest.mark.parametrize("lost", ["busy:w1", "keys", "held"])
async def test_held_items_go_on_after_the_loss_of_a_key(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server, lost: str
) -> None:
    await enqueue(queue, *"aaabbb")
    held = await queue.claim(10, wait=0)
    assert await claimed(other_worker) == []
    server.call("DEL", f"cq:{{q}}:{lost}")
    for _ in range(2):
        await queue.reap()
        await queue.done(held)
    assert sorted(await claimed(other_worker)) == ["a1", "b4"]


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


async def test_keys_are_known_again_when_the_counters_were_lost(queue: ReliableQueue, server: Server) -> None:
    await enqueue(queue, "a", "a")
    await queue.claim(1, wait=0)
    server.call("HDEL", "cq:{q}:stats", "keys")
    await queue.reap()
    assert await claimed(queue) == []


@pytest.mark.parametrize("options", [{"client": "ann"}, {"priority": Priority.HIGH}])
async def test_it_holds_across_clients_and_priorities(queue: ReliableQueue, options: dict[str, Any]) -> None:
    await enqueue(queue, "a")
    await enqueue(queue, "a", "b", **options)
    claims = await queue.claim(10, wait=0)
    assert sorted(claim.item.key or "" for claim in claims) == ["a", "b"]


async def test_an_item_that_is_chosen_by_its_id_does_not_wait(queue: ReliableQueue) -> None:
    await enqueue(queue, "a")
    await queue.claim(1, wait=0)
    await queue.enqueue("chosen", id="chosen", key="a")
    claim = await queue.claim_item("chosen")
    assert claim is not None


async def test_what_it_takes_to_know_the_keys_does_not_grow(queue: ReliableQueue, server: Server) -> None:
    for round_ in range(20):
        await enqueue(queue, *[f"k{round_}-{number}-" for number in range(100)])
        await queue.done(await queue.claim(100, wait=0))
    assert known_keys(server) == 1  # the mark of a queue with keys
    await queue.flush()
    assert known_keys(server) == 0


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
    server.call("HDEL", "cq:{q}:stats", "keys")
    await queue.reap()
    assert await claimed(queue) == ["a0"]


async def test_a_claim_is_refused_unchanged_where_the_keys_are_of_another_type(
    queue: ReliableQueue, server: Server
) -> None:
    await enqueue(queue, "a")
    server.call("SET", HASH, "x")
    with pytest.raises(claimq.StoreMisused, match="keys"):
        await queue.claim(wait=0)
    assert await queue.length() == 1


@pytest.mark.parametrize("key", ["", "two words", "x" * 129, "\u00fc"])
async def test_an_invalid_key_is_refused(queue: ReliableQueue, key: str) -> None:
    with pytest.raises(ValueError, match=r"key is .*give 1 to 128 printable ASCII characters"):
        await queue.enqueue("x", key=key)


async def test_a_call_removes_a_bounded_number_of_lost_lists_while_items_wait_for_a_key(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    """A claim goes on behind items that have to wait, and counts the clients whose lists are gone in all of that."""
    await queue.enqueue("first", key="k")
    await other_worker.claim(1, wait=0)
    await queue.claim(wait=0)  # it knows the data from now on
    clients = [f"c{n}" for n in range(600)]
    await queue.enqueue_many(
        [NewItem("x", client=client, key=None if n % 60 else "k") for n, client in enumerate(clients)]
    )
    server.call("DEL", *(f"cq:{{q}}:main:{client}" for n, client in enumerate(clients) if n % 60))
    incarnation = queue._connection.incarnations[queue._keys.main]
    with queue._connection.lanes.new_call() as identity:
        words: list[str | int] = [*identity, "w1", 1, "nonce-12", incarnation]
        reply = await queue._connection.run("claim", [queue._keys.main], words)
    assert reply == [b"AGAIN"]
    assert server.call("ZCARD", "cq:{q}:clients") == 600 - 100 - 2
    assert await queue.claim(wait=0) == []
    assert server.call("ZCARD", "cq:{q}:clients") == 0


@pytest.mark.parametrize(
    "item",
    [NewItem("1", id='a"key":"b"', key="k"), NewItem("1", client='a"key":"b"', key="k")],
    ids=["id", "client"],
)
async def test_an_id_or_client_that_looks_like_a_key_is_none(queue: ReliableQueue, item: NewItem) -> None:
    await queue.enqueue_many([item, NewItem("2", key="k")])
    first = await queue.claim(2, wait=0)
    assert [claim.item.text for claim in first] == ["1"]
    await queue.done(first)
    assert [claim.item.text for claim in await queue.claim(2, wait=0)] == ["2"]
