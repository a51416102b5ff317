"""Repair of the ring of clients, the index of their heads and the count of their items, a bounded piece at a time."""

import pytest

from claimq import NewItem, ReliableQueue, State
from testkit.clock import move_clock
from testkit.looking import texts
from testkit.script_calls import claim_once, run
from testkit.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def test_a_client_whose_list_was_deleted_leaves_the_ring_and_stops_no_other(
    server: Server, queue: ReliableQueue
) -> None:
    for client in ("ann", "bob", "cid"):
        await queue.enqueue_many([NewItem(f"{client}{n}", client=client) for n in range(2)])
    server.call("DEL", "cq:{q}:main:bob")
    got: list[str] = []
    while claims := await queue.claim(2, wait=0):
        got += texts(claims)
    assert sorted(got) == ["ann0", "ann1", "cid0", "cid1"]


async def test_a_lost_ring_of_clients_is_made_again(queue: ReliableQueue, server: Server) -> None:
    clients = [f"c{number}" for number in range(5)]
    await queue.enqueue_many(["plain", *(NewItem(client, client=client) for client in clients)])
    await queue.unclaim(await queue.claim(1, wait=0))
    server.call("DEL", "cq:{q}:clients")
    for _ in range(4):
        await queue.reap(3)
    got = [claim.item.text for claim in await queue.claim(10, wait=0)]
    assert sorted(got) == [*clients, "plain"]


async def test_a_lost_list_of_a_client_is_no_longer_counted(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many([NewItem("x", client=client) for client in "aab"])
    server.call("DEL", "cq:{q}:main:a")
    assert await queue.length() == 3
    await queue.reap()
    assert await queue.length() == 1
    server.call("DEL", "cq:{q}:main:b", "cq:{q}:clients", "cq:{q}:heads")
    await queue.reap()
    assert await queue.length() == 0


async def test_lost_lists_among_many_clients_are_no_longer_counted(
    queue: ReliableQueue, server: Server
) -> None:
    """The clients are counted in several calls, so that none takes long; items may come in between."""
    for start in range(0, 3_000, 1_000):
        await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(start, start + 1_000)])
    await queue.enqueue_many([NewItem("x", client="c7")] * 9)
    server.call("DEL", "cq:{q}:main:c7", "cq:{q}:main:c2999")
    assert await queue.length() == 3_009
    await queue.reap()
    assert await queue.length() == 3_009
    await queue.enqueue_many([NewItem("x", client="late")] * 3)
    for _ in range(12):
        await queue.reap()
    assert await queue.length() == 2_998 + 3
    assert len(await queue.peek(4_000)) == 3_001


async def test_a_lost_count_of_the_items_of_many_clients_is_made_again(
    queue: ReliableQueue, server: Server
) -> None:
    """It is exact once no item arrives during a count."""
    for begin in (0, 1000):
        await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(begin, begin + 1000)])
    server.call("DEL", "cq:{q}:stats")
    for number in range(20):
        await queue.enqueue("x", client=f"n{number}")
        await queue.reap()
    assert 2000 <= await queue.length() <= 2020
    for _ in range(12):
        await queue.reap()
    assert await queue.length() == 2020
    claimed = 0
    while claims := await queue.claim(1000, wait=0):
        claimed += len(claims)
        await queue.done(claims)
    assert claimed == 2020
    assert await queue.length() == 0


async def test_items_that_go_to_wait_for_a_key_do_not_disturb_the_count_of_many_clients(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    clients = [(f"c{n}", "k" if n < 150 else None) for n in range(2_000)]
    for begin in (0, 1000):
        await queue.enqueue_many(
            [NewItem("x", client=one, exclusive_key=key) for one, key in clients[begin : begin + 1000]]
        )
    await other_worker.claim(1, wait=0)
    await queue.reap()
    assert await claim_once(queue, server, 1) == [
        b"AGAIN"
    ]  # a hundred wait for the key now, and none was claimed
    for _ in range(6):
        await queue.reap()
        assert await queue.length() == 2_000 - 1 - 100


async def test_many_clients_are_not_counted_by_an_index_that_lacks_some(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(1_000)])
    await queue.enqueue_many([NewItem("x", client=f"d{n}") for n in range(1_000)])
    server.call("DEL", "cq:{q}:heads")
    for _ in range(6):
        await queue.reap()
    assert await queue.length() == 2_000


