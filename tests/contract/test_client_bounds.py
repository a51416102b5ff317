"""Limits per client on items in progress: every end of a claim frees its client."""

import pytest

from claimq import Done, Limit, NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
from testkit.queues.clock import move_clock
from testkit.queues.looking import end_by_lease, filled, starts
from testkit.servers.server import Server
from testkit.workers.ends import ENDS, End

pytestmark = pytest.mark.frozen_clock(True)


def in_progress(server: Server) -> dict[bytes, bytes]:
    reply = server.call("HGETALL", "cq:{q}:in_progress")
    assert isinstance(reply, list)
    flat = [word for word in reply if isinstance(word, bytes)]
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def test_no_more_items_of_a_client_are_in_progress_than_its_bound(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("slots", busy=2, per="client"))
    claims = await queue.claim(100, wait=0)
    assert (len(claims), await starts(queue)) == (4, "")
    assert in_progress(server) == {b"a": b"2", b"b": b"2"}
    await queue.done([claim for claim in claims if claim.item.client == "a"][:1])
    assert (await starts(queue), await starts(queue)) == ("a", "")


async def flush(queue: ReliableQueue) -> None:
    await queue.flush()
    await queue.enqueue_many(NewItem("again", client="a") for _ in range(9))


BUSY_ENDS: dict[str, End] = {
    **ENDS,
    "done, and enqueue": lambda queue, claims: queue.done(
        [Done(claim, [NewItem("next", client="a")]) for claim in claims]
    ),
    "lease": lambda queue, _: end_by_lease(queue),
    "flush": lambda queue, _: flush(queue),
}


@pytest.mark.parametrize("end", list(BUSY_ENDS))
async def test_every_end_frees_the_client_and_wakes_a_waiting_claim(
    queue: ReliableQueue, server: Server, end: str
) -> None:
    await filled(queue, Limit("slots", busy=3, per="client"), clients="a", count=9)
    claims = await queue.claim(100, wait=0)
    assert (len(claims), await starts(queue)) == (3, "")
    server.call("DEL", "cq:{q}:wake")
    await BUSY_ENDS[end](queue, claims)
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert (await starts(queue), await starts(queue)) == ("aaa", "")


async def test_done_and_claim_frees_the_client(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("slots", busy=1, per="client"), clients="ab")
    claims = await queue.claim(2, wait=0)
    await next_claims(queue).done_and_claim(claims, 2)
    assert await starts(queue) == "ab"
    assert in_progress(server) == {b"a": b"1", b"b": b"1"}


async def test_items_in_progress_before_the_limit_count(queue: ReliableQueue, server: Server) -> None:
    await filled(queue)
    claims = await queue.claim(6, wait=0)
    await queue.update_policy(limits=[Limit("slots", busy=4, per="client")])
    assert await starts(queue) == "ab"
    await queue.done(claims)
    assert await starts(queue) == "ababab"
    await queue.update_policy(limits=[])
    assert len(await starts(queue, 2)) == 2
    await queue.update_policy(limits=[Limit("slots", busy=6, per="client")])
    await starts(queue)
    assert in_progress(server) == {b"a": b"6", b"b": b"6"}


async def test_items_in_progress_are_counted_in_several_calls(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server
) -> None:
    payload = "x" * 900_000
    await queue.enqueue_many(NewItem(payload, client="a") for _ in range(6))
    first, second = await queue.claim(3, wait=0), await other_worker.claim(3, wait=0)
    while len(first) < 3:
        first += await queue.claim(3 - len(first), wait=0)
    while len(second) < 3:
        second += await other_worker.claim(3 - len(second), wait=0)
    await queue.update_policy(limits=[Limit("slots", busy=6, per="client")])
    await queue.enqueue_many(NewItem("x", client="a") for _ in range(3))
    reply = await queue._connection.run("claim", ["cq:{q}:main"], await words(queue))
    assert reply[0] == b"AGAIN"
    assert in_progress(server) == {b"a": b"3"}
    await queue.done(first[0])
    await other_worker.done(second[0])
    assert await starts(queue) == "aa"
    assert in_progress(server) == {b"a": b"6"}


