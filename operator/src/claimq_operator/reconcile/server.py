"""Reaches the server of one queue and runs maintenance there, with a backoff while that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from claimq.concurrency.backoff import Backoff
from claimq.errors import ClaimqError, ScriptsRefused
from claimq.fsync_setting import for_manifest
from claimq.internals.work_watch import WorkWatch
from claimq.model import ServerReport
from claimq.policy import Policy
from claimq.redis_store.faults import is_too_large
from claimq.reliable_queue import ReliableQueue
from claimq_control.fault import Fault
from claimq_control.manifest import QueueSpec, RedisSpec
from claimq_kubernetes.labels import TAKE_OVER
from claimq_kubernetes.queue_resource import QueueResource
from claimq_kubernetes.worker_pods import is_finished
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.server_faults import ServerFaults, no_response
from claimq_operator.redis.connections import ServerAccessError, SharedServer
from claimq_operator.redis.maintenance import Maintained, Maintenance

_TIMEOUT = 30.0
_LARGE_SECONDS = 60.0
"""How long after a large read the next one is taken to be large too."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The queue's state after maintenance, or why the server could not be used. Empty for an invalid spec."""

    maintained: Maintained | None = None
    report: ServerReport | None = None
    fault: Fault | None = None


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


class QueueServer:
    """The server of one queue, as the passes of its reconciler use it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = ServerFaults(context.connections)
        self._maintenance = Maintenance()
        self._backoff = Backoff(1.0, 15.0)
        self._retry_at = float("-inf")
        self._fault: Fault | None = None
        self._large_until = float("-inf")
        self._tried_for: tuple[object, ...] | None = None
        self.retry_after = 0.0
        """Seconds to wait after an attempt that failed; 0 after one that succeeded."""
        self._watched: tuple[WorkWatch, ReliableQueue] | None = None

    async def maintain(self, resource: QueueResource) -> ServerState:
        """Runs maintenance. Errors of the server are returned as a fault; raises ClusterError.

        During the backoff the last fault is returned, unless the resource has changed.
        """
        spec, now = resource.spec, asyncio.get_running_loop().time()
        if spec is None or spec.redis is None:
            return ServerState()
        tried_for = (resource.uid, resource.generation, resource.annotations.get(TAKE_OVER))
        if now < self._retry_at and tried_for == self._tried_for:
            return ServerState(fault=self._fault)
        self._tried_for = tried_for
        try:
            state = await self._attempt(resource, spec, spec.redis)
        except ServerAccessError as error:
            # Workers must not use the server either.
            return self._failed(resource, spec.redis, replace(error.fault, denied=True))
        except ClaimqError as error:
            return self._failed(resource, spec.redis, self._faults.of(resource, spec.redis, error))
        except TimeoutError:
            fault = self._faults.of(resource, spec.redis, no_response(_TIMEOUT))
            return self._failed(resource, spec.redis, fault)
        self._backoff.reset()
        self._faults.end()
        self.retry_after, self._retry_at, self._fault = 0.0, float("-inf"), None
        return state

    async def _attempt(self, resource: QueueResource, spec: QueueSpec, redis: RedisSpec) -> ServerState:
        """Runs maintenance, and in a turn of large reads if the queue's state is larger than other reads may be."""
        clock = asyncio.get_running_loop().time
        if clock() >= self._large_until:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    return await self._maintain(resource, spec, redis, clock())
            except ClaimqError as error:
                if not is_too_large(error):
                    raise
        self._large_until = float("-inf")
        # The wait for the turn has a limit of its own.
        async with self._context.connections.large_reads.turn(resource.namespace), asyncio.timeout(_TIMEOUT):
            state = await self._maintain(resource, spec, redis, clock())
        self._large_until = clock() + _LARGE_SECONDS
        return state

    def watch(self, on_work: Callable[[], None]) -> AbstractContextManager[None]:
        """Watches the queue for work, once its server was reached (see :meth:`WorkWatch.watch`)."""
        if self._watched is None:
            return nullcontext()
        work, queue = self._watched
        return work.watch(queue, on_work)

    async def _maintain(
        self, resource: QueueResource, spec: QueueSpec, redis: RedisSpec, now: float
    ) -> ServerState:
        shared, queue = await open_queue(self._context, resource, spec, redis)
        self._watched = shared.work, queue
        cache = self._context.cache
        terminations = cache.terminations(resource.key)
        try:
            maintained = await self._maintenance.run(
                queue,
                None if resource.is_paused else spec.policy_fields(redis),
                terminations,
                now=now,
                has_pods=not all(map(is_finished, cache.pods(resource.key))),
            )
        except ScriptsRefused:
            await shared.name_refusal(queue)
            raise
        cache.mark_handled(terminations, resource.key)
        report = await shared.current_report(now)
        if report is not None:
            policy = Policy(**spec.policy_fields(redis))
            declared, is_always = redis.declared_appendfsync, policy.appendfsync_always
            report = for_manifest(report, declared, policy.durability, is_always=is_always)
        return ServerState(maintained, report)

    def _failed(self, resource: QueueResource, redis: RedisSpec, fault: Fault) -> ServerState:
        self._maintenance.forget()
        self._context.connections.expire_secrets(resource.key, redis)
        self.retry_after = self._backoff.next()
        self._retry_at = asyncio.get_running_loop().time() + self.retry_after
        self._fault = fault
        return ServerState(fault=fault)
