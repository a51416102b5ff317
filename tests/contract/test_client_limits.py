"""Limits per client: each client starts so many items, and the others go on."""

from datetime import timedelta

import pytest

from claimq import Limit, NewItem, ReliableQueue
from testkit.checkers.starts import RandomClaims, fullest
from testkit.queues.clock import move_clock
from testkit.queues.looking import filled, parked, starts
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
RATE = Limit("api", rate="10/s", burst=3, per="client")


def looks_at_lists(server: Server) -> int:
    """How often lists were looked at since the server started."""
    stats = server.call("INFO", "commandstats")
    assert isinstance(stats, bytes)
    return int(stats.split(b"cmdstat_llen:calls=")[1].split(b",")[0])


async def test_each_client_starts_a_burst_and_then_one_after_the_other(queue: ReliableQueue) -> None:
    await filled(queue, RATE)
    assert await starts(queue) == "ababab"
    seen = []
    for _ in range(4):
        await move_clock(queue, 0.05)
        seen.append(await starts(queue))
    assert seen == ["", "ab"] * 2


async def test_a_client_at_its_limit_does_not_hold_back_the_others(queue: ReliableQueue) -> None:
    await filled(queue, RATE, clients="a")
    await queue.enqueue_many([NewItem("x", client="b"), NewItem("y")])
    assert sorted(await starts(queue)) == sorted("aaab-")
    await queue.enqueue_many([NewItem("x", client="b"), NewItem("y")])
    assert sorted(await starts(queue)) == sorted("b-")


async def test_items_without_a_client_have_no_limit_per_client(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[RATE])
    await queue.enqueue_many(NewItem("x") for _ in range(10))
    assert len(await starts(queue)) == 10


async def test_the_only_client_is_held_back_too(queue: ReliableQueue) -> None:
    await filled(queue, RATE, clients="a")
    assert (await starts(queue), await starts(queue)) == ("aaa", "")
    await move_clock(queue, 0.1)
    assert await starts(queue) == "a"


async def test_a_claim_looks_at_no_client_that_is_parked(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("api", rate="1/h", per="client"), clients="abcdef")
    assert await starts(queue) == "abcdef"
    assert parked(server) == 6
    before = looks_at_lists(server)
    assert await starts(queue) == ""
    after = looks_at_lists(server)
    assert after - before < 6


async def test_a_client_that_empties_while_parked_has_one_place(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=2, per="client"), clients="a", count=3)
    assert await starts(queue) == "aa"
    await queue.flush_client("a")
    await queue.enqueue_many([NewItem("again", client="a"), NewItem("b", client="b")])
    assert server.call("ZCARD", "cq:{q}:clients") == 2
    assert await starts(queue) == "b"
    assert (server.call("ZCARD", "cq:{q}:clients"), parked(server)) == (1, 1)
    await move_clock(queue, 3600)
    assert await starts(queue) == "a"


async def test_a_limit_of_the_queue_and_one_of_each_client_hold_together(queue: ReliableQueue) -> None:
    await filled(queue, RATE, Limit("all", rate="1/h", burst=5))
    assert await starts(queue) == "ababa"
    await move_clock(queue, 0.5)
    assert await starts(queue) == ""


async def test_one_worker_waits_for_the_client_that_is_next(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await filled(queue, Limit("api", rate="10/s", per="client"))
    assert await starts(queue, 1) == "a"
    await move_clock(queue, 0.05)
    assert await starts(queue, 2) == "b"
    waits = [await worker._claim_once(1, None) for worker in (queue, other_worker)]
    assert [wait.next_due_in for wait in waits] == [0.05, None]
    assert all(wait.is_held_back for wait in waits)


@pytest.mark.parametrize("after", [0, 5])
async def test_a_limit_that_is_removed_gives_every_client_its_turn_back(
    queue: ReliableQueue, server: Server, after: int
) -> None:
    await filled(queue, Limit("api", rate="1/h", per="client"), Limit("licences", busy=90), clients="abc")
    assert await starts(queue) == "abc"
    await queue.update_policy(limits=[Limit("licences", busy=90)][:after])
    assert parked(server) == 3
    assert len(await starts(queue)) == 27
    assert parked(server) == 0


async def test_a_limit_that_is_raised_gives_every_client_its_turn_back(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=2, per="client"))
    assert (await starts(queue), await starts(queue)) == ("abab", "")
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=5, per="client")])
    assert (await starts(queue), await starts(queue)) == ("ababab", "")
    await queue.update_policy(limits=[Limit("api", rate="10/s", per="client")])
    await move_clock(queue, 0.1)
    assert (await starts(queue), await starts(queue)) == ("ab", "")