async def test_a_bound_that_comes_back_counts_what_started_without_it(
    queue: ReliableQueue,
) -> None:
    names = [f"c{number}" for number in range(2500)]
    await queue.update_policy(limits=[Limit("api", rate="1/h", per="client")], fairness_by="count")
    await queue.enqueue_many(NewItem(name, client=name) for _ in range(4) for name in names)
    while claims := await queue.claim(500, wait=0):  # until all are parked
        await queue.done(claims)
    bound = Limit("slots", busy=1, per="client")
    await queue.update_policy(limits=[bound])
    held = {claim.item.client for claim in await queue.claim(1, wait=0)}
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=3, per="client")])
    held |= {claim.item.client for claim in await queue.claim(500, wait=0)}
    assert len(held) >= 499
    await queue.update_policy(limits=[bound])
    started: list[str | None] = []
    while claims := await queue.claim(500, wait=0):
        started += [claim.item.client for claim in claims]
    assert held.isdisjoint(started)
    assert sorted([*held, *started], key=str) == sorted(names)


async def test_a_claim_by_id_without_the_bound_counts_when_the_bound_is_back(queue: ReliableQueue) -> None:
    await queue.enqueue("chosen", id="chosen", client="a")
    await filled(queue, Limit("slots", busy=3, per="client"), clients="a")
    await queue.enqueue("later", id="later", client="a")
    assert await starts(queue, 2) == "aa"
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=9, per="client")])
    assert await queue.claim_item("later") is not None
    await queue.update_policy(limits=[Limit("slots", busy=3, per="client")])
    assert await starts(queue) == ""


@pytest.mark.parametrize("end", ["reap", "done", "done, and enqueue"])
async def test_a_claim_that_is_lost_from_busy_holds_back_its_client_no_longer(
    queue: ReliableQueue, server: Server, end: str
) -> None:
    await filled(queue, Limit("slots", busy=1, per="client"))
    lost, kept = sorted(await queue.claim(2, wait=0), key=lambda claim: claim.item.client or "")
    server.call("HDEL", "cq:{q}:busy:w1", lost.token)
    if end == "reap":
        server.call("ZADD", "cq:{q}:leases", 1, lost.token)
        await queue.reap()
    else:
        await BUSY_ENDS[end](queue, [lost])
    await move_clock(queue, 29)
    await queue.renew([kept])
    await move_clock(queue, 1)
    assert await starts(queue) == "a"
    assert in_progress(server) == {b"a": b"1", b"b": b"1"}


async def test_an_item_in_progress_counts_when_its_lease_was_lost_and_is_mended(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("slots", busy=1, per="client"), clients="a")
    (claim,) = await queue.claim(1, wait=0)
    server.call("ZREM", "cq:{q}:leases", claim.token)
    await queue.reap()
    server.call("ZADD", "cq:{q}:leases", claim.lease_until * 1000, claim.token)
    await move_clock(queue, 29)
    await queue.renew([claim])
    await move_clock(queue, 1)
    assert await starts(queue) == ""


async def words(queue: ReliableQueue) -> list[str | int]:
    """Of a claim call of this worker."""
    lane = queue._connection.lanes.take()
    return [*lane, queue.worker, 5, "nonce000", queue._connection.incarnations["cq:{q}:main"]]


async def test_after_a_claim_by_id_a_client_may_be_over_its_bound(queue: ReliableQueue) -> None:
    await queue.enqueue("chosen", id="chosen", client="a")
    await filled(queue, Limit("slots", busy=2, per="client"), clients="a")
    claims = await queue.claim(2, wait=0)
    await queue.enqueue("later", id="later", client="a")
    chosen = await queue.claim_item("later")
    assert chosen is not None
    await queue.done(claims[0])
    assert await starts(queue) == ""
    await queue.done(claims[1])
    assert await starts(queue) == "a"


async def test_a_client_whose_end_was_not_seen_is_looked_at_again(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("slots", busy=1, per="client"), clients="a")
    await queue.claim(1, wait=0)
    server.call("DEL", "cq:{q}:in_progress")
    assert await starts(queue) == ""
    await move_clock(queue, 30)
    assert await starts(queue) == "a"


async def test_where_names_the_bound_of_the_client(queue: ReliableQueue) -> None:
    await filled(queue, Limit("slots", busy=1, per="client"), clients="a", count=1)
    await queue.claim(1, wait=0)
    item = (await queue.enqueue("waits", client="a")).id
    seen = await queue.where(item)
    assert seen is not None
    text = "the limit slots of its client a is reached until an item of it in progress ends"
    assert (seen.reason, seen.text, seen.until) == ("limit", text, None)
    now = (await queue.snapshot()).limits
    assert now is not None
    assert (now.startable, now.useful_slots(1.0, 1)) == (0, 1)


async def test_a_claim_that_a_call_names_twice_ends_once(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("slots", busy=3, per="client"), clients="a")
    claims = await queue.claim(3, wait=0)
    await queue.done([claims[0], claims[0]])
    assert in_progress(server) == {b"a": b"2"}
