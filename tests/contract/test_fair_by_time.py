"""Clients take turns by processing time: a claim counts the mean of a client, and its end the rest."""

import math
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest

from claimq import Claim, NewItem, ReliableQueue, Verdict
from claimq.internals.next_claims import next_claims
from testkit.queues.frozen_clock import FrozenClock
from testkit.queues.looking import texts
from testkit.queues.script_calls import run
from testkit.queues.slots import Slots
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
MILLISECOND = 64
"""In the unit of tags."""
Queue = ReliableQueue


def clock_of(queue: Queue) -> FrozenClock:
    clock = queue._connection.clients.shared
    assert isinstance(clock, FrozenClock)
    return clock


def share(server: Server, client: str) -> dict[str, int]:
    share = cast("bytes | None", server.call("HGET", "cq:{q}:shares", client))
    assert share is not None, f"{client} has no share"
    return dict(zip(("base", "tag", "count", "mean"), struct.unpack("<4q16x", share), strict=True))


def keys_of_turns(server: Server) -> int:
    return cast("int", server.call("EXISTS", "cq:{q}:shares", "cq:{q}:turns"))


async def fill(queue: Queue, *clients: str, count: int = 10) -> None:
    """Items of clients in turn."""
    await queue.enqueue_many(
        [NewItem(f"{client}{n}", client=client) for n in range(count) for client in clients]
    )


