"""A program that stands still for longer than it waits for its server takes the reply that has arrived by then."""

import asyncio

import pytest

from claimq.redis_store.clients.parsers import InactivityTimeout
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE


def stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets more time pass than any call waits, in which this program does nothing."""
    loop = asyncio.get_running_loop()
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + 2 * PATIENCE)


async def test_a_reply_counts_that_is_read_late(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_queue(valkey.url, retry_for=0.001) as queue:
        await queue.enqueue("first")
        call = asyncio.ensure_future(queue.enqueue("second"))
        for _ in range(100):  # one step of the call at a time, and no time for its reply
            if valkey.call("LLEN", "cq:{q}:main") == 2:
                break
            await asyncio.sleep(0)
        stand_still(monkeypatch)
        await call
        assert await queue.length() == 2


async def test_a_silent_server_still_ends_a_call_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call() -> None:
        async with InactivityTimeout(PATIENCE, PATIENCE):
            stand_still(monkeypatch)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await call()
