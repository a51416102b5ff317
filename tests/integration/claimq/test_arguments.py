"""Every public function takes timedelta and datetime, and names an argument that it cannot take."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

import claimq
from claimq import Done, NewItem, Policy, Reaper, RedisSettings, ReliableQueue, State, StoreUnavailable
from claimq.internals.operations import internals
from testkit.queues.looking import texts

SECOND = timedelta(seconds=1)
Call = Callable[[ReliableQueue], Awaitable[object]]
odd: Any = "5s"

CALLS: dict[str, Callable[[ReliableQueue, Any], Awaitable[object]]] = {
    "delay of enqueue": lambda queue, value: queue.enqueue("a", delay=value),
    "delay of enqueue_many": lambda queue, value: queue.enqueue_many([NewItem("a", delay=value)]),
    "wait of claim": lambda queue, value: queue.claim(wait=value),
    "delay of requeue": lambda queue, value: queue.requeue("w1/1.AAAAAAAA", delay=value),
    "max_seconds of consume": lambda queue, value: queue.consume(print, max_seconds=value),
    "pause of consume": lambda queue, value: queue.consume(print, pause=value, return_when_empty=True),
    "min_age of requeue_failed": lambda queue, value: queue.requeue_failed(min_age=value),
    "min_age of remove_failed": lambda queue, value: queue.remove_failed(min_age=value),
    "within of explain": lambda queue, value: internals(queue).explain("w1", "a cause", within=value),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_timedelta_is_taken_and_text_is_refused_by_name(queue: ReliableQueue, name: str) -> None:
    await CALLS[name](queue, SECOND)
    with pytest.raises(TypeError, match=rf"^{name.split(maxsplit=1)[0]} is '5s'; give a number of seconds"):
        await CALLS[name](queue, "5s")


async def test_a_datetime_is_an_instant(queue: ReliableQueue) -> None:
    at = datetime.fromtimestamp((await queue.snapshot()).now + 3600, UTC)
    await queue.enqueue("a", at=at)
    await queue.enqueue_many([NewItem("b", at=at)])
    assert [located.due_at for located in await queue.items(State.DELAYED)] == [
        pytest.approx(at.timestamp(), abs=0.01)
    ] * 2
    with pytest.raises(TypeError, match=r"^at is '5s'; give an instant"):
        await queue.enqueue("a", at=odd)


COUNTS: dict[str, Call] = {
    "count of claim": lambda queue: queue.claim(odd),
    "limit of reap": lambda queue: queue.reap(odd),
    "chunk of consume": lambda queue: queue.consume(print, chunk=odd),
    "concurrency of consume": lambda queue: queue.consume(print, concurrency=odd),
    "max_items of consume": lambda queue: queue.consume(print, max_items=odd),
    "chunk of requeue_failed": lambda queue: queue.requeue_failed(chunk=odd),
    "count of peek": lambda queue: queue.peek(odd),
    "offset of peek": lambda queue: queue.peek(offset=odd),
    "count of items": lambda queue: queue.items("busy", odd),
    "offset of items": lambda queue: queue.items("busy", offset=odd),
    "count of failed_items": lambda queue: queue.failed_items(odd),
    "count of removed_items": lambda queue: queue.removed_items(odd),
    "offset of removed_items": lambda queue: queue.removed_items(offset=odd),
    "count of audit_log": lambda queue: queue.audit_log(odd),
    "offset of audit_log": lambda queue: queue.audit_log(offset=odd),
    "count of record_action": lambda queue: queue.record_action("ann", "pause", count=odd),
    "limit of requeue_failed": lambda queue: queue.requeue_failed(limit=odd),
    "max_given_up_count of requeue_failed": lambda queue: queue.requeue_failed(max_given_up_count=odd),
    "min_given_up_count of remove_failed": lambda queue: queue.remove_failed(min_given_up_count=odd),
    "log_limit of remove_failed": lambda queue: queue.remove_failed(log_limit=odd),
    "min_given_up_count of drain_failed": lambda queue: anext(queue.drain_failed(min_given_up_count=odd)),
    "limit of apply_failed_policy": lambda queue: queue.apply_failed_policy(limit=odd),
}


@pytest.mark.parametrize("name", COUNTS)
async def test_a_count_of_another_type_is_refused_by_name(queue: ReliableQueue, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name.split(maxsplit=1)[0]} is '5s'; give a whole number"):
        await COUNTS[name](queue)


@pytest.mark.parametrize("value", ["two", 1.5, -1])
async def test_a_filter_that_is_no_count_neither_removes_nor_requeues(
    queue: ReliableQueue, value: Any
) -> None:
    await queue.enqueue_many(["a", "b"])
    await queue.fail(await queue.claim(2), "broken", permanent=True)
    refused = (TypeError, ValueError)
    with pytest.raises(refused, match=r"^min_given_up_count is"):
        await queue.remove_failed(min_given_up_count=value)
    with pytest.raises(refused, match=r"^min_given_up_count is"):
        await anext(queue.drain_failed(min_given_up_count=value))
    with pytest.raises(refused, match=r"^max_given_up_count is"):
        await queue.requeue_failed(max_given_up_count=value)
    assert (await queue.lengths())[State.FAILED] == 2


async def test_an_empty_name_names_no_failed_item(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.fail(await queue.claim(), "broken", permanent=True)
    assert await queue.requeue_failed_item("") is False
    assert await queue.remove_failed_item("") is None
    assert (await queue.lengths())[State.FAILED] == 1


TOKEN = "w1/1.AAAAAAAA"
five: Any = 5
OTHERS: dict[str, tuple[Call, str]] = {
    "id": (lambda queue: queue.enqueue("a", id=five), "text"),
    "client": (lambda queue: queue.client_length(five), "text"),
    "worker": (lambda queue: queue.release_worker(five), "text"),
    "name": (lambda queue: queue.failed_item(five), "text"),
    "error": (lambda queue: queue.fail(TOKEN, five), "text"),
    "detail": (lambda queue: queue.fail(TOKEN, "broken", detail=five), "text"),
    "state": (lambda queue: queue.items(five), "one of: main, busy, delayed, failed"),
    "match": (lambda queue: queue.remove_failed(match=five), "one of: both, either"),
    "reason": (lambda queue: queue.release_worker("w1", five), "one of: crash, interrupt"),
    "on_failure": (lambda queue: queue.consume(print, on_failure=five), "one of: requeue, fail, drop"),
    "handler": (lambda queue: queue.consume(five), "a function"),
    "stop": (lambda queue: queue.consume(print, stop=five), "an asyncio.Event or a threading.Event"),
    "policy": (lambda queue: queue.set_policy(five), "a Policy"),
    "suspended": (lambda queue: queue.update_policy(suspended=five), "True or False"),
    "failed": (lambda queue: queue.update_policy(failed=five), "a FailedPolicy"),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_what_an_argument_cannot_be_is_refused_by_name(queue: ReliableQueue, name: str) -> None:
    call, wanted = OTHERS[name]
    with pytest.raises((TypeError, ValueError), match=f"^{name} is 5; give {wanted}"):
        await call(queue)


SINGLE: dict[str, Call] = {
    "enqueue_many": lambda queue: queue.enqueue_many("one item"),
    "enqueue_many of a dict": lambda queue: queue.enqueue_many({"one": "item"}),
    "enqueue of done": lambda queue: queue.done(TOKEN, enqueue="one item"),
    "enqueue of Done": lambda queue: queue.done(Done(TOKEN, b"one item")),
}


@pytest.mark.parametrize("name", SINGLE)
async def test_one_payload_is_not_taken_for_many(queue: ReliableQueue, name: str) -> None:
    with pytest.raises(TypeError, match=r"^items is (str|bytes|dict); give a list, also for one item"):
        await SINGLE[name](queue)
    assert await queue.length() == 0


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_claim_of_too_many_says_how_many_it_may_be(queue: ReliableQueue, count: int) -> None:
    with pytest.raises(ValueError, match=rf"^count is {count}; give 1 to 1,000"):
        await queue.claim(count)


async def test_settings_and_the_reaper_take_timedeltas(queue: ReliableQueue) -> None:
    settings = RedisSettings(retry_for=SECOND, reply_timeout=SECOND, connect_timeout=timedelta(seconds=2))
    assert (settings.retry_for, settings.reply_timeout, settings.connect_timeout) == (1.0, 1.0, 2.0)
    Reaper(queue, period=SECOND)
    with pytest.raises(TypeError, match=r"^retry_for is '5s'"):
        RedisSettings(retry_for=odd)
    with pytest.raises(TypeError, match=r"^period is '5s'"):
        Reaper(queue, period=odd)


async def test_a_policy_may_let_claims_wait_for_ever(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(claim_wait_timeout=None))
    assert (await queue.policy()).claim_wait_timeout is None
    waiting = asyncio.ensure_future(queue.claim())
    # A claim that waits by the default of a second would be over; this one is only just late.
    done, _ = await asyncio.wait({waiting}, timeout=1.5)
    assert not done
    await queue.enqueue("late")
    assert texts(await waiting) == ["late"]


async def test_a_call_is_tried_for_as_long_as_was_asked() -> None:
    """The pauses are random; the sum of them must not end the attempts early."""
    for _ in range(5):
        async with claimq.connect(
            settings=RedisSettings("unix:///nowhere/at/all", retry_for=timedelta(seconds=0.6))
        ) as server:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await server.ping()
            assert time.monotonic() - began >= 0.6


def test_a_synchronous_client_is_refused_with_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"synchronous redis\.client\.Redis; give one of redis\.asyncio"):
        claimq.connect(client=redis.Redis())