@pytest.mark.parametrize(
    ("service", "weights"),
    [
        ({"fast": 100, "slow": 3000}, {}),
        ({"fast": 100, "slow": 3000}, {"fast": 3.0}),
        ({"a": 200, "b": 1000, "c": 5000}, {"c": 2.0}),
        ({"a": 900, "b": 1000, "-": 1100}, {}),
    ],
)
async def test_shares_of_time_are_those_of_the_weights(
    queue: Queue, service: dict[str, int], weights: dict[str, float]
) -> None:
    await queue.update_policy(fairness_weights=weights, busy_expiry=600)
    for client, milliseconds in service.items():
        await queue.enqueue_many(
            [NewItem("x", client=None if client == "-" else client)] * (1_500_000 // milliseconds)
        )
    slots = Slots(queue, clock_of(queue), service, 10)
    mean = sum(service.values()) / len(service)
    off = await slots.shares_off(round(60 * mean), weights)
    assert max(off.values()) <= 0.05, slots.used


async def test_a_client_that_comes_waits_for_few_ends_of_long_items(queue: Queue) -> None:
    await fill(queue, "slow", "slower", count=50)
    slots = Slots(queue, clock_of(queue), {"slow": 30_000, "slower": 60_000, "quiet": 100}, 3)
    await slots.run(200_000)
    for _ in range(5):
        await queue.enqueue("quiet", client="quiet")
        await slots.run(100_000)
    assert len(slots.waits["quiet"]) == 5
    assert max(slots.waits["quiet"]) <= 60_000


Ends = Callable[[Queue, Sequence[Claim]], Awaitable[object]]


async def _each(queue: Queue, claims: Sequence[Claim]) -> None:
    for claim in claims:
        await queue.done([claim])


ENDS: dict[str, Ends] = {
    "done": lambda queue, claims: queue.done(claims),
    "done one by one": _each,
    "done in another order": lambda queue, claims: queue.done(claims[::-1]),
    "fail": lambda queue, claims: queue.fail(claims, "broken"),
    "permanent": lambda queue, claims: queue.fail(claims, "broken", permanent=True),
    "drop": lambda queue, claims: queue.drop(claims, "broken"),
    "requeue": lambda queue, claims: queue.requeue(claims),
    "later": lambda queue, claims: queue.later(claims, 60),
    "crash": lambda queue, claims: queue.crash(claims, "killed"),
    "release": lambda queue, _: queue.release_worker("w1"),
    "expired": lambda queue, _: queue.reap(),
    "done and claim": lambda queue, claims: next_claims(queue).done_and_claim(claims),
    "unclaim with a reason": lambda queue, claims: queue.unclaim(claims, why="stopped"),
}


@pytest.mark.parametrize("kind", ENDS)
async def test_each_end_of_a_claim_counts_the_time_that_it_took(
    server: Server, queue: Queue, kind: str
) -> None:
    await queue.update_policy(busy_expiry=4)
    await fill(queue, "ann", "bob")
    claims = await queue.claim(4, wait=0)
    assert [share(server, client)["count"] for client in ("ann", "bob")] == [2, 2]
    before = {client: share(server, client)["base"] for client in ("ann", "bob")}
    clock_of(queue).move("q", 5000)
    await ENDS[kind](queue, claims)
    began = 1 if kind == "done and claim" else 0
    assert sum(share(server, client)["count"] for client in ("ann", "bob")) == began
    for client in ("ann", "bob"):
        assert share(server, client)["mean"] == 5000 * MILLISECOND
        assert share(server, client)["base"] - before[client] == 2 * 5000 * MILLISECOND


async def test_turns_of_one_claim_are_in_the_order_of_tags(queue: Queue) -> None:
    await fill(queue, "ann", "bob", "cid")
    for claim, milliseconds in zip(await queue.claim(3, wait=0), (1000, 1300, 1400), strict=True):
        clock_of(queue).move("q", milliseconds)
        await queue.done(claim)
    items = texts(await queue.claim(9, wait=0))
    assert items == ["ann1", "ann2", "bob1", "ann3", "cid1", "ann4", "bob2", "ann5", "ann6"]


async def test_each_of_many_clients_is_charged_for_its_own_items(server: Server, queue: Queue) -> None:
    names = ["n" * length for length in range(1, 31)]
    await fill(queue, *names, count=3)
    claims = await queue.claim(90, wait=0)
    bases, took = {name: share(server, name)["base"] for name in names}, dict.fromkeys(names, 0)
    for number, claim in enumerate(claims[1::2] + claims[::2], 1):
        clock_of(queue).move("q", 1000)
        took[claim.item.client or ""] += 1000 * number * MILLISECOND
        await queue.done(claim)
    assert {share(server, name)["count"] for name in names} == {0}
    assert {name: share(server, name)["base"] - bases[name] for name in names} == took


async def test_an_end_puts_a_client_that_owes_time_behind_others_at_once(
    server: Server, queue: Queue
) -> None:
    await fill(queue, "ann", "bob", count=2)
    for claim in await queue.claim(2, wait=0):
        clock_of(queue).move("q", 5000)
        await queue.done(claim)
    bases = {client: share(server, client)["base"] for client in ("ann", "bob")}
    assert bases["bob"] >= 10_000 * MILLISECOND > bases["ann"] >= 5000 * MILLISECOND
    for client in ("ann", "bob"):
        assert server.call("ZSCORE", "cq:{q}:clients", client) == b"%d" % bases[client]


async def test_an_end_gives_no_turn_to_a_client_that_has_none(server: Server, queue: Queue) -> None:
    await fill(queue, "ann", count=1)
    await fill(queue, "bob", count=2)
    claims = await queue.claim(2, wait=0)
    await queue.pause(client="bob")
    assert await queue.claim(9, wait=0) == []
    paused_at = server.call("ZSCORE", "cq:{q}:clients", "bob")
    clock_of(queue).move("q", 5000)
    await queue.done(claims)
    assert server.call("ZSCORE", "cq:{q}:clients", "ann") is None
    assert server.call("ZSCORE", "cq:{q}:clients", "bob") == paused_at
    assert await queue.claim(9, wait=0) == []


async def test_what_comes_back_before_it_began_counts_no_time(server: Server, queue: Queue) -> None:
    await fill(queue, "ann", "bob")
    claims = await queue.claim(4, wait=0)
    before = share(server, "ann")["base"]
    clock_of(queue).move("q", 5000)
    await queue.unclaim(claims)
    assert share(server, "ann") | {"tag": 0} == {"base": before, "tag": 0, "count": 0, "mean": 0}


async def test_a_claim_by_id_counts_for_its_client(server: Server, queue: Queue) -> None:
    await fill(queue, "ann", "bob")
    await queue.done(await queue.claim(2, wait=0))
    await queue.enqueue_many([NewItem("x", client="ann", id="chosen")])
    claim = await queue.claim_item("chosen")
    assert claim is not None
    assert share(server, "ann")["count"] == 1
    clock_of(queue).move("q", 7000)
    await queue.done(claim)
    assert share(server, "ann")["count"] == 0
    assert share(server, "ann")["mean"] > 0


async def test_a_queue_with_one_client_or_none_counts_nothing(server: Server, queue: Queue) -> None:
    await fill(queue, "ann")
    await queue.enqueue_many(["x"])
    await queue.flush_client("ann")
    await fill(queue, "ann")
    for _ in range(3):
        await queue.done([claim for claim in await queue.claim(1, wait=0) if claim.item.client])
        await queue.done(await queue.claim(4, wait=0))
    await queue.flush()
    await fill(queue, "ann")
    await queue.done(await queue.claim(4, wait=0))
    assert keys_of_turns(server) == 0
    assert server.call("HGET", "cq:{q}:stats", "turns") is None


async def test_by_count_clients_take_an_item_each_and_nothing_is_stored(server: Server, queue: Queue) -> None:
    await fill(queue, "ann", "bob")
    claims = await queue.claim(2, wait=0)
    clock_of(queue).move("q", 9000)
    await queue.done(claims[:1])
    await queue.update_policy(fairness_by="count")
    assert keys_of_turns(server) == 0
    await queue.done(claims[1:])
    assert texts(await queue.claim(4, wait=0)) == ["bob1", "ann1", "bob2", "ann2"]
    assert keys_of_turns(server) == 0


@pytest.mark.parametrize("end", ["flush", "delete"])
async def test_flush_and_delete_remove_all_shares(server: Server, queue: Queue, end: str) -> None:
    await fill(queue, "ann", "bob")
    await queue.claim(4, wait=0)
    assert keys_of_turns(server) == 2
    await (queue.flush() if end == "flush" else queue.delete())
    assert keys_of_turns(server) == 0
    assert server.call("HGET", "cq:{q}:stats", "turns") is None


async def test_repair_removes_shares_of_clients_that_are_gone_and_owe_nothing(
    server: Server, queue: Queue
) -> None:
    await fill(queue, "ann", "bob", count=1)
    await fill(queue, "long", "longer", count=20)
    claims = await queue.claim(4, wait=0)
    clock_of(queue).move("q", 1000)
    await queue.done(claims)
    for _ in range(20):
        claims = await queue.claim(1, wait=0)
        clock_of(queue).move("q", 1000)
        await queue.done(claims)
    await run(queue, "repair", 100)
    assert {*cast("list[bytes]", server.call("HKEYS", "cq:{q}:shares"))} == {b"long", b"longer"}
    await queue.flush_client("long")
    await queue.flush_client("longer")
    for _ in range(2):
        await queue.enqueue_many([NewItem("x", client="new")])
        await queue.done(await queue.claim(1, wait=0))
        await run(queue, "repair", 100)


@pytest.mark.parametrize("client", ["ann", None])
async def test_a_queue_whose_other_clients_are_gone_counts_no_turns(
    server: Server, queue: Queue, client: str | None
) -> None:
    await queue.enqueue_many([NewItem("x", client=client)] * 20)
    await fill(queue, "bob", count=1)
    claims = await queue.claim(4, wait=0)
    await queue.done([claim for claim in claims if claim.item.client == "bob"])
    for _ in range(3):
        (claim,) = await queue.claim(1, wait=0)
        clock_of(queue).move("q", 1000)
        await queue.done(claim)
    await run(queue, "repair", 100)
    await queue.done([claim for claim in claims if claim.item.client == client])
    await queue.done(await queue.claim(4, wait=0))
    assert keys_of_turns(server) == 0
    assert server.call("HGET", "cq:{q}:stats", "turns") is None
    assert server.call("ZSCORE", "cq:{q}:clients", "-") is None
    await fill(queue, "bob")
    assert {claim.item.client for claim in await queue.claim(4, wait=0)} == {client, "bob"}
    assert keys_of_turns(server) == 2


async def test_a_share_that_another_client_has_changed_counts_as_none(server: Server, queue: Queue) -> None:
    numbers = [(-(2**60), 1, 1, 1, 1.0), (1, -1, 1, 1, 1.0), (1, 1, 2**62, 1, 1.0), (1, 1, 1, 1, math.nan)]
    shares: list[bytes | str] = [struct.pack("<4qdq", *share, 0) for share in numbers]
    for text in (*shares, "nothing", "9" * 300):
        await fill(queue, "ann", "bob", count=4)
        await queue.claim(2, wait=0)
        server.call("HSET", "cq:{q}:shares", "ann", text)
        server.call("HSET", "cq:{q}:stats", "turns", text)
        claims = await queue.claim(4, wait=0)
        assert len(claims) == 4
        await queue.done(claims)
        assert all(0 <= number < 2**52 for number in share(server, "ann").values())
        await queue.flush()


@pytest.mark.parametrize(
    "rest", ["", " ann", " ann x bob 1", "-9-9", "nan", "inf", "0x", "99999999 ann 1 bob 1", "\0" * 40]
)
async def test_clients_of_a_claim_that_another_program_has_written_end_with_it(
    server: Server, queue: Queue, rest: str
) -> None:
    await fill(queue, "ann", "bob")
    for width in "0359":
        claims = await queue.claim(2, wait=0)
        first, _, nonce = claims[0].token.rpartition("/")[2].partition(".")
        server.call("HSET", "cq:{q}:turns", nonce, f"{first} 2 {width}\n{rest}")
        for claim in claims:
            assert [outcome.verdict for outcome in await queue.done(claim)] == [Verdict.DONE]
    assert len(await queue.claim(20, wait=0)) == 12


async def test_a_claim_corrects_the_tags_of_few_clients_that_owe_time(queue: ReliableQueue) -> None:
    async def end(claims: list[Claim], milliseconds: int) -> None:
        clock_of(queue).move("q", milliseconds)
        await queue.done(claims)

    await fill(queue, "ann", "bob", count=1)
    of_ann, of_bob = await queue.claim(2, wait=0)
    await end([of_bob], 10_000)
    names = [f"c{number}" for number in range(4500)]
    for start in range(0, len(names), 500):
        await fill(queue, *names[start : start + 500], count=3)
    claims: list[Claim] = []
    while len(claims) < 2 * len(names):
        claims += await queue.claim(500, wait=0)
    assert {claim.item.client for claim in claims} == set(names)
    await end([of_ann], 10_000_000)  # the mean of all clients grows, and with it what each has had
    lane, known = queue._connection.lanes.take(), queue._connection.incarnations["cq:{q}:main"]
    reply = await queue._connection.run("claim", ["cq:{q}:main"], [*lane, "w1", 1, "nonce-12", known])
    assert reply[0] == b"AGAIN"
    assert len(await queue.claim(1, wait=0)) == 1


async def test_a_plan_that_is_given_up_keeps_no_client_out(
    queue: ReliableQueue,
) -> None:
    await fill(queue, "ann", count=1)
    await queue.crash(await queue.claim(1, wait=0), "killed")  # an item that a call claims alone
    await fill(queue, "ann", "bob", count=9)
    assert texts(await queue.claim(18, wait=0)) == ["ann0"]
    await fill(queue, "cid", count=1)
    assert "cid0" in texts(await queue.claim(4, wait=0))


async def test_an_item_whose_lease_was_lost_is_not_counted_after_its_end(
    server: Server, queue: Queue
) -> None:
    await fill(queue, "ann", "bob")
    claims = await queue.claim(2, wait=0)
    for claim in claims:
        server.call("ZREM", "cq:{q}:leases", claim.token)
    await run(queue, "repair", 100)
    for claim in claims:
        server.call("ZADD", "cq:{q}:leases", claim.lease_until * 1000, claim.token)
    await queue.done(claims)
    assert [share(server, client)["count"] for client in ("ann", "bob")] == [0, 0]
