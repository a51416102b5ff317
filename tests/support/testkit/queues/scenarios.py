"""Calls of every script that writes, each in a state of the world that it does all of its work in."""

from __future__ import annotations

from claimq import Done, FailedPolicy, NewItem, OnExpiry, Policy, Reason, ReliableQueue, RetryDelay
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.queue.claiming import new_nonce
from testkit.queues.clock import move_clock
from testkit.queues.retries import retrying_at_once
from testkit.queues.scenario_world import GIVING_BACK, STATS_AND_CALLS, Call, Scenarios, World
from testkit.queues.scenarios_by_priority import BY_PRIORITY

CLIENTS = "main:ann main:bob clients heads "
SCENARIOS = Scenarios(BY_PRIORITY)
scenario = SCENARIOS.register


async def _fill(queue: ReliableQueue, *clients: str) -> None:
    """Two bare items and two of each client."""
    await queue.enqueue_many(["a", "b"])
    await queue.enqueue_many([NewItem(f"{client}{n}", client=client) for n in range(2) for client in clients])


@scenario(STATS_AND_CALLS + "config main wake")
async def enqueue_without_a_client(world: World) -> Call:
    return lambda: world.first.enqueue_many(["a", "b"])


@scenario(STATS_AND_CALLS + "config main main:ann clients heads wake")
async def enqueue_for_a_client(world: World) -> Call:
    await _fill(world.first, "ann", "bob")
    return lambda: world.first.enqueue("x", client="ann")


@scenario(STATS_AND_CALLS + "config main wake delayed ids main:ann clients heads")
async def enqueue_of_all_kinds(world: World) -> Call:
    kinds = ["a", NewItem("b", id="mine"), NewItem("c", delay=9), NewItem("d", client="ann", id="o", delay=9)]
    return lambda: world.first.enqueue_many(kinds)


@scenario(
    STATS_AND_CALLS
    + "config main wake other:stats other:config other:main other:wake other:ids "
    + "other:main:ann other:clients other:heads"
)
async def enqueue_to_two_queues(world: World) -> Call:
    return lambda: world.store.enqueue({"q": ["a"], "other": ["b", NewItem("c", id="x", client="ann")]})


@scenario(STATS_AND_CALLS + "config main wake other:stats other:main")
async def enqueue_nothing_to_a_second_queue(world: World) -> Call:
    return lambda: world.store.enqueue({"q": ["a"], "other": []})


@scenario(STATS_AND_CALLS + "config main clients claims wake leases workers present delayed busy:w1")
async def claim_without_clients(world: World) -> Call:
    await _fill(world.first)
    return lambda: world.first.claim(3, wait=0)


@scenario(STATS_AND_CALLS + "config main clients claims wake leases workers present delayed busy:w1")
async def claim_while_a_delayed_item_is_due(world: World) -> Call:
    await _fill(world.first)
    await world.first.enqueue("later", delay=1)
    await move_clock(world.first, 2)
    return lambda: world.first.claim(2, wait=0)


@scenario(
    STATS_AND_CALLS
    + "config main clients claims wake leases workers present delayed busy:w1 heads main:ann main:bob"
)
async def claim_from_clients_and_main(world: World) -> Call:
    await _fill(world.first, "ann", "bob")
    return lambda: world.first.claim(5, wait=0)


@scenario(
    STATS_AND_CALLS + "config main clients claims wake leases workers present delayed busy:w1 heads main:ann"
)
async def claim_from_one_client(world: World) -> Call:
    await world.first.enqueue_many([NewItem(f"x{n}", client="ann") for n in range(3)])
    return lambda: world.first.claim(2, wait=0)


@scenario(
    STATS_AND_CALLS
    + "config main clients claims wake leases workers present delayed busy:w1 heads main:ann main:cid"
)
async def claim_after_a_list_in_the_ring_was_deleted(world: World) -> Call:
    for client in ("ann", "cid", "bob"):
        await world.first.enqueue_many([NewItem(f"{client}{n}", client=client) for n in range(2)])
    world.server.call("DEL", world.key("main:cid"))
    return lambda: world.first.claim(2, wait=0)