async def test_a_temporary_limit_per_client_ends_by_itself(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=5, per="client"))
    await queue.set_limit(Limit("api", rate="1/h", burst=1, per="client"), until=timedelta(seconds=60))
    assert (await starts(queue), await starts(queue)) == ("ab", "")
    await move_clock(queue, 60)
    assert (await starts(queue), await starts(queue)) == ("abababab", "")


async def test_items_given_back_before_their_app_began_give_their_starts_back(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=3, per="client"), clients="ab", count=9)
    claims = await queue.claim(6, wait=0)
    assert await starts(queue) == ""
    await queue.unclaim([claim for claim in claims if claim.item.client == "b"][:2])
    assert (await starts(queue), await starts(queue)) == ("bb", "")


async def test_an_item_that_started_without_the_limit_gives_no_start_back(queue: ReliableQueue) -> None:
    limit = Limit("api", rate="1/h", burst=2, per="client")
    await filled(queue, limit, clients="a")
    assert await starts(queue) == "aa"
    await queue.remove_limit("api", until=timedelta(seconds=60))
    claims = await queue.claim(1, wait=0)
    await queue.reset_limits()
    await queue.unclaim(claims)
    assert await starts(queue) == ""


async def test_an_item_that_comes_back_beside_parked_clients_keeps_none_of_them_out(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, RATE, clients="a")
    await queue.enqueue("x", client="b")
    claims = await queue.claim(100, wait=0)
    await queue.unclaim([claim for claim in claims if claim.item.client == "b"])
    await move_clock(queue, 0.1)
    assert sorted(await starts(queue)) == ["a", "b"]
    await move_clock(queue, 0.1)
    assert await starts(queue) == "a"


async def test_clients_are_not_held_back_by_a_limit_that_was_raised_after_a_pause(
    queue: ReliableQueue,
) -> None:
    await filled(queue, Limit("api", rate="1/h", per="client"), clients="a")
    assert await starts(queue) == "a"
    await queue.pause()
    assert await starts(queue) == ""
    await queue.update_policy(limits=[RATE])
    await queue.resume()
    await move_clock(queue, 1)
    assert await starts(queue) == "aaa"


async def test_items_past_their_deadline_are_no_starts(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=2, per="client")])
    await queue.enqueue_many(NewItem("late", client="a", deadline=1.0) for _ in range(5))
    await filled(queue, Limit("api", rate="1/h", burst=2, per="client"), clients="a", count=5)
    await move_clock(queue, 2)
    seen = ""
    for _ in range(10):
        seen += await starts(queue)
    assert seen == "aa"


async def test_a_claim_by_id_starts_at_once_and_counts(queue: ReliableQueue) -> None:
    await queue.enqueue("chosen", id="chosen", client="a")
    await filled(queue, Limit("api", rate="1/s", burst=2, per="client"), clients="a")
    assert await queue.claim_item("chosen") is not None
    assert await starts(queue) == "a"


async def test_a_repeated_flip_of_limits_loses_no_client(queue: ReliableQueue, server: Server) -> None:
    names = [f"c{number}" for number in range(2500)]
    limits = [Limit("api", rate="1/h", burst=burst, per="client") for burst in (1, 2, 3)]
    await queue.update_policy(limits=limits[:1])
    await queue.enqueue_many(NewItem(name, client=name) for name in names for _ in range(5))
    while parked(server) < len(names):
        await queue.claim(500, wait=0)
    for limit in limits[1:]:
        await queue.update_policy(limits=[limit])
        assert len(await queue.claim(1, wait=0)) == 1
    started = 2
    while claims := await queue.claim(500, wait=0):
        started += len(claims)
    assert started == 2 * len(names)
    assert parked(server) == len(names)


