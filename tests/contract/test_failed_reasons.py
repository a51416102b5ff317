"""Failed items are counted by their reasons: the shapes of their errors, at every way into and out of failed."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import redis

from claimq import FailedPolicy, NewItem, OnExpiry, Policy, ReliableQueue, State
from claimq.internals.operations import internals
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.queues.clock import move_clock
from testkit.servers.server import Server

pytestmark = [pytest.mark.frozen_clock(True), pytest.mark.usefixtures("retries_at_once")]

SHAPES = [
    ("timeout after 17 ms\nmore", "timeout after # ms"),
    ("  ", "no error was given"),
    ("took 1,204.5 s of 2 s at 10.0.3.7:6379 (12:30:05)", "took # s of # s at # (#)"),
    ("no user 7f3a91 or deadbeef, in the decade of 2d", "no user # or #, in the decade of #d"),
    ("item 550e8400-e29b-41d4-a716-446655440000 is gone", "item # is gone"),
    ("item 01ARZ3NDEKTSV4RRFFQ69G5FAV is gone", "item # is gone"),
    ("OAuth2TokenExpired: the token of user_12", "OAuth#TokenExpired: the token of user_#"),
    ("<Task object at 0x7f3a9c001d40> can't run", "<Task object at #> can't run"),
    ("KeyError: 'müller' in b'raw'", "KeyError: '...' in b'...'"),
    ('invalid value "a \\ b" for colour', "invalid value '...' for colour"),
    ('HTTP 400: {"error":"card declined"}', "HTTP #: {'error':'card declined'}"),
    ("open /var/lib/a b.txt failed, read/write", "open /... b.txt failed, read/write"),
    ("[Errno 2] No such file: '/tmp/x1.png'", "[Errno #] No such file: '...'"),
    ("GET https://shop.example/orders/7?x=1 gave 500", "GET https://... gave #"),
    ("cannot mail ann.lee+7@shop.example.com today", "cannot mail ...@... today"),
    ("no route to fe80::1ff:fe23:4567:890a here", "no route to # here"),
    ("std::bad_alloc in a::b", "std::bad_alloc in a::b"),
    ("tab\there\x01", "tab here"),
    ("é" * 200, "é" * 100),
    ("a worker: w1, not w10 or my-w1", "a worker: a worker, not w# or my-w#"),
]
"""Errors that the worker w1 gives, and their reasons."""


def wrong(server: Server) -> list[str]:
    with redis.Redis(port=server.port) as client:
        return inconsistencies(read_queue(client, "q"))


async def fail(queue: ReliableQueue, *errors: str) -> None:
    for error in errors:
        await queue.enqueue("x")
        await queue.fail(await queue.claim(wait=0), error, permanent=True)
        await move_clock(queue, 0.01)


@pytest.mark.parametrize(("error", "reason"), SHAPES)
async def test_the_reason_of_a_failure_is_the_shape_of_its_error(
    queue: ReliableQueue, error: str, reason: str
) -> None:
    await fail(queue, error, error)
    assert await queue.failed_reasons() == {reason: 2}
    assert {located.item.failed_reason for located in await queue.failed_items()} == {reason}


async def test_equal_failures_with_ids_have_one_reason_however_many_they_are(queue: ReliableQueue) -> None:
    errors = [f"order {n:032x}: no file '/data/{n}' on node-{n}" for n in range(0, 10**30, 10**28)]
    await fail(queue, *errors, "disk full")
    assert await queue.failed_reasons() == {"order #: no file '...' on node-#": 100, "disk full": 1}


async def _removed_one(queue: ReliableQueue) -> None:
    assert await queue.remove_failed_item((await queue.failed_items())[0].name)


async def _requeued_one(queue: ReliableQueue) -> None:
    assert await queue.requeue_failed_item((await queue.failed_items())[0].name)


async def _drained_one(queue: ReliableQueue) -> None:
    assert [item async for item in queue.drain_failed(limit=1)]


async def _kept_two(queue: ReliableQueue) -> None:
    await queue.set_policy(replace(await queue.policy(), failed=FailedPolicy(max_items=2)))
    await queue.apply_failed_policy()


async def _pushed_out(queue: ReliableQueue) -> None:
    await queue.set_policy(replace(await queue.policy(), failed=FailedPolicy(max_items=3)))
    await fail(queue, "b 3")


async def _removed_by_count(queue: ReliableQueue) -> None:
    assert (await queue.remove_failed(min_given_up_count=1, limit=1, log_limit=0)).count == 1


LEAVING: list[tuple[Callable[[ReliableQueue], Awaitable[object]], dict[str, int]]] = [
    (_removed_one, {"b #": 2}),
    (_requeued_one, {"b #": 2}),
    (_drained_one, {"b #": 2}),
    (_kept_two, {"b #": 2}),
    (_pushed_out, {"b #": 3}),
    (_removed_by_count, {"b #": 2}),
    (ReliableQueue.requeue_failed, {}),
    (ReliableQueue.remove_failed, {}),
    (ReliableQueue.flush, {}),
    (ReliableQueue.delete, {}),
]


@pytest.mark.parametrize(("leave", "left"), LEAVING)
async def test_items_that_leave_failed_are_not_counted_any_more(
    queue: ReliableQueue,
    server: Server,
    leave: Callable[[ReliableQueue], Awaitable[object]],
    left: dict[str, int],
) -> None:
    await fail(queue, "a 1", "b 1", "b 2")
    await leave(queue)
    assert await queue.failed_reasons() == left
    assert wrong(server) == []


async def test_every_way_into_failed_counts_the_reason(queue: ReliableQueue, server: Server) -> None:
    await queue.set_policy(Policy(requeue_limit=0, on_expiry=OnExpiry.FAIL))
    await queue.enqueue_many(
        [NewItem("crash"), NewItem("lease"), NewItem("late", deadline=timedelta(seconds=60))]
    )
    await queue.crash(await queue.claim(wait=0), "exit code 137")
    await queue.claim(wait=0)
    await move_clock(queue, 3600)
    await queue.reap()
    assert await queue.claim(wait=0) == []
    assert await queue.failed_reasons() == {
        "exit code #": 1,
        "its deadline passed before it was started": 1,
        "the lease of a worker ran out": 1,
    }
    assert wrong(server) == []


async def test_a_cause_that_comes_later_moves_the_item_to_its_reason(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("x")
    await queue.crash(await queue.claim(wait=0), "killed")
    await internals(queue).explain("w1", "OOMKilled: exit code 137")
    assert await queue.failed_reasons() == {"OOMKilled: exit code #": 1}
    await queue.requeue_failed()
    assert await queue.failed_reasons() == {}


async def test_the_201st_reason_counts_as_other_until_another_one_is_gone(queue: ReliableQueue) -> None:
    letters = [chr(ord("g") + n // 20) + chr(ord("g") + n % 20) for n in range(202)]
    await fail(queue, *(f"{letter} is bad" for letter in letters[:201]), "gg is bad")
    reasons = await queue.failed_reasons()
    assert (len(reasons), reasons["(other)"], reasons["gg is bad"]) == (201, 1, 2)
    assert await queue.requeue_failed_item((await queue.failed_items(1, offset=1))[0].name)
    await fail(queue, f"{letters[201]} is bad")
    reasons = await queue.failed_reasons()
    assert (len(reasons), reasons["(other)"], reasons[f"{letters[201]} is bad"]) == (201, 1, 1)
    await queue.remove_failed()
    assert await queue.failed_reasons() == {}


async def test_lost_counts_are_unknown_until_the_sweep_counts_again(
    queue: ReliableQueue, server: Server
) -> None:
    await fail(queue, "a 1", "a 2", "b")
    server.call("DEL", "cq:{q}:failed:reasons")
    assert await queue.failed_reasons() == {"(unknown)": 3}
    await fail(queue, "a 3")
    assert await queue.failed_reasons() == {"a #": 1, "(unknown)": 3}
    await _removed_one(queue)
    assert await queue.failed_reasons() == {"(unknown)": 3}
    await queue.reap()
    assert await queue.failed_reasons() == {"a #": 2, "b": 1}


async def test_counts_that_another_client_made_too_high_are_unknown(
    queue: ReliableQueue, server: Server
) -> None:
    await fail(queue, "a 1", "b")
    server.call("HSET", "cq:{q}:failed:reasons", "a #", "7", "c", "many")
    assert await queue.failed_reasons() == {"(unknown)": 2}
    await queue.reap()
    assert await queue.failed_reasons() == {"a #": 1, "b": 1}
    assert (await queue.snapshot()).lengths[State.FAILED] == 2
