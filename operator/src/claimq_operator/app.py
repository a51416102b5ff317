"""The way in: settings from the environment, then all loops in one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from claimq_operator.kubernetes_api.client import KubernetesClient
from claimq_operator.kubernetes_api.leader_election import LeaderElection
from claimq_operator.kubernetes_api.port import Cluster, ClusterUnavailable
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.controller import Controller
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.http_server import HttpServer
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache
from claimq_operator.watch.handlers import registry, watch
from claimq_spec.environment import InvalidSettings
from claimq_spec.log_lines import LogEvent, write_log

_log = logging.getLogger("claimq_operator")
_TICK = 1.0
_LAST_SECONDS = 5.0


def main() -> int:
    """Runs the operator and returns its exit code."""
    try:
        settings = OperatorSettings.from_environment(os.environ)
    except InvalidSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 - there is no log yet, and the reader wants the bare lines
        return 2
    write_log(settings.log_level, quotes_errors=True, quiet=("kopf", "aiohttp", "asyncio"))
    try:
        return asyncio.run(_run(settings))
    except ClusterUnavailable as error:
        _log.error(LogEvent("no_cluster", error=error))
        return 1


def _wall() -> float:
    return time.time()  # noqa: TID251 - for what the API's objects show; nothing is measured by it


async def _run(settings: OperatorSettings) -> int:
    metrics, controller = Metrics(), Controller()
    liveness = Liveness(asyncio.get_running_loop().time)
    cluster = await KubernetesClient.connect(metrics.told)
    # On connections of its own: behind the requests of hundreds of queues a renewal would come too late.
    leases = await KubernetesClient.connect(metrics.told)
    with tempfile.TemporaryDirectory(prefix="claimq-") as directory:
        servers = RedisConnections(cluster, Path(directory), settings.password_hosts)
        context = Context(
            settings=settings,
            cluster=cluster,
            cache=Cache(controller.changed),
            servers=servers,
            ownership=Ownership(cluster, settings),
            recorder=EventRecorder(cluster, _wall, settings.identity),
            metrics=metrics,
            liveness=liveness,
            wall=_wall,
        )
        controller.settle_in(context)
        try:
            return await _until_told(context, controller, leases)
        finally:
            await servers.close()
            await cluster.close()
            await leases.close()


async def _until_told(context: Context, controller: Controller, leases: Cluster) -> int:
    """Runs every loop until a signal comes, or until one of them ends by itself."""
    settings, stop, over = context.settings, asyncio.Event(), asyncio.Event()
    port = HttpServer(context.metrics, context.liveness, controller.listed.is_set)
    loops: dict[str, Coroutine[Any, Any, None]] = {
        "resync": controller.resync(stop),
        "http": port.serve(settings.http_host, settings.http_port),
        "lead": _lead(context, controller, leases),
        "tick": _tick(context.liveness),
    }
    tasks = {asyncio.create_task(loop, name=name) for name, loop in loops.items()}
    watching = asyncio.create_task(_watch_when_listed(context, controller, stop, over), name="watch")
    told = asyncio.create_task(_told_to_end(stop))
    _take_signals(stop)
    await asyncio.wait({*tasks, watching, told}, return_when=asyncio.FIRST_COMPLETED)
    ended = [task for task in (*tasks, watching) if task.done()]
    for task in ended:
        error = task.exception()
        _log.error(LogEvent("loop_ended", loop=task.get_name(), error=error and repr(error)), exc_info=error)
    code = 1 if ended and not stop.is_set() else 0
    stop.set()
    for task in {*tasks, told}:
        task.cancel()
    await asyncio.gather(*tasks, told, return_exceptions=True)
    # Last, since kopf cancels every task that it does not know when it ends: the lease is given up by then.
    over.set()
    if not controller.listed.is_set():  # kopf has not begun
        watching.cancel()
    await asyncio.wait({watching}, timeout=_LAST_SECONDS)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    _log.info(LogEvent("ended", code=code))
    return code


def _take_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _watch_when_listed(
    context: Context, controller: Controller, stop: asyncio.Event, over: asyncio.Event
) -> None:
    """Kopf looks for the kinds that it watches once, at its start: they must be there by then."""
    await controller.listed.wait()
    await watch(registry(context.cache), context.settings, over, lambda: _take_signals(stop))


async def _lead(context: Context, controller: Controller, leases: Cluster) -> None:
    if not context.settings.elects_leader:
        context.metrics.is_leader.set(1)
        await controller.work()
        return
    duration = context.settings.lease_duration

    def told(is_leader: bool) -> None:
        context.metrics.is_leader.set(is_leader)
        context.liveness.ran("election", silent_for=3 * duration)

    await LeaderElection(leases, context.settings, context.wall).run(controller.work, told)


async def _told_to_end(stop: asyncio.Event) -> None:
    await stop.wait()


async def _tick(liveness: Liveness) -> None:
    """Shows that the event loop turns: a call that blocks it shows as a silence."""
    while True:
        liveness.ran("event-loop", silent_for=15.0)
        await asyncio.sleep(_TICK)
