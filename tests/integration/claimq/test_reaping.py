"""The reaper: it keeps a queue in order while no worker claims, through outages, and ends when asked."""

import asyncio
import logging

import pytest

from claimq import FailedPolicy, NewItem, Policy, Reaper, ReliableQueue
from testkit.plugin import ProxyFactory
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually


async def test_it_sweeps_expired_leases_due_items_and_failed_items_by_itself(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(remove_min_age=10)))
    await queue.enqueue_many(["failed", "expired"])
    failed, _ = await queue.claim(2, wait=0)
    await queue.fail(failed, "no", permanent=True)
    await queue.enqueue_many([NewItem("due", delay=20)])
    await move_clock(queue, 31)
    stop = asyncio.Event()
    reaping = asyncio.ensure_future(Reaper(queue, period=0.05).run(stop))

    async def in_order() -> bool:
        return await lengths(queue) == Lengths(main=2)

    await eventually(in_order)
    stop.set()
    async with asyncio.timeout(PATIENCE):
        await reaping


async def test_it_goes_on_at_once_while_there_is_more(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 100)
    await queue.claim(100, wait=0)
    await move_clock(queue, 31)
    stop = asyncio.Event()
    reaping = asyncio.ensure_future(Reaper(queue, period=60, limit=5).run(stop))

    async def in_order() -> bool:
        return await lengths(queue) == Lengths(main=100)

    await eventually(in_order)
    stop.set()
    await reaping


async def test_it_outlives_an_outage_and_logs_it_once(
    valkey: Server, start_proxy: ProxyFactory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="claimq")
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url, worker="w1", retry_for=0.01) as queue:
        await queue.enqueue("a", delay=0.05)
        stop = asyncio.Event()
        proxy.refuse()
        reaping = asyncio.ensure_future(Reaper(queue, period=0.02).run(stop))
        await eventually(lambda: caplog.records)
        await asyncio.sleep(0.3)
        proxy.heal()

        async def in_order() -> bool:
            return await lengths(queue) == Lengths(main=1)

        await eventually(in_order)
        await eventually(lambda: len(caplog.records) == 2)
        stop.set()
        await reaping
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "works again after" in caplog.records[1].getMessage()
