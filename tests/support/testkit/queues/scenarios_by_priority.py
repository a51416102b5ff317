"""Calls of scripts on items that have a priority or a key, as in testkit.queues.scenarios."""

from __future__ import annotations

from claimq import Limit, NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
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
