"""consume() while leases run, claims are lost, callers cancel, servers go away."""

import asyncio
import threading

import pytest

from claimq import Item, Policy, ReliableQueue, State, StoreMisused
from testkit.queues.looking import lengths, texts
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually
from testkit.workers.handlers import Seen, fill

LEASE = 6.0
"""Seconds; a busy machine renews it in time."""


async def test_leases_are_renewed_while_a_handler_runs_and_while_items_wait_for_it(
    queue: ReliableQueue, seen: Seen
) -> None:
    await queue.set_policy(Policy(busy_expiry=LEASE))
    await fill(queue, 2)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, chunk=2, max_items=2))
    first = await eventually(lambda: _lease_ends(queue))
    await eventually(
        lambda: _all_later(queue, first, by=2 * LEASE), why="both leases outlive two of their lengths"
    )
    assert (await queue.reap()).expired == ()
    seen.may_go_on.set()
    consumed = await consuming
    assert (consumed.done, consumed.lost) == (2, 0)


async def _lease_ends(queue: ReliableQueue) -> list[float]:
    return [located.lease_until or 0.0 for located in await queue.items(State.BUSY)]


async def _all_later(queue: ReliableQueue, first: list[float], by: float) -> bool:
    ends = await _lease_ends(queue)
    return len(ends) == 2 and min(ends) > max(first) + by


async def test_a_shorter_lease_that_comes_while_a_longer_one_is_held_is_renewed_in_time(
    queue: ReliableQueue,
) -> None:
    done = asyncio.Event()
    started: list[str] = []

    async def handler(item: Item) -> None:
        started.append(item.text)
        await done.wait()

    await fill(queue, 1)
    consuming = asyncio.ensure_future(queue.consume(handler, max_items=2, concurrency=2))
    await eventually(lambda: started)
    await queue.set_policy(Policy(busy_expiry=LEASE))
    await fill(queue, 1)
    await eventually(lambda: len(started) == 2)
    first = min(await _lease_ends(queue))
    await eventually(lambda: _shortest_later(queue, first + 2 * LEASE), why="the short lease is renewed")
    done.set()
    assert (await consuming).lost == 0


async def _shortest_later(queue: ReliableQueue, than: float) -> bool:
    return min(await _lease_ends(queue)) > than


async def test_a_claim_that_was_lost_while_its_handler_ran_counts_as_lost(
    queue: ReliableQueue, seen: Seen
) -> None:
    await fill(queue, 1)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, max_items=1))
    await eventually(lambda: seen.running == 1)
    await queue.release_worker("w1")
    seen.may_go_on.set()
    consumed = await consuming
    assert (consumed.done, consumed.lost) == (0, 1)
    assert await lengths(queue) == (1, 0, 0, 0)


async def test_a_cancellation_interrupts_the_handler_and_gives_everything_back_in_order(
    queue: ReliableQueue, seen: Seen
) -> None:
    await fill(queue, 6)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, chunk=4))
    await eventually(lambda: seen.running == 1)
    consuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consuming
    assert texts(await queue.peek(9)) == list("012345")
    assert [item.interrupted_count for item in await queue.peek(9)] == [1, 1, 1, 1, 0, 0]


async def test_a_cancellation_waits_for_a_plain_function_and_its_item_is_done(queue: ReliableQueue) -> None:
    await fill(queue, 2)
    running, may_go_on = threading.Event(), threading.Event()

    def handler(item: Item) -> None:
        running.set()
        may_go_on.wait(PATIENCE)

    consuming = asyncio.ensure_future(queue.consume(handler, chunk=2))
    await eventually(running.is_set)
    consuming.cancel()
    asyncio.get_running_loop().call_later(0.05, may_go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await consuming
    assert texts(await queue.peek(9)) == ["1"]
    assert await queue.length(State.BUSY) == 0


async def test_a_handler_that_wants_to_exit_ends_the_program_and_its_item_goes_back(
    queue: ReliableQueue,
) -> None:
    await fill(queue, 3)

    def handler(item: Item) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        await queue.consume(handler, chunk=2)
    assert caught.value.code == 3
    assert texts(await queue.peek(9)) == ["0", "1", "2"]


async def test_an_outage_in_the_middle_is_waited_out(
    queue: ReliableQueue, seen: Seen, valkey: Server
) -> None:
    """Longer than one call tries for: claims and verdicts are retried until the server is back."""
    queue._connection.settings = type(queue._connection.settings)(url=valkey.url, retry_for=0.1)
    await fill(queue, 3)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, chunk=1, max_items=3))
    await eventually(lambda: seen.running == 1)
    valkey.sigstop()
    before = valkey.unix_path.rename(valkey.unix_path.with_name("hidden"))
    seen.may_go_on.set()
    await asyncio.sleep(0.5)
    assert not consuming.done()
    before.rename(valkey.unix_path)
    valkey.sigcont()
    consumed = await consuming
    assert seen.payloads == ["0", "1", "2"]
    assert consumed.done + consumed.lost == 3


async def test_an_error_that_retrying_does_not_solve_ends_consume(
    queue: ReliableQueue, seen: Seen, valkey: Server
) -> None:
    valkey.call("SET", "cq:{q}:main", "in the way")
    with pytest.raises(StoreMisused, match=r"cq:\{q\}:main is a string"):
        await queue.consume(seen, concurrency=3)


async def test_an_error_of_one_loop_ends_the_others_too(
    queue: ReliableQueue, seen: Seen, valkey: Server
) -> None:
    await fill(queue, 1)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=2))
    await eventually(lambda: seen.running == 1)
    valkey.call("SET", "cq:{q}:main", "in the way")
    with pytest.raises(StoreMisused):
        await consuming
    assert seen.running == 0
