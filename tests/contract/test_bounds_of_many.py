"""One call handles a bounded number of claims, clients, workers and bytes to free; its caller makes more calls."""

from __future__ import annotations

import re

import pytest

import claimq
from claimq import Claim, Done, FailedPolicy, NewItem, Policy, ReliableQueue, State, StoreMisused, Verdict
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from testkit.queues.looking import Lengths, lengths, texts
from testkit.queues.script_calls import call, run
from testkit.servers.contents import contents
from testkit.servers.server import Server

CLIENTS = 1_300
MIB = 2**20


@pytest.fixture
async def crowded(queue: ReliableQueue) -> ReliableQueue:
    """Two items of each of many clients, five of none, and 1,200 claims."""
    names = [f"c{number}" for number in range(CLIENTS)]
    for _ in range(2):
        for start in range(0, CLIENTS, 650):
            await queue.enqueue_many([NewItem(name, client=name) for name in names[start : start + 650]])
    held = 0
    while held < 1200:
        held += len(await queue.claim(400, wait=0))
    await queue.enqueue_many(["none"] * 5)
    await queue.enqueue_many([NewItem("later", delay=60)] * 3)
    return queue


LEFT = 2 * CLIENTS - 1200 + 5


def calls_of_scripts(server: Server) -> int:
    stats = server.call("INFO", "commandstats")
    assert isinstance(stats, bytes)
    return sum(int(calls) for calls in re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", stats.decode()))


async def test_a_flush_of_many_claims_and_clients_takes_several_calls(crowded: ReliableQueue) -> None:
    _, reply = await call(crowded, "flush")
    main, busy, delayed, failed, more = map(int, reply.split())
    assert (busy, delayed, failed, more) == (1000, 3, 0, 1)
    assert 5 + 500 <= main <= 5 + 1000
    assert await lengths(crowded) == Lengths(main=LEFT - main, busy=200)
    assert (await crowded.stats())["flushed"] == main + 1003
    removed = await crowded.flush()
    assert removed == {State.MAIN: LEFT - main, State.BUSY: 200, State.DELAYED: 0, State.FAILED: 0}
    stats = await crowded.stats()
    assert stats["flushed"] == stats["enqueued"] == 2 * CLIENTS + 8
    assert await crowded.claim(9, wait=0) == []


async def test_what_a_part_of_a_flush_left_is_a_whole_queue(crowded: ReliableQueue) -> None:
    _, reply = await call(crowded, "flush")
    left = LEFT - int(reply.split()[0])
    claims: list[Claim] = []
    while page := await crowded.claim(1000, wait=0):
        claims += page
    assert len(claims) == left
    assert {one.verdict for one in await crowded.done(claims)} == {Verdict.DONE}
    assert await lengths(crowded) == Lengths(busy=200)


async def test_a_flush_of_large_items_frees_a_bounded_number_of_bytes_in_a_call(queue: ReliableQueue) -> None:
    for client in "abcd":
        await queue.enqueue_many([NewItem(b"x" * MIB, client=client) for _ in range(4)])
    _, reply = await call(queue, "flush")
    assert reply == b"8 0 0 0 1"
    assert await queue.flush() == {State.MAIN: 8, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 0}


async def test_a_deletion_of_many_keeps_the_policy_until_its_last_call(
    server: Server, crowded: ReliableQueue
) -> None:
    owner = Owner("cluster", "media", "thumbs", "uid-1")
    await internals(crowded).own(owner)
    _, reply = await call(crowded, "delete", 0, owner.words())
    first = [int(word) for word in reply.split()]
    assert first[4] == 1
    assert server.call("HGET", "cq:{q}:config", "owner")
    with pytest.raises(StoreMisused, match="belongs to another owner"):
        await internals(crowded).delete_owned(Owner("cluster", "media", "other", "uid-2"))
    removed = await internals(crowded).delete_owned(owner)
    assert removed is not None
    assert removed[State.MAIN] == LEFT - first[0]
    assert [key for key in contents(server) if "cq:{q}:" in key and ":calls:" not in key] == []


async def test_workers_come_in_pages(store: claimq.Server, queue: ReliableQueue) -> None:
    names = [f"w{number}" for number in range(1_003)]
    seen = [word for number, name in enumerate(names) for word in (str(1000 + number), name)]
    await queue._connection.command("ZADD", queue._keys["workers"], *seen)
    assert [word.decode() for word in (await run(queue, "workers", 1_000, 1_000))[::3]] == names[1_000:]
    assert sorted(info.worker for info in await queue.workers()) == sorted(names)


async def test_clients_come_in_pages(queue: ReliableQueue) -> None:
    names = [f"c{number}" for number in range(1_003)]
    for begin in (0, 1_000):
        await queue.enqueue_many([NewItem("x", client=name) for name in names[begin : begin + 1_000]])
    _, *page = await run(queue, "clients", 1_000, 1_000)
    assert len(page) == 2 * 3
    assert [(one.client, one.length) for one in await queue.clients()] == [
        (name, 1) for name in sorted(names)
    ]


async def test_many_tokens_of_a_worker_come_in_pages(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=5))
    for _ in range(6):
        await queue.enqueue_many(["x"] * 1000)
    tokens = {claim.token for _ in range(6) for claim in await queue.claim(1000, wait=0)}
    cursor, *page = await run(queue, "held", "w1", "0")
    assert cursor != b"0"
    assert 1000 <= len(page) < 2000
    assert {token.decode() for token in page} < tokens
    assert (await queue.release_worker("w1")).requeued == 6000
    assert await lengths(queue) == Lengths(main=6000)


