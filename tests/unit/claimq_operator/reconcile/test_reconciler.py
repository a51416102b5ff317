"""The loop of one queue, on a clock that skips sleeps."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.port import Cluster
from claimq_operator.election.namespace_leases import NamespaceLeases
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.reconciler import Reconciler
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache
from testkit.skipping_loop import run_skipping

HOUR = 3600.0


def context_of(settings: OperatorSettings, directory: Path, *, pause: float) -> Context:
    """Must be called in an event loop. No queue exists, so each pass ends at once and pauses."""
    cluster = cast("Cluster", None)  # nothing is asked of it
    return Context(
        settings=replace(settings, idle_period=pause),
        cluster=cluster,
        cache=Cache(lambda _: None),
        connections=RedisConnections(cluster, directory),
        ownership=Ownership(cluster, settings),
        namespaces=NamespaceLeases(cluster, settings, lambda: 0.0, lambda _: None),
        budgets=Budgets(cluster),
        recorder=EventRecorder(cluster, lambda: 0.0, "me"),
        metrics=Metrics(),
        liveness=Liveness(asyncio.get_running_loop().time),
        wall_clock=lambda: 0.0,
    )


def test_a_queue_that_is_idle_for_an_hour_is_not_reported_as_stuck(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    async def rest() -> tuple[list[str], list[str]]:
        context = context_of(settings, tmp_path, pause=HOUR)
        runner = asyncio.create_task(Reconciler(("media", "thumbs"), context).run())
        await asyncio.sleep(HOUR - 1)
        resting = context.liveness.stuck()
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        return resting, context.liveness.stuck()

    assert run_skipping(rest()) == ([], [])


@pytest.mark.parametrize("steps", range(12))
def test_it_stops_wherever_it_is_cancelled_and_leaves_no_series(
    settings: OperatorSettings, tmp_path: Path, steps: int
) -> None:
    """It went on without end where the cancellation met the end of a pause."""

    async def cancel() -> tuple[bool, bytes]:
        context = context_of(settings, tmp_path, pause=1.0)
        runner = asyncio.create_task(Reconciler(("media", "thumbs"), context).run())
        await asyncio.sleep(1.0)
        for _ in range(steps):
            await asyncio.sleep(0)
        runner.cancel()
        await asyncio.wait({runner}, timeout=10)
        has_stopped = runner.done()
        while not runner.done():
            runner.cancel()
            await asyncio.sleep(0.3)
        return has_stopped, context.metrics.render()

    has_stopped, page = run_skipping(cancel())
    assert has_stopped
    assert b"thumbs" not in page
