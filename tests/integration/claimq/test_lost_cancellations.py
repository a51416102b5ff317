"""A cancellation is never lost, whichever step of a call it meets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import claimq
from claimq import ReliableQueue
from testkit.servers.server import Server

STEPS = 60
"""Steps of the event loop after which a task is cancelled: more than two calls take."""


async def lost_cancellations(work: Callable[[], Awaitable[object]]) -> list[int]:
    """After how many steps a task that repeats ``work`` did not notice its cancellation."""
    lost: list[int] = []
    for steps in range(STEPS):
        stopped = asyncio.Event()
        task = asyncio.create_task(repeat(work, stopped))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        stopped.set()
        await asyncio.wait({task})
        if not task.cancelled():
            lost.append(steps)
    return lost


async def repeat(work: Callable[[], Awaitable[object]], stopped: asyncio.Event) -> None:
    while not stopped.is_set():
        await work()


@pytest.mark.parametrize("operation", ["exists", "snapshot", "client_length", "queues", "ping"])
async def test_a_task_that_reads_ends_when_it_is_cancelled(
    valkey: Server, store: claimq.Server, queue: ReliableQueue, operation: str
) -> None:
    await queue.enqueue("x")
    works: dict[str, Callable[[], Awaitable[object]]] = {
        "exists": queue.exists,
        "snapshot": queue.snapshot,
        "client_length": lambda: queue.client_length("ann"),
        "queues": store.queues,
        "ping": store.ping,
    }
    assert await lost_cancellations(works[operation]) == []