async def test_the_claim_calls_of_busy_items_are_found_in_a_long_log(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 3)
    first, second = [(await queue.claim(1, wait=0))[0] for _ in range(2)]
    calls = [word for n in range(2_500) for word in (str(n), f"{n} 1 nonce{n:03} gone")]
    await queue._connection.command("ZADD", queue._keys["claims"], *calls)
    shown = {located.name: located.claimed_at for located in await queue.items(State.BUSY)}
    assert shown == {claim.token: pytest.approx(claim.claimed_at, abs=0.002) for claim in (first, second)}


async def test_peek_goes_on_over_the_turns_of_many_clients(crowded: ReliableQueue) -> None:
    await crowded.update_policy(fairness_by="count")
    shown = texts(await crowded.peek(10_000))
    assert texts(await crowded.peek(400, offset=1_200)) == shown[1_200:1_600]
    assert await crowded.peek(9, offset=LEFT) == []
    claimed: list[str] = []
    while page := await crowded.claim(1000, wait=0):
        claimed += texts(page)
    assert shown == claimed
    assert len(shown) == LEFT


async def test_a_page_behind_many_clients_takes_few_calls(server: Server, queue: ReliableQueue) -> None:
    """One client has nearly all items: its turns come one after another when the others have none left."""
    names = [f"c{n}" for n in range(1_100)]
    order = [NewItem(name, client=name) for name in names]
    order += [NewItem(f"noisy{n}", client="c7") for n in range(2_000)]
    for start in range(0, len(order), 1000):
        await queue.enqueue_many(order[start : start + 1000])
    for offset in (1_200, 2_000):
        before = calls_of_scripts(server)
        page = await queue.items(State.MAIN, 50, offset=offset)
        assert texts(page) == [f"noisy{n - 1_100}" for n in range(offset, offset + 50)]
    assert calls_of_scripts(server) - before == 4  # the second time the server has the scripts
    assert texts(await queue.items(State.MAIN, 3, offset=1_098)) == [
        "c1098",
        "c1099",
        "noisy0",
    ]


async def test_places_of_main_are_read_within_the_bytes_of_a_call(queue: ReliableQueue) -> None:
    items = [
        NewItem(b"%s%d" % (client.encode(), n) + b"x" * MIB, client=client)
        for client in "ab"
        for n in range(3)
    ]
    await queue.set_policy(Policy(max_payload=2 * MIB))
    await queue.enqueue_many(items)
    more, *pages = await run(queue, "places", "", "", "a", 1, 2, "b", 1, 2)
    assert (more, [len(page) for page in pages]) == (1, [2])
    shown = await queue.items(State.MAIN, 4, offset=2)
    assert [row.item.payload[:2] for row in shown] == [b"a1", b"b1", b"a2", b"b2"]


@pytest.mark.parametrize("count", [1, 1000])
async def test_a_claim_passes_a_bounded_number_of_clients_whose_lists_are_gone(
    queue: ReliableQueue, count: int
) -> None:
    """Other Redis clients, or a server that evicts, removed them."""
    await queue.claim(wait=0)
    await queue.enqueue("x", client="last")
    lost = [f"gone-{number}" for number in range(2_500)]
    await queue._connection.command(
        "ZADD", queue._keys["clients"], *(word for n, name in enumerate(lost) for word in (-n - 1, name))
    )
    incarnation = queue._connection.incarnations[queue._keys.main]
    assert await call(queue, "claim", "w1", count, "nonce", incarnation) == [b"AGAIN"]
    left = await queue._connection.command("ZCARD", queue._keys["clients"])
    assert 2_501 - 1_200 <= left < 2_501
    assert texts(await queue.claim(count, wait=0)) == ["x"]


async def test_done_frees_a_bounded_number_of_bytes_in_a_call(queue: ReliableQueue) -> None:
    await queue.enqueue_many([b"x" * MIB] * 11)
    claims: list[Claim] = []
    while page := await queue.claim(1000, wait=0):
        claims += page
    tokens = [claim.token for claim in claims]
    _, reply = await call(queue, "done", 1, "w1", 11, *tokens)
    assert reply.split() == [b"done"] * 8 + [b"later"] * 3
    assert await lengths(queue) == Lengths(busy=3)
    assert [one.verdict for one in await queue.done(claims)] == [Verdict.LOST] * 8 + [Verdict.DONE] * 3


async def test_done_with_followers_of_large_items_takes_several_calls(queue: ReliableQueue) -> None:
    await queue.enqueue_many([b"x" * MIB] * 11)
    claims: list[Claim] = []
    while page := await queue.claim(1000, wait=0):
        claims += page
    said = await queue.done([Done(claim, [f"after {n}"]) for n, claim in enumerate(claims)])
    assert [one.verdict for one in said] == [Verdict.DONE] * 11
    assert texts(await queue.peek(20)) == [f"after {n}" for n in range(11)]


async def test_removing_large_failed_items_by_name_is_bounded(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(b"x" * 600_000, id=str(n)) for n in range(9)])
    while claims := await queue.claim(1000, wait=0):
        await queue.fail(claims, "no", permanent=True)
    reply = await call(queue, "remove_failed", "", 0, 0, "-inf", 0, 1, 0, 0, "", *map(str, range(9)))
    assert reply[1].split()[:2] == [b"4", b"4"]
    assert await lengths(queue) == Lengths(failed=5)


async def test_a_call_removes_a_bounded_number_of_items_over_max_items(queue: ReliableQueue) -> None:
    for _ in range(2):
        await queue.enqueue_many(["x"] * 1000)
        await queue.fail(await queue.claim(1000, wait=0), "no", permanent=True)
    await queue.update_policy(failed=FailedPolicy(max_items=1))
    await queue.enqueue_many(["x"] * 100)
    await queue.fail(await queue.claim(100, wait=0), "no", permanent=True)
    assert await lengths(queue) == Lengths(failed=2_100 - 125)