async def test_in_every_window_no_more_items_of_a_client_start_than_its_rate_allows(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    work, rate = RandomClaims(queue, other_worker), Limit("api", rate="7/s", burst=3, per="client")
    await queue.update_policy(limits=[rate])
    await queue.enqueue_many(NewItem(f"{number}", client=f"c{number % 5}") for number in range(1500))
    for _ in range(500):
        await work.wait(0, 0.001, 0.02, 0.1, 0.1428, 0.4, 1.5)
        match work.choose.randrange(5):
            case 0 | 1 | 2:
                await work.claim(8)
            case 3 if work.held:
                await work.unclaim()
            case _:
                if work.held:
                    await queue.done(work.pop())
    starts_of_clients = work.instants("client")
    assert sum(map(len, starts_of_clients.values())) > 300
    for instants in starts_of_clients.values():
        assert fullest(instants, rate) <= 3


async def test_levels_of_clients_that_are_at_no_limit_are_swept(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, Limit("api", rate="1/m", burst=2, per="client"), clients="abcdef", count=2)
    assert len(await starts(queue)) == 12
    await move_clock(queue, 60)
    await queue.reap()
    assert server.call("HLEN", "cq:{q}:starts") == 6
    await move_clock(queue, 60)
    await queue.reap()
    assert server.call("HLEN", "cq:{q}:starts") == 0


async def test_a_parked_client_that_the_ring_has_lost_gets_its_place_back(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("api", rate="1/m", per="client"))
    assert await starts(queue) == "ab"
    server.call("ZREM", "cq:{q}:clients", "a")
    await queue.reap()
    await move_clock(queue, 60)
    assert sorted(await starts(queue)) == ["a", "b"]


async def test_a_flush_leaves_the_starts_that_count_and_a_deletion_none(
    queue: ReliableQueue, server: Server
) -> None:
    limit = Limit("api", rate="1/h", burst=3, per="client")
    await filled(queue, limit)
    assert len(await queue.claim(4, wait=0)) == 4
    await queue.flush()
    await filled(queue, limit)
    assert await starts(queue) == "ab"
    await queue.delete()
    assert server.call("EXISTS", "cq:{q}:starts") == 0


async def test_an_unclaimed_item_of_a_new_client_goes_before_parked_ones(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", per="client"))
    await queue.enqueue("only", client="c")
    claims = {claim.item.client: claim for claim in await queue.claim(3, wait=0)}
    await queue.unclaim(claims["c"])
    assert await starts(queue) == "c"


async def test_a_snapshot_says_how_many_items_the_clients_may_start(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="10/s", burst=3, per="client"))
    await queue.enqueue("without a client")
    before = (await queue.snapshot()).limits
    assert before is not None
    assert (before.startable, before.next_start_in, before.clients) == (7, None, 2)
    assert before.startable_by(before.limits[0], 0) == 7
    assert len(await starts(queue)) == 7
    await move_clock(queue, 0.04)
    after = (await queue.snapshot()).limits
    assert after is not None
    assert (after.startable, after.next_start_in, after.clients) == (0, 0.06, 2)


async def test_where_names_the_limit_of_the_client_and_until_about_when(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/m", burst=2, per="client"), clients="a", count=2)
    last = (await queue.enqueue("last", client="a")).id
    await queue.enqueue("other", client="b")
    assert len(await queue.claim(3, wait=0)) == 3
    await queue.enqueue("again", client="b")
    seen = await queue.where(last)
    assert seen is not None
    now = (await queue.snapshot()).now
    assert (seen.reason, seen.until) == ("limit", now + 60)
    assert seen.text.startswith("the limit api of its client a is reached until about ")
    more = (await queue.enqueue("more", client="a")).id
    seen = await queue.where(more)
    assert seen is not None
    assert seen.until == now + 120
