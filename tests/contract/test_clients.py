"""One client's items: how many wait, whether any does, and removing them all in one step."""

import asyncio

import pytest

import claimq
from claimq import ClientInfo, InvalidName, NewItem, ReliableQueue
from testkit.queues.looking import Lengths, lengths, texts, waiting
from testkit.servers.server import Server


async def fill(queue: ReliableQueue, count: int = 3) -> None:
    """So many items of each of two clients and of none."""
    for number in range(count):
        await queue.enqueue_many([NewItem(f"{name}{number}", client=name) for name in ("ann", "bob")])
        await queue.enqueue(f"none{number}")


async def test_a_client_s_items_are_counted_while_they_wait(queue: ReliableQueue) -> None:
    assert (await queue.client_length("ann"), await queue.has_client("ann")) == (0, False)
    await fill(queue)
    await queue.enqueue("later", client="ann", delay=60)
    assert (await queue.client_length("ann"), await queue.has_client("ann")) == (3, True)
    await queue.claim(9, wait=0)
    assert (await queue.client_length("ann"), await queue.has_client("ann")) == (0, False)


async def test_clients_with_items_are_listed_most_items_first(queue: ReliableQueue) -> None:
    assert await queue.clients() == []
    await fill(queue, 2)
    await queue.enqueue("more", client="bob")
    await queue.enqueue("later", client="cleo", delay=60)
    assert await queue.clients() == [ClientInfo("bob", 3), ClientInfo(None, 2), ClientInfo("ann", 2)]
    await queue.flush_client("ann")
    await queue.claim(9, wait=0)
    assert await queue.clients() == []


async def test_removing_a_client_leaves_all_others_in_order_and_the_length_right(
    queue: ReliableQueue,
) -> None:
    await fill(queue)
    (held,) = await queue.claim(1, wait=0)
    left = 3 - (held.item.client == "ann")
    assert await queue.flush_client("ann") == left
    assert await queue.flush_client("ann") == 0
    assert not await queue.has_client("ann")
    rest = [text for text in await waiting(queue) if not text.startswith("ann")]
    assert await waiting(queue) == rest
    assert await lengths(queue) == Lengths(main=len(rest), busy=1)
    stats = await queue.stats()
    assert (stats["enqueued"], stats["flushed"]) == (9, left)
    await queue.unclaim(held)
    assert await queue.length() == len(rest) + 1
    assert sorted(texts(await queue.claim(9, wait=0))) == sorted([*rest, held.item.text])
    assert (await queue.length(), await queue.age()) == (0, None)


async def test_a_removed_client_s_items_in_other_states_stay(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(payload, client="ann") for payload in "abc"])
    first, second = await queue.claim(2, wait=0)
    await queue.fail(first, "no", permanent=True)
    await queue.enqueue("later", client="ann", delay=60)
    assert await queue.flush_client("ann") == 1
    assert await lengths(queue) == Lengths(busy=1, delayed=1, failed=1)
    await queue.requeue(second)
    assert await queue.client_length("ann") == 1


async def test_a_removed_client_enqueues_again_and_takes_its_turn(queue: ReliableQueue) -> None:
    await fill(queue, 2)
    await queue.flush_client("ann")
    await queue.enqueue("again", client="ann")
    assert sorted(texts(await queue.claim(9, wait=0))) == ["again", "bob0", "bob1", "none0", "none1"]
    assert await queue.length() == 0


async def test_the_only_client_is_removed_and_leaves_nothing(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(str(number), client="ann") for number in range(2000)])
    assert await queue.flush_client("ann") == 2000
    assert await lengths(queue) == Lengths()
    assert server.call("EXISTS", "cq:{q}:main:ann", "cq:{q}:clients", "cq:{q}:heads") == 0
    assert server.call("HGET", "cq:{q}:stats", "client_items") == b"0"
    assert await queue.claim(1, wait=0) == []


async def test_claims_and_removals_at_once_count_every_item_once(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem(str(number), client="ann") for number in range(300)])
    claiming = asyncio.ensure_future(queue.claim(100, wait=0))
    removed = await asyncio.gather(*(store.queue("q").flush_client("ann") for _ in range(3)))
    claims = await claiming
    assert len(claims) + sum(removed) == 300
    assert await lengths(queue) == Lengths(busy=len(claims))


@pytest.mark.parametrize("client", ["", "-", "a b", "x" * 129])
async def test_a_client_that_cannot_be_is_refused(queue: ReliableQueue, client: str) -> None:
    for ask in (queue.client_length, queue.has_client, queue.flush_client):
        with pytest.raises(InvalidName):
            await ask(client)


async def test_a_client_of_other_characters_breaks_no_search(server: Server, queue: ReliableQueue) -> None:
    """Another client wrote it into the ring; the library and the scripts make no such names."""
    await queue.enqueue(NewItem("x", id="there", client="ann").payload, id="there", client="ann")
    server.call("ZADD", "cq:{q}:clients", 8, b"caf\xc3\xa9", 9, b"\xff\xfe")
    assert (await queue.find("there")) is not None
    assert await queue.find("absent") is None
    assert (await queue.memory_usage()).queue_bytes > 0
