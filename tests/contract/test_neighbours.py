"""A snapshot names the clients that have many of the slots while others wait."""

import pytest

from claimq import Limit, NewItem, ReliableQueue
from claimq.limits import Neighbour
from claimq.model import Snapshot
from testkit.queues.frozen_clock import FrozenClock
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
Queue = ReliableQueue


async def look(queue: Queue) -> Snapshot:
    return await queue.snapshot(neighbours=True)


def move(queue: Queue, seconds: float) -> None:
    clock = queue._connection.clients.shared
    assert isinstance(clock, FrozenClock)
    clock.move("q", round(seconds * 1000))


async def add(queue: Queue, client: str | None, count: int = 1, size: int = 1) -> None:
    await queue.enqueue_many([NewItem("x" * size, client=client) for _ in range(count)])


@pytest.fixture
async def heavy(queue: Queue) -> Queue:
    """A client has all ten slots for 5 s and more items; two other ones have waited for 2 s."""
    await add(queue, "heavy", 30)
    await queue.claim(10, wait=0)
    move(queue, 3)
    await add(queue, "ann")
    await add(queue, "bob", 5)
    move(queue, 2)
    return queue


async def test_a_client_with_all_slots_is_named_with_what_it_delays(heavy: Queue) -> None:
    assert (await look(heavy)).neighbours == (Neighbour("heavy", 1.0, 1.0, 2, 2.0),)


async def test_a_snapshot_names_none_unless_asked(heavy: Queue) -> None:
    assert (await heavy.snapshot()).neighbours == ()


async def test_shares_are_those_of_slots_and_of_the_time_since_the_claims(heavy: Queue) -> None:
    await heavy.claim(2, wait=0)
    move(heavy, 1)
    await add(heavy, "cleo")
    move(heavy, 2)
    (named,) = (await look(heavy)).neighbours
    assert (named.client, named.delayed_clients) == ("heavy", 2)
    assert named.slots == pytest.approx(11 / 12)
    assert named.time == pytest.approx(83 / 86)


async def test_items_without_a_client_delay_others_and_are_delayed(queue: Queue) -> None:
    await add(queue, None, 12)
    await queue.claim(10, wait=0)
    await add(queue, "ann")
    move(queue, 2)
    assert (await look(queue)).neighbours == (Neighbour(None, 1.0, 1.0, 1, 2.0),)
    await add(queue, "ann", 40)
    while await queue.claim(50, wait=0):
        pass
    await add(queue, None, 3)
    await add(queue, "bob", 1)
    move(queue, 60)
    named = [(client.client, client.delayed_clients) for client in (await look(queue)).neighbours]
    assert named == [("ann", 2), (None, 1)]


async def test_items_without_a_client_that_no_claim_has_seen_wait_too(queue: Queue) -> None:
    await add(queue, "heavy", 30)
    await queue.claim(10, wait=0)
    await add(queue, None)
    move(queue, 2)
    assert (await look(queue)).neighbours == (Neighbour("heavy", 1.0, 1.0, 1, 2.0),)


async def test_clients_that_their_own_limit_holds_back_are_not_delayed(queue: Queue) -> None:
    """Items without a client count for no limit per client."""
    await queue.update_policy(limits=[Limit("each", per="client", rate="1/h")])
    await add(queue, "ann", 2)
    await queue.claim(1, wait=0)
    await add(queue, None, 10)
    assert len(await queue.claim(10, wait=0)) == 10
    move(queue, 5)
    assert (await look(queue)).neighbours == ()
    await add(queue, "bob", 1)
    move(queue, 5)
    assert [client.delayed_clients for client in (await look(queue)).neighbours] == [1]


async def test_weights_of_shares_by_time_are_kept_to(queue: Queue, server: Server) -> None:
    await queue.update_policy(fairness_by="time", fairness_weights={"paying": 50})
    for client in ("paying", "free"):
        await add(queue, client, 60)
    claims = await queue.claim(20, wait=0)
    move(queue, 1)
    await queue.done(claims)
    await queue.claim(40, wait=0)
    assert server.call("HGET", "cq:{q}:shares", "paying")
    move(queue, 3)
    assert (await look(queue)).neighbours == ()


async def test_of_many_claims_a_sample_is_read_that_no_turn_distorts(queue: Queue) -> None:
    """Four clients in turn: each fourth of 256 claims is of one client."""
    for client in ("ann", "bob", "cleo", "dan"):
        await add(queue, client, 65)
    await queue.claim(256, wait=0)
    move(queue, 5)
    assert (await look(queue)).neighbours == ()


async def test_items_that_are_too_large_to_sample_name_none(queue: Queue) -> None:
    await add(queue, "heavy", 20, size=300_000)
    while await queue.claim(5, wait=0):
        pass
    await add(queue, "ann")
    move(queue, 5)
    assert (await look(queue)).neighbours == ()


async def test_a_queue_without_clients_that_wait_is_not_looked_at(heavy: Queue, server: Server) -> None:
    while await heavy.claim(99, wait=0):
        pass
    before = calls(server)
    await look(heavy)
    assert calls(server) == before


def calls(server: Server) -> int:
    """How often a script has looked for clients that wait."""
    text = server.call("INFO", "commandstats")
    assert isinstance(text, bytes)
    line = next(
        (line for line in text.decode().splitlines() if line.startswith("cmdstat_zmscore:")), "calls=0,"
    )
    return int(line.partition("calls=")[2].partition(",")[0])
