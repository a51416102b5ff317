"""A bound on what waits: new items over it are refused, all of a call; what is in the queue already never is."""

import re
from itertools import pairwise

import pytest
import redis

import claimq
from claimq import Done, MaxWaiting, NewItem, Policy, QueueFull, ReliableQueue
from claimq.internals.operations import internals
from claimq.model import State
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths
from testkit.queues.retries import retrying_at_once
from testkit.servers.contents import changes, contents
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
WHY = "its worker was asked to end at once"


def counts_of_delayed(server: Server) -> dict[str, str]:
    """The counts of delayed items by client, after a comparison with the items themselves."""
    with redis.Redis(unix_socket_path=str(server.unix_path)) as client:
        stored = read_queue(client, "q")
    assert inconsistencies(stored) == []
    return stored.delayed_clients


async def refused(queue: ReliableQueue, *items: object) -> QueueFull:
    """The error of an enqueue, which has changed nothing."""
    with pytest.raises(QueueFull) as caught:
        await queue.enqueue_many(items)
    return caught.value


@pytest.mark.frozen_clock(False)
@pytest.mark.parametrize(
    "new", ["c", NewItem("c", client="ann"), NewItem("c", delay=9), NewItem("c", id="own")]
)
async def test_an_enqueue_over_the_bound_changes_nothing_and_has_the_numbers(
    server: Server, queue: ReliableQueue, new: object
) -> None:
    await queue.update_policy(max_waiting_items=4)
    await queue.enqueue_many(["a", NewItem("b", client="ann"), NewItem("later", delay=60)])
    before = contents(server)
    error = await refused(queue, "d", new)
    assert changes(before, contents(server)) == {}
    assert (error.queue, error.waiting, error.limit, error.adding, error.client) == ("q", 3, 4, 2, None)
    assert str(error) == (
        "the queue q is full: 3 of at most 4 items wait, and this call adds 2; enqueue again later, add workers, or "
        "raise maxWaiting.items"
    )
    await queue.enqueue_many([new])
    assert (await refused(queue, "d")).waiting == 4


async def test_a_single_item_is_refused_at_the_bound_and_taken_after_a_claim(queue: ReliableQueue) -> None:
    await queue.update_policy(max_waiting_items=3)
    for payload in "abc":
        await queue.enqueue(payload)
    for _ in range(2):
        assert (await refused(queue, "d")).waiting == 3
    await queue.claim(wait=0)
    assert (await queue.enqueue("d")).length == 3
    assert (await refused(queue, "e")).waiting == 3


async def test_a_client_at_its_bound_keeps_no_other_from_adding_items(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(max_waiting=MaxWaiting(per_client_items=2)))
    await queue.enqueue_many([NewItem("1", client="ann"), NewItem("2", client="ann", delay=60)])
    error = await refused(queue, NewItem("3", client="bob"), NewItem("3", client="ann"))
    assert (error.waiting, error.limit, error.adding, error.client) == (2, 2, 1, "ann")
    assert "the queue q is full for the client ann: 2 of at most 2 items wait" in str(error)
    assert str(error).endswith("or raise maxWaiting.perClient.items")
    await queue.enqueue_many([NewItem("1", client="bob"), NewItem("2", client="bob", priority="high")])
    assert (await refused(queue, NewItem("3", client="bob"))).client == "bob"
    await queue.enqueue_many(["no", "client", "at", NewItem("all", delay=60)])
    assert counts_of_delayed(server) == {"ann": "1"}


async def test_the_error_of_a_call_larger_than_the_bound_has_the_size_that_fits(queue: ReliableQueue) -> None:
    await queue.update_policy(max_waiting_items=2)
    assert "this call adds 3; make calls of at most 2" in str(await refused(queue, *"abc"))


async def test_a_known_id_stores_nothing_and_is_never_refused(queue: ReliableQueue) -> None:
    await queue.update_policy(max_waiting_items=1)
    await queue.enqueue("a", id="own")
    assert (await queue.enqueue("a", id="own")).is_duplicate
    done = await queue.enqueue_many([NewItem("a", id="own"), NewItem("a", id="own")])
    assert done.duplicates == ("own", "own")
    assert (await refused(queue, NewItem("a", id="own"), "b")).adding == 1


