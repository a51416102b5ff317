"""A run of consume() that ends during an outage: all that is left to send shares one deadline."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import claimq
from claimq import Item, Outcome, RedisSettings, ReliableQueue
from testkit.faults.proxy import FaultProxy
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually
from testkit.workers.handlers import Seen, fill

COUNT = 40


@pytest.fixture
async def far(proxy: FaultProxy) -> AsyncIterator[ReliableQueue]:
    """The queue, behind a network that can be broken, on a connection that gives a call up soon."""
    settings = RedisSettings(url=proxy.url, retry_for=0.3, reply_timeout=0.5)
    async with claimq.connect(settings=settings) as server:
        yield server.queue("q", worker="w2")


class Tried:
    """The tokens of the claims in calls of one method of a queue."""

    def __init__(self, queue: ReliableQueue, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens: set[str] = set()
        self._call = getattr(queue, method)
        monkeypatch.setattr(queue, method, self)

    async def __call__(self, claims: list[claimq.Claim], *args: Any, **kwargs: Any) -> list[Outcome]:
        self.tokens.update(claim.token for claim in claims)
        outcomes: list[Outcome] = await self._call(claims, *args, **kwargs)
        return outcomes


async def test_failures_that_wait_at_a_stop_share_one_deadline(
    queue: ReliableQueue, far: ReliableQueue, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(queue, COUNT)
    may_fail, stop, running = asyncio.Event(), asyncio.Event(), 0

    async def handler(item: Item) -> None:
        nonlocal running
        running += 1
        await may_fail.wait()
        raise ValueError(item.text)

    tried = Tried(far, "fail", monkeypatch)
    consuming = asyncio.ensure_future(far.consume(handler, concurrency=COUNT, chunk=COUNT, stop=stop))
    await eventually(lambda: running == COUNT)
    proxy.refuse()
    may_fail.set()
    await eventually(lambda: tried.tokens)
    stop.set()
    async with asyncio.timeout(PATIENCE):
        consumed = await consuming
    assert (consumed.failed, consumed.lost) == (0, COUNT)
    assert len(tried.tokens) < COUNT


async def test_claims_that_go_back_at_a_cancellation_share_one_deadline(
    queue: ReliableQueue, far: ReliableQueue, seen: Seen, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(queue, COUNT)
    seen.may_go_on.clear()
    tried = Tried(far, "unclaim", monkeypatch)
    consuming = asyncio.ensure_future(far.consume(seen, concurrency=COUNT, chunk=COUNT))
    await eventually(lambda: seen.running == COUNT)
    proxy.refuse()
    consuming.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({consuming})
    assert consuming.cancelled()
    assert len(tried.tokens) < COUNT


async def test_a_verdict_long_after_the_stop_has_the_whole_time(valkey: Server, seen: Seen) -> None:
    settings = RedisSettings(url=valkey.url, retry_for=0.1, reply_timeout=12.0)
    async with claimq.connect(settings=settings) as server:
        queue, stop = server.queue("q"), asyncio.Event()
        await fill(queue, 1)
        seen.may_go_on.clear()
        consuming = asyncio.ensure_future(queue.consume(seen, stop=stop))
        await eventually(lambda: seen.running == 1)
        stop.set()
        await asyncio.sleep(12.3)  # longer than the deadline of what waits at the stop
        seen.may_go_on.set()
        assert (await consuming).done == 1