@scenario(STATS_AND_CALLS + "config claims clients main wake leases workers present delayed busy:w1")
async def claim_of_nothing(world: World) -> Call:
    return lambda: world.first.claim(1, wait=0)


@scenario(STATS_AND_CALLS + "config main clients claims wake leases workers present delayed busy:w1 levels")
async def claim_one_item_without_a_client(world: World) -> Call:
    await world.first.enqueue_many([NewItem(name, id=name) for name in ("a", "b", "c")])
    return lambda: world.first.claim_item("b")


@scenario(
    STATS_AND_CALLS
    + "config main main:cid clients heads main:bob claims wake leases workers present delayed busy:w1 levels"
)
async def claim_the_last_item_of_a_client(world: World) -> Call:
    await world.first.enqueue_many([NewItem(name, id=name, client=name) for name in ("ann", "bob", "cid")])
    await world.first.claim(1, wait=0)
    return lambda: world.first.claim_item("bob")


@scenario(STATS_AND_CALLS + "config main clients claims wake leases workers present delayed busy:w1 levels")
async def claim_one_delayed_item(world: World) -> Call:
    await world.first.enqueue("later", id="later", delay=60)
    return lambda: world.first.claim_item("later")


async def _held(world: World, *clients: str) -> list[str]:
    """Items held by two workers; returns their tokens."""
    await _fill(world.first, *clients)
    claims = await world.first.claim(1, wait=0) + await world.second.claim(1, wait=0)
    claims += await world.first.claim(1, wait=0) if not clients else await world.first.claim(3, wait=0)
    return [claim.token for claim in claims]


@scenario(STATS_AND_CALLS + "config leases busy:w1 busy:w2")
async def done_of_two_workers(world: World) -> Call:
    tokens = await _held(world)
    return lambda: world.first.done(tokens)


@scenario(STATS_AND_CALLS + "config leases busy:w1")
async def done_of_one(world: World) -> Call:
    token, *_ = await _held(world)
    return lambda: world.first.done(token)


@scenario(
    STATS_AND_CALLS + "config claims wake leases workers present delayed busy:w1 busy:w2 main " + CLIENTS
)
async def done_of_two_workers_and_claim(world: World) -> Call:
    tokens = await _held(world, "ann", "bob")
    await _fill(world.first, "ann", "bob")
    return lambda: next_claims(world.first).done_and_claim(tokens, 5)


@scenario(
    STATS_AND_CALLS
    + "leases busy:w1 busy:w2 config main wake delayed main:ann clients heads "
    + "other:stats other:config other:main other:wake other:ids"
)
async def done_with_followers(world: World) -> Call:
    one, two, *_ = await _held(world)
    here = [NewItem("next", delay=9), NewItem("next", client="ann")]
    there = {"other": [NewItem("next", id="x")]}
    return lambda: world.first.done([Done(one, here), Done(two, there)])


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK + CLIENTS)
async def fail_to_main(world: World) -> Call:
    tokens = await _held(world, "ann", "bob")
    await world.first.set_policy(retrying_at_once())
    return lambda: world.first.fail(tokens, "broken")


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK)
async def fail_to_failed(world: World) -> Call:
    tokens = await _held(world)
    return lambda: world.first.fail(tokens, "broken", permanent=True)


@scenario("calls:INSTANCE " + GIVING_BACK.replace("busy:w1", "busy:w2"))
async def fail_over_the_limit_of_failed(world: World) -> Call:
    first, second = await _held(world)
    await world.first.fail(first, "broken", permanent=True)
    await world.first.set_policy(Policy(failed=FailedPolicy(max_items=1)))
    return lambda: world.first.fail(second, "broken", permanent=True)


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK)
async def drop(world: World) -> Call:
    tokens = await _held(world)
    return lambda: world.first.drop(tokens, "broken")


