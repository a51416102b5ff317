"""Claiming one item by its id, wherever it waits."""

from __future__ import annotations

from typing import Any

import pytest

import claimq
from claimq import Claim, ItemOutOfReach, NewItem, ReliableQueue, State, Verdict
from claimq.errors import StoreMisused
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts
from testkit.servers.contents import contents
from testkit.servers.server import Server

CLIENTS = (None, "ann", "bob")


@pytest.fixture
async def mixed(queue: ReliableQueue) -> ReliableQueue:
    """Five items of each of two clients and of none, and three that are delayed."""
    await queue.enqueue_many(
        [NewItem(f"{client}-{n}", id=f"{client}-{n}", client=client) for n in range(5) for client in CLIENTS]
    )
    await queue.enqueue_many([NewItem("later", id=f"later-{n}", delay=60) for n in range(3)])
    return queue


async def claimed(queue: ReliableQueue, wanted: str) -> Claim:
    claim = await queue.claim_item(wanted)
    assert claim is not None
    return claim


async def rest_of(queue: ReliableQueue, client: str | None) -> list[str]:
    return [item.id for item in await queue.peek(100) if item.client == client]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("place", [0, 2, 4])
async def test_any_item_of_main_can_be_claimed_and_the_others_keep_their_order(
    mixed: ReliableQueue, client: str | None, place: int
) -> None:
    claim = await claimed(mixed, f"{client}-{place}")

    assert (claim.item.text, claim.item.client, claim.worker) == (f"{client}-{place}", client, mixed.worker)
    assert claim.lease_until > claim.claimed_at
    assert await rest_of(mixed, client) == [f"{client}-{n}" for n in range(5) if n != place]
    assert await lengths(mixed) == Lengths(main=14, busy=1, delayed=3)
    assert [outcome.verdict for outcome in await mixed.done(claim)] == [Verdict.DONE]


@pytest.mark.parametrize("position", [2, 0, 400])
async def test_an_item_is_claimed_from_the_state_where_it_was_found_and_no_other(
    mixed: ReliableQueue, position: int
) -> None:
    waiting, later = await mixed.find("ann-2"), await mixed.find("later-1")
    assert waiting
    assert later
    for found in (waiting, later):
        claim = await mixed.claim_item(found.item.id, located=found, position=position)
        assert claim is not None
        assert claim.item.id == found.item.id
        await mixed.requeue(claim)
    assert await mixed.claim_item("later-1", located=later, position=position) is None
    assert await lengths(mixed) == Lengths(main=16, delayed=2)


async def test_a_delayed_item_can_be_claimed_before_it_is_due(mixed: ReliableQueue) -> None:
    claim = await claimed(mixed, "later-1")

    assert await lengths(mixed) == Lengths(main=15, busy=1, delayed=2)
    assert [located.item.id for located in await mixed.items("delayed")] == ["later-0", "later-2"]
    await mixed.unclaim(claim, why="run now")
    assert (await rest_of(mixed, None))[0] == "later-1"


async def test_an_item_that_is_claimed_or_failed_or_unknown_is_not_claimed(mixed: ReliableQueue) -> None:
    await mixed.fail(await claimed(mixed, "ann-0"), "no", permanent=True)
    await claimed(mixed, "ann-1")

    assert [await mixed.claim_item(wanted) for wanted in ("ann-0", "ann-1", "ann-", "ann-11")] == [None] * 4
    assert await lengths(mixed) == Lengths(main=13, busy=1, delayed=3, failed=1)


async def test_the_last_item_of_a_client_takes_the_client_with_it(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(name, id=name, client=name) for name in ("a", "b", "c")])

    await queue.unclaim(await claimed(queue, "b"))
    await claimed(queue, "b")
    await claimed(queue, "c")

    assert [info.client for info in await queue.clients()] == ["a"]
    assert [claim.item.id for claim in await queue.claim(9, wait=0)] == ["a"]
    assert await queue.length() == 0
    await queue.enqueue("again", client="b")
    assert texts(await queue.claim(9, wait=0)) == ["again"]


