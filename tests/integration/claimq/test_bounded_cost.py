"""What a call costs the server and the caller is bounded, however many items there are."""

import asyncio
import gc
import json
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

import claimq
from claimq import FailedPolicy, NewItem, Policy, Reason, ReliableQueue, State, StoreMisused
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.queues.script_calls import run
from testkit.servers.contents import contents
from testkit.servers.patient import open_server
from testkit.servers.server import Server


def times_called(server: Server, command: str) -> int:
    """How often a command has run, also within scripts."""
    stats = server.call("INFO", "commandstats")
    assert isinstance(stats, bytes)
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", stats.decode())
    return int(found[1]) if found else 0


@pytest.mark.parametrize("reason", Reason)
async def test_releasing_a_worker_that_holds_much_reads_its_tokens_once(
    valkey: Server, queue: ReliableQueue, reason: Reason
) -> None:
    await queue.enqueue_many([str(number) for number in range(1100)])
    await queue.claim(1000)
    await queue.claim(100)
    before = times_called(valkey, "hkeys")

    assert (await queue.release_worker("w1", reason)).total == 1100

    assert times_called(valkey, "hkeys") - before == 1
    assert [item.payload for item in await queue.peek(1100)] == [b"%d" % number for number in range(1100)]


async def test_peeking_far_into_a_queue_of_many_clients_reads_only_what_it_returns(
    valkey: Server, queue: ReliableQueue
) -> None:
    clients = 400
    await queue.enqueue_many(
        [NewItem(f"{turn}-{client}", client=f"c{client}") for client in range(clients) for turn in range(3)]
    )
    await queue.enqueue("alone")
    order = [f"0-{client}" for client in range(clients)] + ["alone"]
    order += [f"{turn}-{client}" for turn in (1, 2) for client in range(clients)]
    before = times_called(valkey, "lindex") + times_called(valkey, "lrange")

    offsets = (0, 5, 399, 400, 401, 799, 1190)
    seen = [texts(await queue.peek(11, offset=offset)) for offset in offsets]

    assert seen == [order[offset : offset + 11] for offset in offsets]
    assert times_called(valkey, "lindex") + times_called(valkey, "lrange") - before <= len(offsets) * 14


async def test_one_claim_takes_500_items_of_several_clients_and_the_next_goes_on_in_turn(
    queue: ReliableQueue,
) -> None:
    await queue.update_policy(fairness_by="count")
    await queue.enqueue_many(
        [NewItem(f"{turn}-{n}", client=f"c{n}") for turn in range(2) for n in range(600)]
    )

    batches = [texts(await queue.claim(1000, wait=0)) for _ in range(3)]

    assert [len(batch) for batch in batches] == [500, 500, 200]
    assert [text for batch in batches for text in batch] == [
        f"{turn}-{n}" for turn in range(2) for n in range(600)
    ]


async def test_searching_a_long_list_reads_eight_items_at_once(valkey: Server, queue: ReliableQueue) -> None:
    for _ in range(3):
        await queue.enqueue_many(["x"] * 1000)
    await queue.done(await queue.claim(500, wait=0))
    before = times_called(valkey, "lrange")
    assert await queue.find("none") is None
    searching = times_called(valkey, "lrange") - before
    assert searching <= 2500 / 8 + 10
    assert len(await queue.peek(1000, offset=1500)) == 1000
    assert times_called(valkey, "lrange") - before - searching <= 1000 / 8 + 4


async def test_items_far_inside_a_list_cost_a_call_more_than_those_at_its_ends(
    valkey: Server, queue: ReliableQueue
) -> None:
    """The server goes to each eight of them node by node: sizes of bare payloads are unknown before they are read."""
    for _ in range(3):
        valkey.call("LPUSH", "cq:{q}:main", *["x" * 8192] * 1000)
    at_end, inside = [
        (await run(queue, "find", "none", "main", skip, 1000, "-"))[2] - skip for skip in (0, 1500)
    ]
    assert at_end >= 250
    assert 0 < inside < 220
    assert await queue.find("none") is None


async def fail_many(queue: ReliableQueue, count: int, prefix: str = "i") -> None:
    for start in range(0, count, 1000):
        size = min(1000, count - start)
        await queue.enqueue_many([NewItem("x", id=f"{prefix}{start + number}") for number in range(size)])
        await queue.fail(await queue.claim(size), "broken", permanent=True)


async def test_reapers_at_once_leave_as_many_failed_items_as_the_policy_says(
    valkey: Server, queue: ReliableQueue
) -> None:
    await fail_many(queue, 600)
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=550)))
    servers = [open_server(valkey.url) for _ in range(6)]
    reapers = [server.queue("q") for server in servers]
    await asyncio.gather(*(reaper.policy() for reaper in reapers))

    passes = await asyncio.gather(*(reaper.apply_failed_policy() for reaper in reapers))

    assert sum(done.removed for done in passes) == 50
    assert await queue.length(State.FAILED) == 550
    for server in servers:
        await server.close()