async def test_several_queues_get_all_items_or_none(store: claimq.Server, queue: ReliableQueue) -> None:
    await store.queue("r").update_policy(max_waiting_items=1)
    await store.enqueue({"q": ["a"], "r": ["a"]})
    with pytest.raises(QueueFull) as caught:
        await store.enqueue({"q": ["b"], "r": ["b"]})
    assert (caught.value.queue, caught.value.waiting) == ("r", 1)
    assert await lengths(queue) == Lengths(main=1)


async def test_calls_before_the_full_one_are_stored_and_the_error_counts_them(queue: ReliableQueue) -> None:
    await queue.update_policy(max_waiting_items=2500)
    error = await refused(queue, *map(str, range(3001)))
    assert (error.stored_count, error.waiting, error.adding) == (2000, 2000, 1000)
    assert await lengths(queue) == Lengths(main=2000)


async def test_what_is_in_the_queue_already_returns_to_it_over_the_bound(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=9, busy_expiry=30))
    await queue.enqueue_many([NewItem(str(number), client="ann") for number in range(7)])
    tokens = [claim.token for claim in await queue.claim(6, wait=0)]
    await other_worker.claim(1, wait=0)
    await queue.update_policy(max_waiting_items=1, max_waiting_per_client_items=1)
    await queue.enqueue("one")
    await queue.fail(tokens[0], "no", delay=5)
    await queue.requeue(tokens[1], delay=5)
    await queue.unclaim(tokens[2])
    await queue.crash(tokens[3], "killed")
    await queue.fail(tokens[4], "no", permanent=True)
    assert await queue.requeue_failed() == 1
    assert counts_of_delayed(server) == {"ann": "2"}
    await move_clock(queue, 31)
    await queue.reap()
    assert await lengths(queue) == Lengths(main=8)
    assert counts_of_delayed(server) == {}
    assert (await refused(queue, "two")).waiting == 8
    assert (await queue.policy()).max_waiting == MaxWaiting(1, 1)


async def test_follow_up_items_of_a_done_item_are_stored_over_the_bound(queue: ReliableQueue) -> None:
    await queue.update_policy(max_waiting_items=1)
    await queue.enqueue("first")
    (claim,) = await queue.claim(wait=0)
    await queue.enqueue("second")
    await queue.done([Done(claim, ["next", "and next"])])
    assert await lengths(queue) == Lengths(main=3)
    assert (await refused(queue, "third")).waiting == 3


