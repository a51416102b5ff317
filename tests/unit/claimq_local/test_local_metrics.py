"""The metrics of local mode while a sidecar does not answer."""

import asyncio
from types import SimpleNamespace
from typing import Any

from claimq_control.queue_metrics import QueueMetrics
from claimq_local.metrics_page import MetricsPage


async def test_requests_at_the_same_time_wait_for_a_sidecar_once() -> None:
    asked, is_over = 0, asyncio.Event()

    async def sidecar_metrics() -> None:
        nonlocal asked
        asked += 1
        await is_over.wait()

    worker = SimpleNamespace(name="q-1", sidecar_metrics=sidecar_metrics)
    manifest = SimpleNamespace(namespace="default", name="q")
    runner: Any = SimpleNamespace(workers={1: worker}, manifest=manifest)
    page = MetricsPage([runner], QueueMetrics())

    async def end() -> None:
        is_over.set()

    *bodies, _ = await asyncio.gather(page.render(), page.render(), page.render(), end())
    assert asked == 1
    assert len({*bodies}) == 1
    missing = b'claimq_sidecar_up{namespace="default",name="q",worker="q-1"} 0\n'
    assert missing in bodies[0][0]
    await page.render()
    assert asked == 2
