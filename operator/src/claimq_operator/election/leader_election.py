"""Leader election by a Lease, so that only one of several operators reconciles.

This saves work; correctness does not depend on it: every call on a queue is atomic, and every request to the cluster
is declarative. Clocks of different holders are never compared: a Lease counts as expired when this process has observed
no change in it for the holder's lease duration or its own, whichever is longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from claimq_kubernetes.port import LEASES, Cluster, ClusterError, Json, NotFound, part
from claimq_operator.settings import OperatorSettings
from claimq_process.log_lines import LogEvent
from claimq_process.timestamps import format_micro_time

_log = logging.getLogger(__name__)


class Step(Enum):
    """What a candidate does with the Lease now."""

    RENEW = "renew"
    TAKE = "take"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The last observed holder and renewal time of the Lease, and when they were first observed."""

    record: tuple[str, str] = ("", "")
    at: float = float("-inf")
    lasts: float = 0.0
    """The holder's lease duration in seconds. It may differ from ours after a change of the setting."""

    def updated(self, spec: Mapping[str, Any], now: float) -> ObservedLease:
        """Updates with the Lease's current spec; keeps ``at`` if nothing has changed."""
        record = (str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))
        lasts = float(spec.get("leaseDurationSeconds") or 0)
        return self if record == self.record else ObservedLease(record, now, lasts)

    def step(self, identity: str, duration: float, now: float) -> Step:
        """What the candidate ``identity`` does."""
        holder = self.record[0]
        if holder == identity:
            return Step.RENEW
        return Step.TAKE if not holder or now - self.at >= max(duration, self.lasts) else Step.WAIT


class LeaderElection:
    """Acquires and renews the Lease, and reconciles only while it is held."""

    def __init__(self, cluster: Cluster, settings: OperatorSettings, wall_clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._wall_clock = wall_clock
        self._observed = ObservedLease()
        self._own: Json | None = None
        self._held_until = float("-inf")

    async def run(self, work: Callable[[], Awaitable[None]], on_attempt: Callable[[bool], None]) -> None:
        """Runs ``work`` while the Lease is held and cancels it when the Lease is lost, until cancelled itself.

        ``on_attempt`` is called after each attempt with whether this process leads. Cancelling releases the Lease, so
        that another process need not wait until it expires.
        """
        loop = asyncio.get_running_loop()
        working: asyncio.Task[None] | None = None
        pause = self._settings.lease_duration / 5
        try:
            while True:
                if working is None or loop.time() < self._held_until:
                    await self._attempt(loop.time())
                is_leader = loop.time() < self._held_until
                if is_leader and working is None:
                    _log.info(LogEvent("leading", identity=self._settings.identity))
                    working = asyncio.ensure_future(_call(work))
                elif not is_leader and working is not None:
                    _log.warning(LogEvent("leadership_lost", identity=self._settings.identity))
                    await _cancel(working)
                    working = None
                if working is not None and working.done():
                    working.result()  # an unexpected error ends the process
                on_attempt(is_leader)
                # Neither a pause nor a request that hangs may outlast the lease: another leader may start soon after.
                remaining = self._held_until - loop.time() if is_leader else pause
                await asyncio.sleep(max(min(pause, remaining), 0.0))
        finally:
            if working is not None:
                await _cancel(working)
                await self._release()

    async def _attempt(self, now: float) -> None:
        """Reads the Lease, and acquires or renews it if possible. After an error, a held Lease stays valid."""
        settings = self._settings
        limit = settings.lease_duration / 2
        if now < self._held_until:
            limit = min(limit, self._held_until - now)
        try:
            async with asyncio.timeout(limit):
                # The last written Lease need not be read again: a write fails with Conflict if it has changed since.
                lease, self._own = self._own or await self._get(), None
                self._observed = self._observed.updated(part(lease, "spec"), now)
                step = self._observed.step(settings.identity, settings.lease_duration, now)
                if step is Step.WAIT:
                    self._held_until = float("-inf")
                    return
                written = await self._write(lease, settings.identity, is_new=step is Step.TAKE)
        except (ClusterError, TimeoutError) as error:
            _log.warning(LogEvent("lease_not_renewed", error=error))
            return
        self._own, self._observed = written, self._observed.updated(part(written, "spec"), now)
        # Stop leading before the others may consider the Lease expired.
        self._held_until = now + settings.lease_duration * 0.8

    async def _get(self) -> Json:
        settings = self._settings
        try:
            return await self._cluster.get(LEASES, settings.own_namespace, settings.lease_name)
        except NotFound:
            body: Json = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": settings.lease_name, "namespace": settings.own_namespace},
                "spec": {},
            }
            return await self._cluster.create(LEASES, body)

    async def _write(self, lease: Json, holder: str, *, is_new: bool) -> Json:
        """Acquires or renews the Lease. Raises Conflict if it has changed since it was read."""
        now = format_micro_time(self._wall_clock())
        spec: Json = {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self._settings.lease_duration)),
            "renewTime": now,
        }
        if is_new:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(part(lease, "spec").get("leaseTransitions") or 0) + 1
        metadata = lease["metadata"]
        changes = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": spec}
        return await self._cluster.patch(LEASES, metadata["namespace"], metadata["name"], changes)

    async def _release(self) -> None:
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(2.0):
                settings = self._settings
                # Not created again if it is missing: then the operator is being uninstalled.
                lease = await self._cluster.get(LEASES, settings.own_namespace, settings.lease_name)
                if part(lease, "spec").get("holderIdentity") == settings.identity:
                    await self._write(lease, "", is_new=False)


async def _call(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