@scenario(STATS_AND_CALLS + "failed failed:items failed:reasons removed")
async def remove_failed_by_the_policy(world: World) -> Call:
    await _failed(world)
    chunk: list[str | int] = ["", 0, 0, "-inf", 0, 100, 0, 0, "policy"]
    return lambda: world.first._run_counted("remove_failed", list(chunk))


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK)
async def fail_to_delayed(world: World) -> Call:
    await world.first.set_policy(Policy(retry_delay=RetryDelay(initial=9, jitter=0)))
    tokens = await _held(world)
    return lambda: world.first.fail(tokens, "broken")


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK)
async def requeue_with_a_delay(world: World) -> Call:
    tokens = await _held(world)
    return lambda: world.first.requeue(tokens, delay=9)


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK + CLIENTS)
async def unclaim(world: World) -> Call:
    tokens = await _held(world, "ann", "bob")
    return lambda: world.first.unclaim(tokens)


@scenario("calls:INSTANCE busy:w2 " + GIVING_BACK + CLIENTS)
async def crash(world: World) -> Call:
    tokens = await _held(world, "ann", "bob")
    return lambda: world.first.crash(tokens, "killed")


@scenario("stats config leases workers busy:w1 busy:w2")
async def renew(world: World) -> Call:
    tokens = await _held(world)
    return lambda: world.first.renew(tokens)


async def _expired(world: World, policy: Policy, *clients: str) -> Call:
    await world.first.set_policy(policy)
    await _held(world, *clients)
    await world.first.enqueue_many([NewItem("due", client="cid", delay=1), NewItem("due", delay=1)])
    await move_clock(world.first, 31)
    return lambda: world.first._connection.run("reap", [world.key("main")], [100])


@scenario(GIVING_BACK + "present busy:w2 main:ann main:bob main:cid clients heads")
async def reap_to_main(world: World) -> Call:
    return await _expired(world, Policy(), "ann", "bob")


@scenario(GIVING_BACK + "present busy:w2 main:cid clients heads")
async def reap_to_failed(world: World) -> Call:
    return await _expired(world, Policy(on_expiry=OnExpiry.FAIL))


@scenario(GIVING_BACK + "present busy:w2 main:cid clients heads")
async def reap_and_drop(world: World) -> Call:
    return await _expired(world, Policy(on_expiry=OnExpiry.DROP))


@scenario(GIVING_BACK + "present busy:w2 main:cid clients heads")
async def reap_to_delayed(world: World) -> Call:
    return await _expired(world, Policy(retry_delay=RetryDelay(initial=9, jitter=0)))


@scenario(
    "stats config main claims wake leases workers ids busy:w1 busy:w2 levels keys held delayed "
    "failed failed:reasons starts"
)
async def repair_of_everything(world: World) -> Call:
    """Ended claim calls, old ids, a worker not seen for long, a lease that ends too late, a bare payload."""
    await world.first.enqueue_many([NewItem(payload, id=payload) for payload in "abcd"])
    await world.first.done(await world.first.claim(1, wait=0))
    await world.second.claim(1, wait=0)
    (held,) = await world.first.claim(1, wait=0)
    await move_clock(world.first, 3700)
    world.server.call("ZADD", world.key("leases"), 10**15, held.token)
    world.server.call("DEL", world.key("wake"))
    world.server.call("RPUSH", world.key("main"), "bare")
    return lambda: world.first._connection.run("repair", [world.key("main")], [100])


@scenario("calls:INSTANCE " + GIVING_BACK + CLIENTS)
async def release_a_crashed_worker(world: World) -> Call:
    await _held(world, "ann", "bob")
    return lambda: world.first.release_worker("w1")


@scenario("calls:INSTANCE " + GIVING_BACK + CLIENTS)
async def release_an_interrupted_worker(world: World) -> Call:
    await _held(world, "ann", "bob")
    return lambda: world.first.release_worker("w1", Reason.INTERRUPTED)


async def _failed(world: World) -> None:
    await world.first.update_policy(fairness_by="count")  # so that turns depend on no time
    tokens = await _held(world, "ann", "bob")
    await world.first.fail(tokens, "broken", permanent=True)