async def test_a_pass_of_the_failed_policy_is_bounded_and_the_next_one_goes_on(
    valkey: Server, store: claimq.Server, queue: ReliableQueue
) -> None:
    """Items that the filter leaves in failed for good are not read again and again."""
    await queue.enqueue("twice")
    await queue.fail(await queue.claim(), "broken", permanent=True)
    await fail_many(queue, 6500)
    await queue.set_policy(Policy(failed=FailedPolicy(remove_min_age=0, remove_min_given_up_count=2)))
    last = (await queue.failed_items(1))[0].name
    await queue.requeue_failed_item(last)
    await queue.fail(await queue.claim(), "broken", permanent=True)

    removed = [(await store.queue("q").apply_failed_policy(limit=100)).removed for _ in range(3)]
    before = times_called(valkey, "evalsha")
    again = await store.queue("q").apply_failed_policy(limit=100)

    assert (removed, again.removed) == ([0, 0, 1], 0)
    assert times_called(valkey, "evalsha") - before <= 31
    assert await queue.length(State.FAILED) == 6500


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
async def test_filters_meet_each_failed_item_once_also_where_many_failed_at_one_instant(
    queue: ReliableQueue, chunk: int
) -> None:
    await fail_many(queue, 7, "once")
    assert await queue.requeue_failed() == 7
    await queue.enqueue_many([NewItem("x", id=f"new{number}") for number in range(5)])
    await queue.fail(await queue.claim(12), "broken", permanent=True)  # all at one instant

    assert await queue.requeue_failed(max_given_up_count=1, chunk=chunk) == 5
    removed = await queue.remove_failed(min_given_up_count=2, chunk=chunk, log_limit=3)

    assert (removed.count, len(removed.items)) == (7, 3)
    assert await queue.length(State.FAILED) == 0


async def test_ids_of_producers_are_forgotten_as_fast_as_they_come(
    valkey: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(id_window=1.0))
    for batch in range(6):
        await queue.enqueue_many([NewItem("x", id=f"{batch}-{number}") for number in range(500)])
        await move_clock(queue, 2)

    assert valkey.call("ZCARD", "cq:{q}:ids") == 500


@pytest.mark.usefixtures("retries_at_once")
async def test_a_forged_history_without_end_does_not_block_the_server(
    valkey: Server, queue: ReliableQueue
) -> None:
    meta = json.dumps({"history": [{"at": 1, "kind": "fail"}] * 60_000, "requeues": 1})
    valkey.call("LPUSH", "cq:{q}:main", f"cq1 forged 1700000000000 - {meta}\nx")

    await queue.fail(await queue.claim(wait=0), "broken")

    [item] = await queue.peek()
    # It is no header of ours: the whole of it was adopted as a payload.
    assert (item.requeue_count, [entry.error for entry in item.history]) == (1, ["broken"])


async def test_failed_items_with_one_id_are_distinguished_at_a_bounded_cost(
    valkey: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    for _ in range(2):
        valkey.call("LPUSH", "cq:{q}:main", *["cq1 same 1700000000000 - -\nx"] * 300)
        before = times_called(valkey, "hexists")
        await queue.fail(await queue.claim(300), "broken")
        assert times_called(valkey, "hexists") - before <= 300 * 10 + 3  # for the permission and the reason

    names = {located.name for located in await queue.failed_items(1000)}
    assert len(names) == 600
    assert {"same", "same#2", "same#10"} < names


async def test_a_claim_that_may_not_wait_does_not_reap_for_long(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("x", delay=1) for _ in range(450)])
    await queue.pause()
    await move_clock(queue, 2)

    assert await queue.claim(wait=0) == []

    lengths = await queue.lengths()
    assert (lengths[State.MAIN], lengths[State.DELAYED]) == (200, 250)


async def test_one_step_over_several_queues_is_bounded(
    valkey: Server, store: claimq.Server, queue: ReliableQueue
) -> None:
    with pytest.raises(ValueError, match="takes 1000 items or 2 MiB, not 1001 items"):
        await store.enqueue({"q": ["x"] * 1001})
    with pytest.raises(ValueError, match="takes 1000 items or 2 MiB, not 2 items of"):
        await store.enqueue({"q": ["x" * 2**20 * 3, "y" * 2**20 * 2]})
    with pytest.raises(ValueError, match="takes 100 queues, not 101"):
        await store.enqueue({f"q{number}": ["x"] for number in range(101)})
    assert len(await store.enqueue({f"q{number}": ["x"] for number in range(100)})) == 100
    keys = [f"cq:{{q{number}}}:main" for number in range(102)]
    before = contents(valkey)
    with store._connection.lanes.new_call() as call, pytest.raises(StoreMisused):
        await store._connection.run("enqueue", keys, [*call, 1, 0, "-", "", "p", 1, 1, "x"])
    assert contents(valkey) == before
    assert await queue.length() == 0


async def longest_turn(work: Callable[[], Awaitable[object]]) -> float:
    """The most processor time that this thread takes between two turns of the event loop, without the garbage
    collector: the least of three measurements."""
    found: list[float] = []

    async def watch() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            found[-1] = max(found[-1], time.thread_time() - before)

    gc.disable()
    try:
        for _ in range(3):
            found.append(0.0)
            watching = asyncio.ensure_future(watch())
            await work()
            await asyncio.sleep(0.01)  # the last turn counts too
            watching.cancel()
    finally:
        gc.enable()
    return min(found)


async def test_looking_at_thousands_of_claims_leaves_the_event_loop_to_others(queue: ReliableQueue) -> None:
    """Each of them has a claim call of its own to be found in the log, and yet they take only some times longer than
    a thousand waiting items."""
    await queue.set_policy(Policy(busy_expiry=3600))
    await queue.enqueue_many(["x"] * 1000)
    waiting = await longest_turn(partial(queue.peek, 1000))
    await queue.enqueue_many(["x"] * 1000)
    await queue.enqueue_many(["x"] * 1000)
    for _ in range(60):
        await asyncio.gather(*(queue.claim(wait=0) for _ in range(50)))
    assert len(await queue.items(State.BUSY, 3000)) == 3000
    assert await longest_turn(partial(queue.items, State.BUSY, 3000)) < 20 * waiting
