"""Calls of scripts on items that have a priority or a key, as in testkit.queues.scenarios."""

from __future__ import annotations

from datetime import timedelta

from claimq import Limit, NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
from testkit.queues.clock import move_clock
from testkit.queues.retries import retrying_at_once
from testkit.queues.scenario_world import GIVING_BACK, STATS_AND_CALLS, Call, Scenarios, World

BY_PRIORITY = Scenarios()
scenario = BY_PRIORITY.register
PRIORITIES = "main high low levels main:ann high:ann clients heads "


@scenario(STATS_AND_CALLS + "config main wake high low levels main:ann high:ann clients heads")
async def enqueue_with_priorities(world: World) -> Call:
    return lambda: world.first.enqueue_many(
        [NewItem("a", priority="low"), NewItem("b", client="ann", priority="high")]
    )


async def _fill_by_priority(queue: ReliableQueue) -> None:
    """Items of all priorities, without a client and of one."""
    kinds = [(client, priority) for client in (None, "ann") for priority in ("low", "normal", "high")]
    await queue.enqueue_many([NewItem("x", client=client, priority=word) for client, word in kinds * 2])


@scenario(STATS_AND_CALLS + "config claims wake leases workers present delayed busy:w1 " + PRIORITIES)
async def claim_by_priority(world: World) -> Call:
    await _fill_by_priority(world.first)
    return lambda: world.first.claim(9, wait=0)


@scenario(STATS_AND_CALLS + "config main wake keys")
async def enqueue_with_keys(world: World) -> Call:
    return lambda: world.first.enqueue_many([NewItem("x", key=key) for key in "ab"])


@scenario(
    STATS_AND_CALLS + "config claims wake leases workers present delayed busy:w1 main clients keys held"
)
async def claim_with_keys(world: World) -> Call:
    await world.first.enqueue_many([NewItem("x", key=key) for key in "aab"])
    return lambda: world.first.claim(9, wait=0)


@scenario(
    STATS_AND_CALLS
    + "config claims wake leases workers present delayed busy:w1 main main:ann main:bob clients heads keys held "
    + "starts in_progress"
)
async def done_of_a_key_and_claim_by_limits_per_client(world: World) -> Call:
    limits = [Limit("api", rate="1/h", burst=9, per="client"), Limit("slots", busy=2, per="client")]
    await world.first.update_policy(limits=limits)
    await world.first.enqueue_many([NewItem("x", client=client, key="a") for client in ("ann", "bob")] * 2)
    claims = await world.first.claim(9, wait=0)
    await world.first.enqueue_many([NewItem("x", client=client) for client in ("ann", "bob")])
    return lambda: next_claims(world.first).done_and_claim(claims, 5)


WITH_CLIENTS = "config claims wake leases workers present delayed busy:w1 main clients heads "


@scenario(STATS_AND_CALLS + WITH_CLIENTS + "keys held pauses main:bob")
async def done_of_a_key_and_claim_of_a_client_whose_turn_comes_back(world: World) -> Call:
    """Its list is read once the call has written: one of another type ends the call then."""
    await world.first.update_policy(fairness_by="time")
    await world.first.enqueue_many([NewItem("x", client=client) for client in ("ann", "bob")] * 3)
    await world.first.enqueue("x", key="a")
    await world.first.pause(client="ann", until=timedelta(seconds=1))
    claims = await world.first.claim(3, wait=0)
    await move_clock(world.first, 1)
    return lambda: next_claims(world.first).done_and_claim(claims, 1)


@scenario(STATS_AND_CALLS + WITH_CLIENTS + "keys held main:ann main:bob")
async def done_of_a_key_and_claim_behind_a_client_that_owes_time(world: World) -> Call:
    """The list of the client that comes next is read once the call has written."""
    await world.first.update_policy(fairness_by="time")
    await world.first.enqueue_many([NewItem("x", client=client) for client in ("ann", "bob", "cid")] * 3)
    await world.first.enqueue_many([NewItem("x", key="a")] * 2)
    claims = await world.first.claim(8, wait=0)
    await world.first.done([claim for claim in claims if claim.item.client == "bob"])
    await move_clock(world.first, 20)
    await world.first.done([claim for claim in claims if claim.item.client == "cid"])
    ends = [claim for claim in claims if claim.item.client is None]
    assert len(ends) == 1
    return lambda: next_claims(world.first).done_and_claim(ends, 2)


@scenario("calls:INSTANCE " + GIVING_BACK + PRIORITIES.replace("levels ", ""))
async def unclaim_by_priority(world: World) -> Call:
    await _fill_by_priority(world.first)
    claims = await world.first.claim(5, wait=0)
    return lambda: world.first.unclaim(claims)


@scenario("calls:INSTANCE " + GIVING_BACK + "high levels")
async def fail_the_first_item_with_a_priority(world: World) -> Call:
    """The counters of priorities are gone, as after a partial restore."""
    await world.first.enqueue("x", priority="high")
    claims = await world.first.claim(1, wait=0)
    world.server.call("DEL", world.key("levels"))
    world.server.call("HDEL", world.key("stats"), "levels")
    await world.first.set_policy(retrying_at_once())
    return lambda: world.first.fail(claims, "broken")
