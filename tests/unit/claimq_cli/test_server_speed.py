"""`claimq bench` measures with calls that an interruption does not abandon."""

import asyncio
from typing import Any, cast

import pytest

from claimq import ReliableQueue
from claimq_cli.server_speed import measure


class SlowQueue:
    """Its calls take until they are let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.ended = 0

    async def snapshot(self) -> None:
        self.begun.set()
        await self.let_go.wait()
        self.ended += 1


async def test_an_interruption_takes_effect_after_the_call_in_flight() -> None:
    """A call that is abandoned on its way could reach the server after the queue has been deleted."""
    queue = SlowQueue()
    running: asyncio.Task[Any] = asyncio.ensure_future(
        anext(measure(cast("ReliableQueue", queue), items=100, size=1))  # pyright: ignore[reportArgumentType] - any awaitable
    )
    await queue.begun.wait()
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    queue.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert queue.ended == 1