async def test_a_lost_count_of_the_items_of_some_hundred_clients_is_made_again(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(300) for _ in range(2)])
    server.call("DEL", "cq:{q}:stats")
    for _ in range(3):
        await queue.reap()
    assert await queue.length() == 600


async def test_a_lost_ring_of_some_hundred_clients_is_made_again_in_steps(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(300) for _ in range(2)])
    server.call("ZADD", "cq:{q}:heads", *(word for n in range(300) for word in (1, f"gone-{n}")))
    server.call("DEL", "cq:{q}:clients", "cq:{q}:stats")
    changes: list[int] = []
    for _ in range(4):
        ring, heads = _length(server, "clients"), _length(server, "heads")
        await run(queue, "repair", 256)
        changes.append(_length(server, "clients") - ring + heads - _length(server, "heads"))
    assert changes == [256, 256, 88, 0]
    assert await queue.length() == 600
    assert len(await queue.peek(1_000)) == 600


def _length(server: Server, part: str) -> int:
    length = server.call("LLEN" if part == "clients" else "ZCARD", f"cq:{{q}}:{part}")
    assert isinstance(length, int)
    return length


@pytest.mark.parametrize("way", ["enqueue", "requeue", "due"])
async def test_a_client_whose_ring_and_index_are_lost_returns_with_its_next_item(
    queue: ReliableQueue, server: Server, way: str
) -> None:
    """Nothing else names its list. No command of the documented rights lists the keys of a queue."""
    await queue.enqueue_many([NewItem(text, client="ann") for text in "abc"])
    (claim,) = await queue.claim(1, wait=0)
    await queue.enqueue("d", client="ann", delay=5)
    await queue.enqueue("e", client="bob")
    server.call("DEL", "cq:{q}:clients", "cq:{q}:heads")
    await queue.enqueue("f", client="bob")
    if way == "enqueue":
        await queue.enqueue("g", client="ann")
    if way == "requeue":
        await queue.requeue(claim)
    if way == "due":
        await move_clock(queue, 6)
    for _ in range(2):
        await queue.reap()
    new = {"enqueue": "g", "requeue": "a", "due": "d"}[way]
    assert sorted(texts(await queue.claim(9, wait=0))) == sorted(f"bcef{new}")
    assert await queue.length() == 0


async def test_a_lost_index_alone_is_made_again_and_no_client_is_in_the_ring_twice(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many([NewItem("x", client=client) for client in "aabb"])
    server.call("DEL", "cq:{q}:heads")
    for client in "ab":
        await queue.enqueue("x", client=client)
        await queue.reap()
    assert (_length(server, "clients"), _length(server, "heads")) == (2, 2)


@pytest.mark.parametrize("verb", ["flush", "delete"])
async def test_clients_that_the_ring_has_lost_are_removed_with_the_others(
    queue: ReliableQueue, server: Server, verb: str
) -> None:
    for begin in range(0, 1200, 600):
        items = [
            NewItem("x", client=f"c{n}", priority="low" if n % 2 else "normal")
            for n in range(begin, begin + 600)
        ]
        await queue.enqueue_many(items)
    server.call("DEL", "cq:{q}:clients")
    await queue.enqueue("x", client="late")
    removed = await (queue.flush() if verb == "flush" else queue.delete())
    assert removed is not None
    assert removed[State.MAIN] == 1201
    assert server.call("KEYS", "cq:{q}:main*") == server.call("KEYS", "cq:{q}:low*") == []
    assert await queue.length() == 0


async def test_a_lost_ring_of_more_than_ten_thousand_clients_is_made_again(
    queue: ReliableQueue, server: Server
) -> None:
    """A repair reads a ring of up to 10,000 clients; to a longer one it adds clients that may be in it."""
    for begin in range(0, 10_500, 500):
        await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(begin, begin + 500)])
    server.call("DEL", "cq:{q}:clients")
    server.call("ZADD", "cq:{q}:heads", 1, "gone", 10**12 + 1, "gone-too")
    await queue.enqueue("x", client="late")
    for _ in range(50):
        await run(queue, "repair", 256)
    ring = server.call("LRANGE", "cq:{q}:clients", 0, -1)
    assert isinstance(ring, list)
    assert len(set(map(str, ring))) == _length(server, "heads") == 10_501
    assert len(ring) <= 10_501 + 256
