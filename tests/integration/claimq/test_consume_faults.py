"""consume() and its lease keeper when the server does not answer, or something unexpected happens."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

import claimq
from claimq import (
    Claim,
    ClaimqError,
    Item,
    Outcome,
    Policy,
    ReliableQueue,
    State,
    StoreMisused,
)
from claimq.consuming.claims_of_run import ClaimsOfRun
from claimq.consuming.observing import Reports
from testkit.faults.faulty_client import FaultyClient
from testkit.plugin import ProxyFactory
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually
from testkit.workers.handlers import Seen, fill


def behind(url: str) -> claimq.Server:
    """A connection that gives a call up soon."""
    return open_server(url, retry_for=0.1)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_server_that_does_not_answer_is_not_an_empty_queue(
    queue: ReliableQueue,
    seen: Seen,
    valkey: Server,
    start_proxy: ProxyFactory,
    caplog: pytest.LogCaptureFixture,
    concurrency: int,
) -> None:
    """The claims whose replies are lost hold all items: the queue looks empty until they are withdrawn."""
    proxy = start_proxy(valkey)
    async with behind(proxy.tcp_url) as server:
        far = server.queue("q")
        assert await far.claim(wait=0) == []  # connected, and the server knows the script
        await fill(queue, 5)
        proxy.black_hole("replies")
        consuming = asyncio.ensure_future(
            far.consume(seen, concurrency=concurrency, chunk=5, return_when_empty=True)
        )
        await eventually(lambda: are_in(State.BUSY, queue, 5))
        proxy.refuse()
        await eventually(lambda: "cannot claim from q" in caplog.text)
        assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 5, State.DELAYED: 0, State.FAILED: 0}
        proxy.heal()
        consumed = await consuming
    assert (consumed.done, consumed.stopped_by) == (5, "empty")
    assert sorted(seen.payloads) == list("01234")


async def are_in(state: State, queue: ReliableQueue, count: int) -> bool:
    return await queue.length(state) == count


async def test_a_stop_ends_the_wait_for_an_answer(
    queue: ReliableQueue,
    seen: Seen,
    valkey: Server,
    start_proxy: ProxyFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy = start_proxy(valkey)
    async with behind(proxy.tcp_url) as server:
        stop = asyncio.Event()
        proxy.refuse()
        consuming = asyncio.ensure_future(server.queue("q").consume(seen, return_when_empty=True, stop=stop))
        await eventually(lambda: "cannot claim from q" in caplog.text)
        stop.set()
        assert (await consuming).stopped_by == "stop"


async def lease_of(queue: ReliableQueue, token: str) -> float:
    return next(one.lease_until or 0.0 for one in await queue.items(State.BUSY) if one.name == token)


async def test_a_failed_renewal_is_tried_again_long_before_a_third_of_the_lease(
    queue: ReliableQueue, valkey: Server, start_proxy: ProxyFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease of an hour would be renewed in 20 minutes; the grace after an outage is 10 s.

    A short one makes it begin, and is released before it fails.
    """
    caplog.set_level(logging.INFO)
    await fill(queue, 2)
    await queue.set_policy(Policy(busy_expiry=3600))
    (long,) = await queue.claim()
    await queue.set_policy(Policy(busy_expiry=0.9))
    (short,) = await queue.claim()
    proxy = start_proxy(valkey)
    async with behind(proxy.tcp_url) as server:
        of_run = server.queue("q")
        claims = ClaimsOfRun(of_run, of_run._calls(), Reports(None, "q"))
        claims.take([long])
        claims.take([short])
        proxy.black_hole("replies")
        keeping = asyncio.ensure_future(claims.renewer.run())
        await eventually(lambda: proxy.opened > 0)  # the short lease is due
        claims.release([short])
        proxy.refuse()
        await eventually(lambda: "cannot renew leases" in caplog.text)
        proxy.heal()
        await eventually(lambda: "leases on q are renewed again" in caplog.text)
        keeping.cancel()


async def _is_later(queue: ReliableQueue, token: str, than: float) -> bool:
    return await lease_of(queue, token) > than


