"""Which of several operators works: a Lease that one of them holds and renews.

Nothing depends on there being only one: every call on a queue is atomic, and every request to the cluster says what
shall
be, not what to add. It saves the others' work. The clocks of the holders are not compared: a lease counts as given up
when this process has seen no change in it for its duration, its holder's or our own, whichever is longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from claimq_operator.kubernetes_api.port import LEASES, Cluster, ClusterError, Json, NotThere, part
from claimq_operator.kubernetes_api.timestamps import format_micro_time
from claimq_operator.settings import OperatorSettings
from claimq_spec.log_lines import LogEvent

_log = logging.getLogger(__name__)


class Step(Enum):
    """What to do about the lease now."""

    RENEW = "renew"
    TAKE = "take"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Sighted:
    """A lease as it was seen last (holder and instant of renewal), and when it was first seen so."""

    record: tuple[str, str] = ("", "")
    at: float = float("-inf")
    lasts: float = 0.0
    """For how long the holder says that it holds: after a change of the setting, another's may be longer than ours."""

    def seen(self, spec: Mapping[str, Any], now: float) -> Sighted:
        """With what it says now."""
        record = (str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))
        lasts = float(spec.get("leaseDurationSeconds") or 0)
        return self if record == self.record else Sighted(record, now, lasts)

    def step(self, identity: str, duration: float, now: float) -> Step:
        """What ``identity`` does."""
        holder = self.record[0]
        if holder == identity:
            return Step.RENEW
        return Step.TAKE if not holder or now - self.at >= max(duration, self.lasts) else Step.WAIT


class LeaderElection:
    """Holds the Lease as long as it can, and works only while it does."""

    def __init__(self, cluster: Cluster, settings: OperatorSettings, wall: Callable[[], float]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._wall = wall
        self._sighted = Sighted()
        self._own: Json | None = None
        self._held_until = float("-inf")

    async def run(self, work: Callable[[], Awaitable[None]], told: Callable[[bool], None]) -> None:
        """Runs ``work`` while the lease is held, cancels it when it is lost; for ever. ``told`` learns of each turn.

        Cancelling gives the lease up, so that another need not wait for it to run out.
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
                    working = asyncio.ensure_future(_awaited(work))
                elif not is_leader and working is not None:
                    _log.warning(LogEvent("lead_lost", identity=self._settings.identity))
                    await _ended(working)
                    working = None
                if working is not None and working.done():
                    working.result()  # a defect ends the process
                told(is_leader)
                # No pause and no request that hangs lasts beyond what is held: others may begin soon after.
                left = self._held_until - loop.time() if is_leader else pause
                await asyncio.sleep(max(min(pause, left), 0.0))
        finally:
            if working is not None:
                await _ended(working)
                await self._give_up()

    async def _attempt(self, now: float) -> None:
        """One look at the lease, and one try to have it. A fault leaves what was held until its time."""
        settings = self._settings
        limit = settings.lease_duration / 2
        if now < self._held_until:
            limit = min(limit, self._held_until - now)
        try:
            async with asyncio.timeout(limit):
                # What it wrote last need not be read again: a write of what somebody has changed is refused.
                lease, self._own = self._own or await self._get(), None
                self._sighted = self._sighted.seen(part(lease, "spec"), now)
                step = self._sighted.step(settings.identity, settings.lease_duration, now)
                if step is Step.WAIT:
                    self._held_until = float("-inf")
                    return
                written = await self._write(lease, settings.identity, is_new=step is Step.TAKE)
        except (ClusterError, TimeoutError) as error:
            _log.warning(LogEvent("lease_not_renewed", error=error))
            return
        self._own, self._sighted = written, self._sighted.seen(part(written, "spec"), now)
        # Given up here before the others may think so.
        self._held_until = now + settings.lease_duration * 0.8

    async def _get(self) -> Json:
        settings = self._settings
        try:
            return await self._cluster.get(LEASES, settings.own_namespace, settings.lease_name)
        except NotThere:
            body: Json = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": settings.lease_name, "namespace": settings.own_namespace},
                "spec": {},
            }
            return await self._cluster.create(LEASES, body)

    async def _write(self, lease: Json, holder: str, *, is_new: bool) -> Json:
        """Takes or renews it, if nobody has changed it since it was read. Raises Conflicting otherwise."""
        now = format_micro_time(self._wall())
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

    async def _give_up(self) -> None:
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(2.0):
                settings = self._settings
                # Not made anew where it is gone: then the operator is being uninstalled.
                lease = await self._cluster.get(LEASES, settings.own_namespace, settings.lease_name)
                if part(lease, "spec").get("holderIdentity") == settings.identity:
                    await self._write(lease, "", is_new=False)


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