async def test_a_paused_queue_gives_out_the_chosen_item_alone(mixed: ReliableQueue) -> None:
    await mixed.pause()
    assert (await claimed(mixed, "bob-3")).item.id == "bob-3"
    assert await mixed.claim(wait=0) == []


async def test_an_item_that_moves_during_the_search_is_found_again(
    mixed: ReliableQueue, store: claimq.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mixed.enqueue_many([NewItem("x", id=f"none-{n}") for n in range(400)])
    run, moved = mixed._connection.run, list[str]()

    async def run_late(name: str, *args: Any, **options: Any) -> Any:
        if name == "claim_item" and not moved:
            moved.append(name)
            other = store.queue(mixed.name, worker="other")
            await other.done([claim for _ in range(3) for claim in await other.claim(100, wait=0)])
        return await run(name, *args, **options)

    monkeypatch.setattr(mixed._connection, "run", run_late)

    assert (await claimed(mixed, "none-390")).item.id == "none-390"
    assert moved == ["claim_item"]


async def test_an_item_that_another_worker_claims_first_is_left_to_it(
    mixed: ReliableQueue, store: claimq.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = mixed._connection.run

    async def run_late(name: str, *args: Any, **options: Any) -> Any:
        if name == "claim_item":
            await store.queue(mixed.name, worker="other").claim(100, wait=0)
        return await run(name, *args, **options)

    monkeypatch.setattr(mixed._connection, "run", run_late)

    assert await mixed.claim_item("ann-2") is None
    assert await lengths(mixed) == Lengths(main=0, busy=15, delayed=3)


@pytest.mark.frozen_clock(True)
async def test_the_lease_decides_if_no_verdict_comes(mixed: ReliableQueue) -> None:
    await claimed(mixed, "ann-4")
    await move_clock(mixed, 31)
    await mixed.reap()
    assert (await rest_of(mixed, "ann"))[-1] == "ann-4"
    found = await mixed.find("ann-4")
    assert found is not None
    assert (found.state, found.item.crash_count) == (State.MAIN, 1)


async def test_a_large_item_is_found_behind_others_as_large(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(b"x" * 2**20, id=f"large-{n}") for n in range(6)])
    assert (await claimed(queue, "large-3")).item.id == "large-3"
    assert [item.id for item in await queue.peek(9)] == [
        "large-0",
        "large-1",
        "large-2",
        "large-4",
        "large-5",
    ]


@pytest.mark.servers("valkey")
async def test_an_item_deep_inside_a_list_is_refused_until_it_is_nearer(queue: ReliableQueue) -> None:
    await queue.enqueue_many([b""] * 100_001)
    await queue.enqueue("deep", id="deep")
    await queue.enqueue_many([b""] * 100_001)
    refused = "100,001 items of q are between the item deep and the nearer end of its list"
    with pytest.raises(ItemOutOfReach, match=refused):
        await queue.claim_item("deep")
    assert await lengths(queue) == Lengths(main=200_003)
    await queue.done(await queue.claim(1, wait=0))
    assert (await claimed(queue, "deep")).item.text == "deep"


@pytest.mark.parametrize("part", ["wake", "heads", "busy:w1"])
async def test_a_key_of_another_type_refuses_the_claim_and_nothing_changes(
    server: Server, mixed: ReliableQueue, part: str
) -> None:
    server.call("DEL", mixed._keys[part])
    server.call("SET", mixed._keys[part], "text")
    before = contents(server)
    with pytest.raises(StoreMisused):
        await mixed.claim_item("ann-2")
    assert contents(server) == before


async def test_a_ring_of_another_type_loses_no_item_without_a_client(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem("a", client="ann"), NewItem("b", client="bob"), NewItem("x", id="x")])
    await queue.claim(1, wait=0)  # main joins the ring
    found = await queue.find("x")
    assert found
    server.call("SET", "cq:{q}:clients", "text")
    before = contents(server)
    with pytest.raises(StoreMisused):
        await queue.claim_item("x", located=found)
    assert contents(server) == before