async def test_an_unexpected_error_does_not_end_the_renewal_of_leases(
    queue: ReliableQueue, seen: Seen, valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.set_policy(Policy(busy_expiry=6))
    await fill(queue, 1)
    seen.may_go_on.clear()
    client = FaultyClient(valkey.url)
    async with claimq.connect(client=client) as server:
        consuming = asyncio.ensure_future(server.queue("q", worker="w2").consume(seen, max_items=1))
        await eventually(lambda: seen.running == 1)
        client.is_broken = True
        await eventually(lambda: "cannot renew leases" in caplog.text)
        (held,) = await queue.items(State.BUSY)
        client.is_broken = False
        await queue.set_policy(Policy(busy_expiry=3600))
        await eventually(lambda: _is_later(queue, held.name, (held.lease_until or 0.0) + 3000))
        seen.may_go_on.set()
        assert (await consuming).done == 1
    await client.client.aclose()
    assert "the client library failed (KeyError)" in caplog.text


@pytest.mark.parametrize("error", [AttributeError, KeyError, IndexError, ValueError, EOFError])
async def test_consume_outlives_errors_of_any_class_in_the_client(
    queue: ReliableQueue, seen: Seen, valkey: Server, error: type[Exception]
) -> None:
    client = FaultyClient(valkey.url, error("'NoneType' object has no attribute 'writelines'"))
    async with claimq.connect(client=client) as server:
        stop = asyncio.Event()
        consuming = asyncio.ensure_future(server.queue("q", worker="w2").consume(seen, stop=stop))
        await fill(queue, 1)
        await eventually(lambda: len(seen.payloads) == 1)
        client.is_broken = True
        await fill(queue, 1)
        await eventually(lambda: client.failures > 3 or consuming.done())
        client.is_broken = False
        await eventually(lambda: len(seen.payloads) == 2 or consuming.done())
        stop.set()
        assert (await consuming).done == 2
    await client.client.aclose()


async def test_a_defect_of_our_own_is_raised_at_once_and_not_retried(valkey: Server) -> None:
    """It would come again at each retry, and its cause would be lost in the end."""
    nothing: Any = object()
    async with open_queue(valkey.url) as queue:
        connection = queue._connection
        async with asyncio.timeout(PATIENCE / 10):
            with pytest.raises(TypeError):
                await connection.run("clients", ["cq:{q}:main"], [nothing])


def _inner(item: Item) -> None:
    password = f"of {item.id}"
    raise LookupError("no such picture") from ValueError(password)


async def test_a_handlers_exception_is_logged_and_its_frames_stay_with_the_item(
    queue: ReliableQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(item: Item) -> None:
        await asyncio.sleep(0)
        _inner(item)

    await queue.enqueue("secret payload", id="i1")
    caplog.set_level(logging.ERROR, logger="claimq")
    await queue.consume(handler, max_items=1, on_failure="fail")
    (record,) = caplog.records
    assert "the handler failed on 1 of q: i1" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)
    (failed,) = await queue.failed_items()
    assert failed.item.last_error == "LookupError: no such picture"
    assert [line.rpartition(":")[2] for line in (failed.item.error_detail or "").splitlines()] == [
        f"{handler.__code__.co_firstlineno + 2} in handler",
        f"{_inner.__code__.co_firstlineno + 2} in _inner",
        "caused by ValueError",
    ]
    assert await queue.requeue_failed() == 1
    assert [item.error_detail for item in await queue.peek()] == [None]


async def test_the_frames_of_a_plain_function_begin_with_itself(queue: ReliableQueue) -> None:
    await fill(queue, 1)
    await queue.consume(_inner, max_items=1, on_failure="fail")
    (failed,) = await queue.failed_items()
    assert (failed.item.error_detail or "").partition("\n")[0].endswith("in _inner")


async def test_a_deep_recursion_keeps_its_innermost_frames(queue: ReliableQueue) -> None:
    def deep(depth: int) -> None:
        if depth == 0:
            raise LookupError("at the bottom")
        deep(depth - 1)

    await fill(queue, 1)
    await queue.consume(lambda _: deep(200), max_items=1, on_failure="fail")
    (failed,) = await queue.failed_items()
    lines = (failed.item.error_detail or "").splitlines()
    assert len(lines) == 8
    assert lines[-1].endswith(f":{deep.__code__.co_firstlineno + 2} in deep")


async def test_an_outage_between_the_calls_of_a_large_chunk_leaves_none_of_it_lost(
    queue: ReliableQueue, valkey: Server, start_proxy: ProxyFactory, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = start_proxy(valkey)
    await fill(queue, 251)
    await queue.fail(await queue.claim(), "so the server knows the script", permanent=True)

    async def handler(items: list[Item]) -> None:
        proxy.black_hole_after(matching=lambda request: b"permanent" in request.words)
        raise ValueError("broken")

    async with behind(proxy.url) as server:
        consuming = asyncio.ensure_future(
            server.queue("q").consume(handler, chunk=250, process_all=True, max_items=250, on_failure="fail")
        )
        await eventually(lambda: has_failed(queue))
        proxy.refuse()
        await eventually(lambda: "cannot settle claims of q" in caplog.text)
        proxy.heal()
        consumed = await consuming
    assert (consumed.failed, consumed.lost) == (250, 0)


class Counting:
    """An observer that counts."""

    def __init__(self) -> None:
        self.settled_count = self.given_back_count = 0

    def claimed(self, queue: str, claims: Sequence[Claim]) -> None:
        """Not counted."""

    def settled(self, queue: str, outcomes: Sequence[Outcome]) -> None:
        self.settled_count += len(outcomes)

    def given_back(self, queue: str, claims: Sequence[Claim], cause: str) -> None:
        self.given_back_count += len(claims)

    def call_failed(self, queue: str, error: ClaimqError) -> None:
        """Not counted."""


async def test_a_refusal_between_the_calls_of_a_large_chunk_counts_what_was_stored(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(queue, 250)
    drop, calls = queue.drop, list[int]()

    async def refused_later(claims: Sequence[Claim], error: str) -> list[Outcome]:
        calls.append(len(claims))
        if len(calls) > 1:
            raise StoreMisused("no right any more")
        return await drop(claims, error)

    async def handler(items: list[Item]) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(queue, "drop", refused_later)
    observer = Counting()
    with pytest.raises(StoreMisused):
        await queue.consume(handler, chunk=250, process_all=True, on_failure="drop", observer=observer)
    assert (calls, observer.settled_count, observer.given_back_count) == ([100, 100], 100, 150)
    # What a claim on its way has got by then goes back in the background.
    await eventually(lambda: are_in(State.MAIN, queue, 150))


async def has_failed(queue: ReliableQueue) -> bool:
    return await queue.length(State.FAILED) > 1
