"""A cluster as the platform of one queue's workers: a Deployment, its pods, and the objects of the API."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import replace

from claimq.errors import ClaimqError, ScriptsRefused
from claimq.internals.idle_queues import IdleQueue
from claimq.model import ServerReport, WorkerInfo
from claimq.reliable_queue import ReliableQueue
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.fault import Fault
from claimq_control.manifest import QueueSpec, RedisSpec
from claimq_control.passes.queue_loop import QueueLoop
from claimq_control.passes.worker_platform import Maintained, ServerAccessError
from claimq_control.workers import Termination, WorkersState
from claimq_kubernetes.labels import selector_text
from claimq_kubernetes.port import ClusterError, Json, Refused
from claimq_kubernetes.queue_resource import QueueResource
from claimq_kubernetes.worker_pods import is_finished, read_pods
from claimq_operator.decide.objects import Objects, objects_of
from claimq_operator.decide.request_failures import RequestFailures, Step
from claimq_operator.decide.status_writes import has_changed, is_urgent
from claimq_operator.decide.workers_state import workers_state
from claimq_operator.reconcile.apply import Applier
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.events import EventState, emit_events
from claimq_operator.reconcile.server_faults import ServerFaults
from claimq_operator.redis.connections import SharedServer
from claimq_process.log_lines import LogEvent

PAUSE_AFTER_ERROR = 5.0
_log = logging.getLogger(__name__)


async def open_queue(
    context: Context, resource: QueueResource, spec: QueueSpec, redis: RedisSpec
) -> tuple[SharedServer, ReliableQueue]:
    """The queue on its server, after a check that the resource may use its name and owns it.

    Raises ServerAccessError, ClaimqError, ClusterError.
    """
    context.ownership.check_name(resource, spec)
    shared = await context.connections.server_for(resource.key, redis)
    queue = shared.server.queue(spec.queue_name, worker="claimq-operator")
    await shared.try_scripts(queue, asyncio.get_running_loop().time())
    try:
        await context.ownership.own(resource, queue)
    except ScriptsRefused:
        await shared.name_refusal(queue)
        raise
    return shared, queue


class ClusterPlatform:
    """The platform of one queue. :meth:`begin` is called before each pass."""

    def __init__(self, context: Context, applier: Applier, on_new_fault: Callable[[], None]) -> None:
        """``on_new_fault``: starts the next pass at once, which reports the fault of a request."""
        self._context = context
        self._applier = applier
        self._on_new_fault = on_new_fault
        self._faults = ServerFaults(context.connections)
        self._failures = RequestFailures()
        self._event_state = EventState()
        self._status_at = float("-inf")
        self._has_unwritten_status = False
        self._resource: QueueResource
        self._objects: Objects
        self._failed: dict[Step, ClusterError] = {}
        self._shared: SharedServer | None = None
        self._queue: ReliableQueue | None = None
        self._idle = IdleQueue("")
        self._refusal: Fault | None = None
        """Why the API server did not accept the requests of the latest pass."""

    def begin(self, resource: QueueResource, failed: Mapping[Step, ClusterError]) -> None:
        """A pass over this version of the queue begins. ``failed``: steps before it whose requests failed."""
        self._resource, self._failed = resource, dict(failed)

    @property
    def retry_after(self) -> float:
        """Seconds until the next pass while a request is not accepted."""
        return 0.0 if self._refusal is None else PAUSE_AFTER_ERROR

    async def open(self) -> ReliableQueue:
        """The queue on its server; see :func:`open_queue`."""
        spec = self._resource.spec
        assert spec is not None  # noqa: S101 - the loop opens no queue with an invalid spec
        assert spec.redis is not None  # noqa: S101 - a manifest of a cluster has a server
        shared, self._queue = await open_queue(self._context, self._resource, spec, spec.redis)
        if shared is not self._shared or self._queue.name != self._idle.name:
            self._shared, self._idle = shared, IdleQueue(self._queue.name)
        return self._queue

    @contextmanager
    def watch(self, loop: QueueLoop, on_change: Callable[[], None]) -> Generator[None]:
        """Watches the queue for what ends the pause after a pass: work (see :meth:`WorkWatch.watch`), and changes of a
        quiet queue (see :meth:`IdleQueues.watch`)."""
        with ExitStack() as watches:
            if self._shared is not None and self._queue is not None:
                if loop.waits_for_work:
                    watches.enter_context(self._shared.work.watch(self._queue, on_change))
                if loop.is_quiet:
                    watches.enter_context(self._shared.idle.watch(self._idle, on_change))
            yield

    @property
    def status_due_in(self) -> float:
        """Seconds until a status that differs from the written one may be written."""
        if not self._has_unwritten_status:
            return math.inf
        period, now = self._context.settings.status_period, asyncio.get_running_loop().time()
        return max(self._status_at + period - now, PAUSE_AFTER_ERROR)

    async def server_report(self, now: float) -> ServerReport | None:
        """The server's version and settings."""
        return None if self._shared is None else await self._shared.reports.current(now)

    def fault(self, error: ClaimqError | TimeoutError | ServerAccessError) -> Fault:
        """The fault as the status may show it. The Secrets are read again."""
        spec = self._resource.spec
        assert spec is not None  # noqa: S101 - the loop uses no server with an invalid spec
        assert spec.redis is not None  # noqa: S101 - as above
        self._context.connections.expire_secrets(self._resource.key, spec.redis)
        if isinstance(error, ServerAccessError):
            return error.fault
        return self._faults.of(self._resource, spec.redis, error)

    def large_read(self) -> AbstractAsyncContextManager[None]:
        """A turn of the process and of the namespace."""
        return self._context.connections.large_reads.turn(self._resource.namespace)

    def has_workers(self) -> bool:
        """Whether there are pods that are not finished."""
        return not all(map(is_finished, self._context.cache.pods(self._resource.key)))

    def ended(self) -> tuple[Termination, ...]:
        """Terminated containers."""
        return self._context.cache.terminations(self._resource.key)

    def mark_handled(self, ended: Iterable[Termination]) -> None:
        """The server has the ends of these containers."""
        self._context.cache.mark_handled(ended, self._resource.key)
        self._faults.end()

    def workers(self, claims: Iterable[WorkerInfo]) -> WorkersState:
        """The pods, and what the Deployment reports."""
        context, resource = self._context, self._resource
        self._objects = objects_of(resource, context.cache.deployment_of(resource), context.settings)
        pods = read_pods(context.cache.pods(resource.key), claims, now=context.wall_clock())
        other_releases = context.namespaces.others(resource.namespace)
        return workers_state(self._objects, pods, refusal=self._refusal, standing_by=other_releases)

    async def order(self, observed: Observed, planned: Plan) -> bool:
        """Applies children, deletion costs and the number of workers."""
        now = asyncio.get_running_loop().time()
        # Before requests that fail while the API server is down.
        self._context.metrics.set_pass(self._resource.key, observed, planned)
        self._failed |= await self._applier.children(planned, self._objects, now)
        self._failures.update(self._failed, now)
        fault = self._failures.fault(now)
        if fault is not None and self._refusal is None:
            self._on_new_fault()
        self._refusal = fault
        return not self._failed.keys() & {Step.COSTS, Step.REPLICAS}

    async def report(self, observed: Observed, planned: Plan, maintained: Maintained | None) -> None:
        """Writes the status and emits Events. Raises the error of a request that may be accepted later."""
        resource = self._resource
        status = {**planned.status, "selector": selector_text(resource.name)}
        await self._write_status(status, asyncio.get_running_loop().time())
        planned = replace(planned, status=status)
        await emit_events(self._context, self._event_state, resource, observed, planned, maintained)
        for error in self._failed.values():
            if not isinstance(error, Refused):
                raise error

    async def _write_status(self, status: Json, now: float) -> None:
        resource = self._resource
        is_due = now - self._status_at >= self._context.settings.status_period
        self._has_unwritten_status = has_changed(status, resource.status)
        if not is_urgent(status, resource.status) and not (is_due and self._has_unwritten_status):
            return
        try:
            await self._applier.status(resource, status)
            self._status_at, self._has_unwritten_status = now, False
        except ClusterError as error:
            # The changes of this pass stay; the next pass writes the status.
            _log.warning(LogEvent("status_not_written", queue=resource.full_name, error=error))
