"""What people look at: lists without large payloads, the longest claims, a search with a bound."""

import pytest

from claimq import NewItem, ReliableQueue, State
from claimq.errors import SearchEnded
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.queues.script_calls import run
from testkit.servers.server import Server


@pytest.mark.parametrize("state", State)
async def test_a_list_leaves_out_payloads_that_are_larger_than_its_limit(
    queue: ReliableQueue, state: State
) -> None:
    delay = 60 if state is State.DELAYED else None
    await queue.enqueue_many(
        [NewItem(b"x" * size, id=str(size), client="ann", delay=delay) for size in (10, 11, 0)]
    )
    if state in (State.BUSY, State.FAILED):
        claims = await queue.claim(9, wait=0)
        if state is State.FAILED:
            await queue.fail(claims, "no", permanent=True)
    rows = await queue.items(state, payload_limit=10)
    shown = {row.item.id: (row.item.payload, row.payload_size, row.item.client) for row in rows}
    assert shown == {"10": (b"x" * 10, None, "ann"), "11": (b"", 11, "ann"), "0": (b"", None, "ann")}
    assert sorted(row.item.payload for row in await queue.items(state)) == [b"", b"x" * 10, b"x" * 11]


async def test_a_list_leaves_out_payloads_beyond_768_kib_in_all(queue: ReliableQueue) -> None:
    await queue.enqueue_many([b"x" * 100_000] * 9)
    rows = await queue.items(State.MAIN, payload_limit=2**20)
    assert [row.payload_size for row in rows] == [*[None] * 7, 100_000, 100_000]


@pytest.mark.parametrize("state", [State.BUSY, State.DELAYED, State.FAILED, State.MAIN])
async def test_a_list_for_people_ends_after_3_mib(queue: ReliableQueue, state: State) -> None:
    delay = 60 if state is State.DELAYED else None
    await queue.enqueue_many([NewItem(b"x" * 2**20, delay=delay)] * 10)
    while state in (State.BUSY, State.FAILED) and (claims := await queue.claim(10, wait=0)):
        if state is State.FAILED:
            await queue.fail(claims, "no", permanent=True)
    assert len(await queue.items(state, 50, payload_limit=100)) == 3
    assert len(await queue.items(state, 50)) == 10
    if state is State.BUSY:
        assert len(await queue.longest_claims(50, payload_limit=100)) == 3


async def test_a_list_continues_with_small_items_after_large_ones(queue: ReliableQueue) -> None:
    await queue.enqueue_many([*[b"x" * 2**20] * 2, *[b"small"] * 60])
    assert len(await queue.items(State.MAIN, 50, payload_limit=100)) == 50


async def test_the_size_of_a_bare_payload_is_shown_without_it(server: Server, queue: ReliableQueue) -> None:
    server.call("LPUSH", "cq:{q}:main", "bare")
    (row,) = await queue.items(State.MAIN, payload_limit=3)
    assert (row.item.id, row.item.payload, row.payload_size) == ("bare-", b"", 4)


async def test_only_items_in_main_are_listed_by_client(queue: ReliableQueue) -> None:
    with pytest.raises(ValueError, match="client: only the items in main"):
        await queue.items(State.BUSY, client="ann")


async def test_the_longest_claims_come_first_whenever_their_leases_end(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcdef"))
    first = await queue.claim(3, wait=0)
    await move_clock(queue, 10)
    second = await other_worker.claim(3, wait=0)
    await queue.renew(first)
    await queue.done(first[1])
    assert texts(await queue.longest_claims()) == ["a", "c", "d", "e", "f"]
    rows = await queue.longest_claims(3, payload_limit=0)
    assert [(row.item.id, row.payload_size) for row in rows] == [
        (claim.item.id, 1) for claim in (first[0], first[2], second[0])
    ]
    assert [row.name for row in rows] == [first[0].token, first[2].token, second[0].token]
    assert [row.claimed_at for row in rows] == pytest.approx(
        [first[0].claimed_at, first[0].claimed_at, second[0].claimed_at], abs=0.002
    )
    assert await queue.longest_claims(0) == []


async def test_claims_that_no_logged_call_has_come_last(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    await queue.claim(1, wait=0)
    server.call("DEL", "cq:{q}:claims")
    await queue.claim(1, wait=0)
    assert [(row.item.text, row.claimed_at is None) for row in await queue.longest_claims()] == [
        ("b", False), ("a", True),
    ]  # fmt: skip


async def test_the_longest_of_many_claims_take_one_call(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 600)
    claims = [(await queue.claim(1, wait=0))[0] for _ in range(600)]
    await queue.done(claims[:500])
    rows = await queue.longest_claims(50)
    assert [row.name for row in rows] == [claim.token for claim in claims[500:550]]
    more, rank, skip, *_ = await run(queue, "longest", 0, 0, 50)
    assert (more, rank, skip) == (1, b"549", b"1")


async def test_a_search_of_many_clients_takes_few_calls(server: Server, queue: ReliableQueue) -> None:
    for start in range(0, 2_000, 1000):
        await queue.enqueue_many(
            [NewItem("x", id=f"i{n}", client=f"c{n}") for n in range(start, start + 1000)]
        )
    clients = [f"c{n}" for n in range(1000)]
    assert await run(queue, "find", "none", "main", 0, 1000, *clients) == [b"NEXT", 999, 1]
    assert (await run(queue, "find", "i999", "main", 0, 1000, *clients))[:3] == [b"FOUND", 999, 0]
    found = await queue.find("i1777")
    assert found is not None
    assert found.item.client == "c1777"


@pytest.mark.parametrize("state", [State.BUSY, State.DELAYED, State.MAIN])
async def test_a_search_of_the_first_items_says_that_there_are_more(
    queue: ReliableQueue, state: State
) -> None:
    delay = 60 if state is State.DELAYED else None
    await queue.enqueue_many([NewItem("x", id=f"i{n}", delay=delay) for n in range(501)])
    if state is State.BUSY:
        await queue.claim(501, wait=0)
    near = await queue.find("i499", everywhere=False)
    assert near is not None
    await queue.enqueue_many([NewItem("x", id=f"i{n}", delay=delay) for n in range(501, 600)])
    if state is State.BUSY:
        await queue.claim(99, wait=0)
    with pytest.raises(SearchEnded, match=r"i599 is not among the first 500 items of q .* all 600 of them"):
        await queue.find("i599", everywhere=False)
    far = await queue.find("i599")
    assert far is not None
    assert (near.state, far.state) == (state, state)


async def test_a_search_of_the_first_items_of_a_short_queue_is_complete(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 500)
    assert await queue.find("none", everywhere=False) is None


async def test_a_search_of_the_first_items_takes_the_clients_in_turn(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("x", id=f"i{n}", client=f"c{n}") for n in range(600)])
    assert await queue.find("i499", everywhere=False) is not None
    with pytest.raises(SearchEnded):
        await queue.find("i599", everywhere=False)
    await queue.claim(200, wait=0)
    assert await queue.find("i599", everywhere=False) is not None
