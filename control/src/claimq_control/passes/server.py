"""Uses the server of one queue: runs maintenance there, with a backoff while that fails."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from claimq.concurrency.backoff import Backoff
from claimq.errors import ClaimqError, ScriptsRefused
from claimq.internals.fsync_setting import for_manifest
from claimq.internals.operations import internals
from claimq.model import ServerReport
from claimq.policy import Policy
from claimq.redis_store.faults import is_too_large
from claimq.reliable_queue import ReliableQueue
from claimq_control.decide.observed import DeclaredQueue
from claimq_control.fault import Fault
from claimq_control.manifest import QueueSpec
from claimq_control.passes.maintenance import Maintenance
from claimq_control.passes.worker_platform import Maintained, Platform, ServerAccessError

_NEVER = float("-inf")
_LARGE_SECONDS = 60.0
"""How long after a large read the next one is taken to be large too."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The queue's state after maintenance, or why the server could not be used. Empty for an invalid spec."""

    maintained: Maintained | None = None
    report: ServerReport | None = None
    fault: Fault | None = None


class QueueServer:
    """The server of one queue, as its passes use it."""

    def __init__(self, platform: Platform, *, timeout: float, longest_retry: float) -> None:
        self._platform = platform
        self._timeout = timeout
        self._maintenance = Maintenance()
        self._backoff = Backoff(1.0, longest_retry)
        self._retry_at = _NEVER
        self._fault: Fault | None = None
        self._large_until = _NEVER
        self._version: object = None
        self.retry_after = 0.0
        """Seconds to wait after an attempt that failed; 0 after one that succeeded."""

    async def maintain(self, resource: DeclaredQueue) -> ServerState:
        """Runs maintenance. Errors of the server are returned as a fault; raises those of the platform.

        During the backoff the last fault is returned, unless the resource has changed.
        """
        spec, now = resource.spec, asyncio.get_running_loop().time()
        if spec is None:
            return ServerState()
        if now < self._retry_at and resource.version == self._version:
            return ServerState(fault=self._fault)
        self._version = resource.version
        try:
            state = await self._attempt(resource, spec)
        except ServerAccessError as error:
            # Workers must not use the server either.
            return self._failed(replace(self._platform.fault(error), denied=True))
        except ClaimqError as error:
            return self._failed(self._platform.fault(error))
        except TimeoutError:
            return self._failed(self._platform.fault(no_response(self._timeout)))
        self._backoff.reset()
        self.retry_after, self._retry_at, self._fault = 0.0, _NEVER, None
        return state

    async def write_policy(self, queue: ReliableQueue, spec: QueueSpec) -> None:
        """Writes the fields of the policy that the manifest sets. Raises ClaimqError."""
        now = asyncio.get_running_loop().time()
        await self._maintenance.write_policy(queue, spec.policy_fields(), now)

    async def _attempt(self, resource: DeclaredQueue, spec: QueueSpec) -> ServerState:
        """Runs maintenance, and in a turn of large reads if the queue's state is larger than other reads may be."""
        clock = asyncio.get_running_loop().time
        if clock() >= self._large_until:
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._maintain(resource, spec, clock())
            except ClaimqError as error:
                if not is_too_large(error):
                    raise
        self._large_until = _NEVER
        # The wait for the turn has a limit of its own.
        async with self._platform.large_read(), asyncio.timeout(self._timeout):
            state = await self._maintain(resource, spec, clock())
        self._large_until = clock() + _LARGE_SECONDS
        return state

    async def _maintain(self, resource: DeclaredQueue, spec: QueueSpec, now: float) -> ServerState:
        queue = await self._platform.open()
        policy, ended = spec.policy_fields(), self._platform.ended()
        try:
            maintained = await self._maintenance.run(
                queue,
                None if resource.is_paused else policy,
                ended,
                now=now,
                has_workers=self._platform.has_workers(),
            )
        except ScriptsRefused:
            await internals(queue).try_scripts()  # raises the error that names the server
            raise
        self._platform.mark_handled(ended)
        report = await self._platform.server_report(now)
        if report is not None:
            declared = None if spec.redis is None else spec.redis.declared_appendfsync
            full = Policy(**policy)
            report = for_manifest(report, declared, full.durability, is_always=full.appendfsync_always)
        return ServerState(maintained, report)

    def _failed(self, fault: Fault) -> ServerState:
        self._maintenance.forget()
        self.retry_after = self._backoff.next()
        self._retry_at = asyncio.get_running_loop().time() + self.retry_after
        self._fault = fault
        return ServerState(fault=fault)


def no_response(seconds: float) -> TimeoutError:
    """The error of a server that does not respond within this time."""
    return TimeoutError(f"the server has not responded within {seconds:g} s")
