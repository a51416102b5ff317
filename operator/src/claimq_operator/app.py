"""Starts the operator: settings from the environment, then all loops in one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.client import KubernetesClient
from claimq_kubernetes.deep_json import accept_deep_json
from claimq_kubernetes.port import ClusterUnavailable
from claimq_operator.election.leader_election import LeaderElection
from claimq_operator.election.namespace_leases import NamespaceLeases
from claimq_operator.event_loops import run_in_loop, run_in_thread
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
from claimq_operator.watch.restarts import keep_watching
from claimq_process.certificates import certificate_directory
from claimq_process.environment import InvalidSettings
from claimq_process.log_lines import LogEvent, write_log

_log = logging.getLogger("claimq_operator")
_TICK = 1.0
_WATCH_STOP_SECONDS = 5.0


def main() -> int:
    """Runs the operator and returns its exit code."""
    try:
        settings = OperatorSettings.from_environment(os.environ)
    except InvalidSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 - there is no log yet, and bare lines are easier to read
        return 2
    accept_deep_json()
    write_log(settings.log_level, quotes_errors=True, quiet=("kopf", "aiohttp", "asyncio"))
    try:
        return asyncio.run(_run(settings))
    except ClusterUnavailable as error:
        _log.error(LogEvent("no_cluster", error=error))
        return 1


def _wall_clock() -> float:
    return time.time()  # noqa: TID251 - only for timestamps in API objects; nothing is measured with it


async def _run(settings: OperatorSettings) -> int:
    metrics, controller = Metrics(), Controller()
    liveness = Liveness(asyncio.get_running_loop().time)
    cluster = await KubernetesClient.connect(metrics.count_request)
    with certificate_directory() as directory:
        connections = RedisConnections(
            cluster, directory, settings.grants.password_hosts, settings.idle_period
        )
        context = Context(
            settings=settings,
            cluster=cluster,
            cache=Cache(controller.changed),
            connections=connections,
            ownership=Ownership(cluster, settings),
            namespaces=NamespaceLeases(cluster, settings, _wall_clock, controller.namespace_changed),
            budgets=Budgets(cluster),
            recorder=EventRecorder(cluster, _wall_clock, settings.identity),
            metrics=metrics,
            liveness=liveness,
            wall_clock=_wall_clock,
        )
        controller.attach(context)
        try:
            return await _run_until_stopped(context, controller)
        finally:
            await connections.close()
            await cluster.close()


async def _run_until_stopped(context: Context, controller: Controller) -> int:
    """Runs all loops until a signal arrives or a loop ends by itself; returns the exit code."""
    settings, stop, stop_watching = context.settings, asyncio.Event(), asyncio.Event()
    server = HttpServer(context.metrics, context.liveness, controller.listed.is_set)
    loops: dict[str, Coroutine[Any, Any, None]] = {
        "resync": controller.resync(stop),
        "http": server.serve(settings.http_host, settings.http_port),
        "lead": _lead(context, controller),
        "tick": _tick(context.liveness),
    }
    tasks = {asyncio.create_task(loop, name=name) for name, loop in loops.items()}
    watching = asyncio.create_task(_watch_when_listed(context, controller, stop, stop_watching), name="watch")
    stopping = asyncio.create_task(_wait_for(stop))
    _install_signal_handlers(stop)
    await asyncio.wait({*tasks, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
    ended = [task for task in (*tasks, watching) if task.done()]
    for task in ended:
        error = task.exception()
        _log.error(LogEvent("loop_ended", loop=task.get_name(), error=error and repr(error)), exc_info=error)
    code = 1 if ended and not stop.is_set() else 0
    stop.set()
    for task in {*tasks, stopping}:
        task.cancel()
    await asyncio.gather(*tasks, stopping, return_exceptions=True)
    # kopf last: its end may take seconds, and the Lease is released before that.
    stop_watching.set()
    if not controller.listed.is_set():  # kopf has not started
        watching.cancel()
    await asyncio.wait({watching}, timeout=_WATCH_STOP_SECONDS)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    _log.info(LogEvent("ended", code=code))
    return code


def _install_signal_handlers(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _watch_when_listed(
    context: Context, controller: Controller, stop: asyncio.Event, stop_watching: asyncio.Event
) -> None:
    """Starts kopf after the first listing: kopf looks up the watched kinds only once, so the CRD must exist by then."""
    await controller.listed.wait()
    await keep_watching(
        lambda: watch(
            registry(context.cache), context.settings, stop_watching, lambda: _install_signal_handlers(stop)
        ),
        context.cluster,
        context.settings.namespaces,
    )


async def _lead(context: Context, controller: Controller) -> None:
    if context.settings.elects_leader:
        await run_in_thread(partial(_elect, context, controller, asyncio.get_running_loop()), "election")
    else:
        context.metrics.is_leader.set(1)
        await controller.lead()


async def _elect(context: Context, controller: Controller, main_loop: asyncio.AbstractEventLoop) -> None:
    """Runs in a thread with its own connections: behind the work of hundreds of queues, a renewal could be late."""
    settings = context.settings

    def on_attempt(is_leader: bool) -> None:
        context.metrics.is_leader.set(is_leader)
        context.liveness.beat("election", timeout=3 * settings.lease_duration)

    client = await KubernetesClient.connect(context.metrics.count_request)
    try:
        election = LeaderElection(client, settings, context.wall_clock)
        await election.run(lambda: run_in_loop(main_loop, controller.lead), on_attempt)
    finally:
        await client.close()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def _tick(liveness: Liveness) -> None:
    """Sends a heartbeat of the event loop, so that a call that blocks it is detected."""
    while True:
        liveness.beat("event-loop", timeout=15.0)
        await asyncio.sleep(_TICK)