@scenario(STATS_AND_CALLS + "failed failed:items failed:reasons wake main " + CLIENTS)
async def requeue_failed(world: World) -> Call:
    await _failed(world)
    return world.first.requeue_failed


@scenario(STATS_AND_CALLS + "failed failed:items failed:reasons removed")
async def remove_failed(world: World) -> Call:
    await _failed(world)
    return lambda: world.first.remove_failed(log_limit=9)


@scenario("stats present")
async def announce(world: World) -> Call:
    connection = world.store._connection
    return lambda: connection.run("announce", ["cq:{q}:main"], [connection.lanes.instance, "w1", 0])


@scenario(STATS_AND_CALLS)
async def withdraw(world: World) -> Call:
    await _fill(world.first)
    connection = world.store._connection
    claimed = connection.lanes.take()
    await world.first.claim(1, wait=0)
    known = connection.incarnations["cq:{q}:main"]
    await connection.run(
        "claim", ["cq:{q}:main"], [*claimed, "w1", 1, new_nonce(connection.lanes.instance), known]
    )
    last = connection.lanes.next_on(claimed)
    connection.lanes.give(claimed)
    return lambda: connection.run("withdraw", ["cq:{q}:main"], [*last, claimed[2]])


@scenario(STATS_AND_CALLS + "main leases delayed failed clients workers")
async def flush(world: World) -> Call:
    await _failed(world)
    await _held(world, "ann", "bob")
    return world.first.flush


@scenario(STATS_AND_CALLS + "main leases delayed failed clients workers")
async def flush_of_main(world: World) -> Call:
    await _fill(world.first, "ann")
    return world.first.flush


@scenario(STATS_AND_CALLS + "main:ann clients heads levels")
async def flush_client(world: World) -> Call:
    await _fill(world.first, "ann", "bob")
    return lambda: world.first.flush_client("ann")


@scenario("calls:INSTANCE stats main leases delayed failed clients workers")
async def delete(world: World) -> Call:
    await _failed(world)
    await _held(world, "ann", "bob")
    return world.first.delete


@scenario("stats pauses clients wake config")
async def pause(world: World) -> Call:
    await _fill(world.first, "ann")
    return lambda: world.first.pause(client="ann")


@scenario("stats config")
async def update_policy(world: World) -> Call:
    await world.first.update_policy(failed_remove_min_age=9)
    return lambda: world.first.update_policy(failed_remove_min_given_up_count=2, suspended=True)


@scenario("stats main main:bob clients leases delayed failed failed:items failed:reasons busy:w1 busy:w2")
async def explain(world: World) -> Call:
    """Items that the worker gave back as crashed, in every state."""
    await _failed(world)
    tokens = await _held(world, "ann", "bob")
    await world.first.crash(tokens[:1], "killed")
    await world.first.set_policy(Policy(retry_delay=RetryDelay(initial=9, jitter=0)))
    await world.first.crash(tokens[2:3], "killed")
    await world.first.set_policy(Policy(requeue_limit=0))
    await world.first.crash(tokens[3:4], "killed")
    return lambda: internals(world.first).explain("w1", "OOMKilled: exit code 137")


@scenario(
    "stats main main:bob clients wake heads leases delayed failed failed:items failed:reasons removed config "
    "busy:w2 levels"
)
async def recount(world: World) -> Call:
    """Items that the worker gave back as interrupted: two wait again, another worker has one."""
    await _failed(world)
    tokens = await _held(world, "ann", "bob")
    await world.first.unclaim([tokens[0], *tokens[2:]], why="asked to end")
    await world.second.claim(1, wait=0)
    return lambda: internals(world.first).recount("w1", "worker ended: evicted")


@scenario("stats audit calls:INSTANCE")
async def record_action(world: World) -> Call:
    return lambda: world.first.record_action("ann", "pause")


@scenario("stats config")
async def own(world: World) -> Call:
    await _fill(world.first)
    return lambda: internals(world.first).own(Owner("cluster", "namespace", "name", "uid"))