async def test_pushed_payloads_are_never_refused_and_count_from_the_start(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.update_policy(max_waiting_items=2)
    server.call("LPUSH", "cq:{q}:main", "a", "b", "c")
    assert (await refused(queue, "d")).waiting == 3


async def test_delayed_items_of_each_client_are_counted_whatever_becomes_of_them(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(
        [NewItem(name, client=name[0], delay=60) for name in ("ann", "ann2", "bob", "cat")]
    )
    await queue.enqueue("none", delay=60)
    assert counts_of_delayed(server) == {"a": "2", "b": "1", "c": "1"}
    (located,) = [one for one in await queue.items(State.DELAYED) if one.item.text == "bob"]
    assert await queue.claim_item(located.item.id) is not None
    assert counts_of_delayed(server) == {"a": "2", "c": "1"}
    await queue.flush_client("a")
    assert counts_of_delayed(server)["a"] == "2"
    await queue.enqueue_many([NewItem(str(number), client="key", key="k") for number in range(3)])
    await queue.claim(1, wait=0)
    assert await other_worker.claim(1, wait=0) == []
    assert counts_of_delayed(server)["key"] == "2"
    await queue.flush()
    assert counts_of_delayed(server) == {}


async def test_a_crash_found_later_takes_an_item_out_of_delayed(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue("bad", key="k", client="ann")
    await queue.unclaim(await queue.claim(1, wait=0), why=WHY)
    await queue.enqueue("first", key="k", priority="high", client="ann")
    await other_worker.claim(1, wait=0)
    assert await queue.claim(1, wait=0) == []
    assert counts_of_delayed(server) == {"ann": "1"}
    assert await internals(queue).recount("w1", "worker ended: evicted (memory), exit code 137; pod p") == 1
    assert counts_of_delayed(server) == {}


@pytest.mark.parametrize("bound", ["no number", "", "-"])
async def test_a_bound_that_another_client_wrote_wrongly_refuses_nothing(
    server: Server, queue: ReliableQueue, bound: str
) -> None:
    await queue.enqueue("first")
    server.call("HSET", "cq:{q}:config", "max_waiting_items", bound, "max_waiting_per_client_items", bound)
    await queue.enqueue("a")
    await queue.enqueue_many(["b", NewItem("c", client="ann")])
    assert await lengths(queue) == Lengths(main=4)


def weights_of(server: Server) -> list[int]:
    """Items and bytes that are counted in main and in delayed, after a comparison with the items themselves."""
    with redis.Redis(unix_socket_path=str(server.unix_path)) as client:
        stored = read_queue(client, "q")
    assert inconsistencies(stored) == []
    return [int(number) for number in stored.stats["bound"].split()[:4]]


async def test_bytes_over_the_bound_are_refused_with_the_numbers(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.update_policy(max_waiting_bytes=1000)
    await queue.enqueue_many(["a" * 300, NewItem("b" * 300, delay=60)])
    items, waiting, delayed, later = weights_of(server)
    assert (items, delayed) == (1, 1)
    assert 600 < waiting + later < 800
    assert (await queue.snapshot()).waiting_bytes == waiting + later
    before = contents(server)
    error = await refused(queue, "c" * 300)
    assert changes(before, contents(server)) == {}
    assert (error.unit, error.waiting, error.limit, error.client) == ("bytes", waiting + later, 1000, None)
    assert 300 < error.adding < 400
    assert str(error).startswith(
        f"the queue q is full: {waiting + later} of at most 1000 bytes wait, and this call adds 3"
    )
    assert str(error).endswith("enqueue again later, add workers, or raise maxWaiting.bytes")
    await queue.enqueue("c")
    (claim,) = await queue.claim(1, wait=0)
    await queue.enqueue("d" * 300)
    assert (await refused(queue, "e" * 300)).unit == "bytes"
    await queue.done([claim])


async def test_a_client_at_its_bound_of_bytes_keeps_no_other_from_adding_items(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(max_waiting=MaxWaiting(per_client_bytes=500)))
    await queue.enqueue_many([NewItem("a" * 100, client="ann"), NewItem("b" * 100, client="ann", delay=60)])
    error = await refused(queue, NewItem("c", client="bob"), NewItem("c" * 300, client="ann"))
    assert (error.unit, error.limit, error.client) == ("bytes", 500, "ann")
    assert error.waiting == sum(weights_of(server)[1::2])
    assert str(error).endswith("or raise maxWaiting.perClient.bytes")
    await queue.enqueue_many([NewItem("c" * 300, client="bob"), "d" * 900])


@pytest.mark.parametrize("client", [None, "ann"])
async def test_bytes_are_counted_whatever_becomes_of_the_items(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue, client: str | None
) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=9, busy_expiry=30))
    await queue.update_policy(max_waiting_bytes=10**6, max_waiting_per_client_bytes=10**6)
    levels = ("high", "normal", "low", "normal", "normal", "normal", "normal", "normal")
    await queue.enqueue_many([NewItem("x" * 9, client=client, priority=level) for level in levels])
    tokens = [claim.token for claim in await queue.claim(6, wait=0)]
    await other_worker.claim(1, wait=0)
    assert weights_of(server)[0] == 1
    await queue.fail(tokens[0], "no", delay=5)
    await queue.requeue(tokens[1], delay=5)
    await queue.unclaim(tokens[2])
    await queue.crash(tokens[3], "killed")
    await queue.fail(tokens[4], "no", permanent=True)
    await queue.unclaim(tokens[5], why=WHY)
    assert weights_of(server)[0::2] == [4, 2]
    assert await internals(queue).recount("w1", "worker ended: evicted (memory), exit code 137; pod p") == 1
    assert await queue.requeue_failed() == 1
    assert weights_of(server)[0::2] == [5, 2]
    (located,) = (await queue.items(State.DELAYED))[:1]
    assert await queue.claim_item(located.item.id) is not None
    (located,) = (await queue.items(State.MAIN))[:1]
    assert await queue.claim_item(located.item.id) is not None
    assert weights_of(server)[0::2] == [4, 1]
    await move_clock(queue, 31)
    await queue.reap()
    assert weights_of(server)[0::2] == [8, 0]
    if client:
        await queue.flush_client(client)
    else:
        await queue.flush()
    assert weights_of(server) == [0, 0, 0, 0]
    await queue.update_policy(max_waiting_bytes=None, max_waiting_per_client_bytes=None)
    assert server.call("HGET", "cq:{q}:stats", "bound") is None


async def test_what_waits_when_bytes_are_bounded_counts_with_its_mean_size(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many(["a" * 200, NewItem("b" * 200, client="ann"), NewItem("c" * 200, delay=60)])
    (own,) = await queue.claim(1, wait=0)
    await queue.update_policy(max_waiting_bytes=700)
    error = await refused(queue, "d" * 300)
    assert 450 < error.waiting < 550
    assert (await queue.snapshot()).waiting_bytes == error.waiting
    assert weights_of(server) == [0, 0, 0, 0]
    await move_clock(queue, 1)
    await queue.requeue(own)
    assert (await refused(queue, "d")).waiting > 650
    assert weights_of(server)[0] == 1
    await queue.done(await queue.claim(2, wait=0))
    await move_clock(queue, 60)
    await queue.reap()
    assert weights_of(server)[2:] == [0, 0]
    await queue.claim(9, wait=0)
    assert weights_of(server) == [0, 0, 0, 0]
    await queue.enqueue("d" * 500)


async def test_the_sample_for_a_bound_on_bytes_is_small_where_items_are_large(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem("x" * 1024**2, client=f"client-{number}") for number in range(20)])
    server.call("CONFIG", "RESETSTAT")
    await queue.update_policy(max_waiting_bytes=1024**3)
    calls = re.search(r"cmdstat_lrange:calls=(\d+),", str(server.call("INFO", "commandstats")))
    assert calls is not None
    assert int(calls[1]) == 4  # two of main, which is empty, and two items


async def test_pushed_payloads_count_with_the_mean_size_until_they_have_been_claimed(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a" * 100)
    await queue.update_policy(max_waiting_bytes=1000)
    server.call("LPUSH", "cq:{q}:main", *["x"] * 9)
    assert (await refused(queue, "d")).waiting > 1000
    await move_clock(queue, 1)
    claims = await queue.claim(10, wait=0)
    assert weights_of(server) == [0, 0, 0, 0]
    await queue.unclaim(claims)
    assert weights_of(server)[0] == 9


async def test_payloads_pushed_to_an_empty_queue_count_from_the_next_repair_on(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.update_policy(max_waiting_bytes=1000)
    server.call("LPUSH", "cq:{q}:main", *["x" * 200] * 4, "y" * 100)
    await queue.reap()
    waiting = (await refused(queue, "z" * 300)).waiting
    assert 4 * 150 + 200 < waiting < 4 * 150 + 250  # the oldest one has a header
    await move_clock(queue, 1)
    await queue.done(await queue.claim(10, wait=0))
    await queue.enqueue("z" * 900)


async def test_counts_of_many_clients_are_removed_in_portions_when_the_bound_is(
    server: Server, queue: ReliableQueue
) -> None:
    def clients() -> int:
        return int(str(server.call("HLEN", "cq:{q}:bytes")))

    await queue.update_policy(max_waiting_bytes=10**9)
    await queue.enqueue_many(NewItem("a", client=f"c{number}") for number in range(3000))
    await queue.update_policy(max_waiting_bytes=None, max_waiting_items=10**6)
    assert clients() == 3000
    left = [3000]
    while left[-1]:
        await queue.reap()
        left.append(clients())
    assert max(before - after for before, after in pairwise(left)) < 1500
    await queue.update_policy(max_waiting_bytes=10**9)
    assert weights_of(server) == [0, 0, 0, 0]


async def test_repair_begins_a_lost_or_impossible_count_of_bytes_again(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.update_policy(max_waiting_bytes=1000)
    await queue.enqueue("a" * 100)
    for wrong in ("9 999 9 9 0 0", "no numbers"):
        server.call("HSET", "cq:{q}:stats", "bound", wrong)
        await queue.reap()
        assert 100 < (await refused(queue, "b" * 900)).waiting < 200
    server.call("HDEL", "cq:{q}:stats", "bound")
    await queue.reap()
    assert 100 < (await refused(queue, "b" * 900)).waiting < 200
