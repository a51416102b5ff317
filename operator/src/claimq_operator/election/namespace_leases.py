"""A Lease in each served namespace records which release of the operator manages the queues there.

The leader election is one of processes of one release. Two releases may serve one namespace, each with its own sidecar
image and settings, and both would apply their own children again and again. The release that the Lease names manages
the namespace; the others stand by and enter their names, which the condition OperatorConflict reports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from claimq_kubernetes.labels import NAMESPACE_LEASE, STANDS_BY
from claimq_kubernetes.port import LEASES, Cluster, ClusterError, Conflict, Json, NotFound, Refused, part
from claimq_operator.election.leader_election import ObservedLease, Step
from claimq_operator.settings import OperatorSettings
from claimq_process.log_lines import LogEvent
from claimq_process.timestamps import format_micro_time

_log = logging.getLogger(__name__)
_MISSED = 4
"""A release that has not renewed the Lease for so many periods has ended."""
_AT_ONCE = 8
"""Leases that are read and written at the same time."""


@dataclass(slots=True)
class _Namespace:
    """What is known of one namespace. ``is_ours`` is None until its Lease was read."""

    is_ours: bool | None = None
    observed: ObservedLease = field(default_factory=ObservedLease)
    written: Json | None = None
    """The Lease as it was written last, which need not be read again."""
    waits_until: float | None = None
    """A user has named this release: the other one may not have seen that before then."""
    others: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    """The releases that stand by: the time in their entry, and when that entry was first observed."""

    def note_others(self, own_name: str, annotations: Mapping[str, str], lasts: float, now: float) -> None:
        """Reads the entry of a release that stands by, and drops releases without a new one for ``lasts`` seconds."""
        name, _, at = annotations.get(STANDS_BY, "").partition(" ")
        if name not in ("", own_name) and self.others.get(name, ("", 0.0))[0] != at:
            self.others[name] = (at, now)
        for old in [release for release, (_, seen_at) in self.others.items() if now - seen_at >= lasts]:
            del self.others[old]


class NamespaceLeases:
    """The namespaces that this release manages. :meth:`run` keeps this up to date."""

    def __init__(
        self,
        cluster: Cluster,
        settings: OperatorSettings,
        wall_clock: Callable[[], float],
        changed: Callable[[str], None],
    ) -> None:
        """``changed`` is called with a namespace whose manager, or whose list of releases, has changed."""
        self.release = f"{settings.own_namespace}/{settings.lease_name}"
        """The name of this release in the Leases."""
        self._cluster = cluster
        self._period = settings.lease_duration
        self._lasts = _MISSED * self._period
        self._wall_clock = wall_clock
        self._changed = changed
        self._namespaces: dict[str, _Namespace] = {}
        self._new = asyncio.Event()

    def manages(self, namespace: str) -> bool:
        """Whether this release manages the queues of the namespace. The Lease of a new one is read soon."""
        if namespace not in self._namespaces:
            self._new.set()
            return False
        return bool(self._namespaces[namespace].is_ours)

    def others(self, namespace: str) -> tuple[str, ...]:
        """The other releases that serve the namespace and stand by."""
        state = self._namespaces.get(namespace)
        return () if state is None or not state.is_ours else tuple(sorted(state.others))

    async def run(self, namespaces: Callable[[], Collection[str]]) -> None:
        """Reads and renews the Leases of these namespaces in each period, and of a new one at once, until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self._new.clear()
            served = set(namespaces())
            for gone in self._namespaces.keys() - served:
                del self._namespaces[gone]
            is_due = loop.time() >= due
            due = loop.time() + self._period if is_due else due
            slots = asyncio.Semaphore(_AT_ONCE)
            stale = [namespace for namespace in sorted(served) if is_due or not self._is_known(namespace)]
            await asyncio.gather(*(self._refresh(namespace, slots) for namespace in stale))
            unread = any(not self._is_known(namespace) for namespace in served)
            await self._wait(min(due - loop.time(), self._period / 5) if unread else due - loop.time())

    def _is_known(self, namespace: str) -> bool:
        state = self._namespaces.get(namespace)
        return state is not None and state.is_ours is not None and state.waits_until is None

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0.05)):
                await self._new.wait()
        except TimeoutError:
            return

    async def _refresh(self, namespace: str, slots: asyncio.Semaphore) -> None:
        state = self._namespaces.setdefault(namespace, _Namespace())
        before = (state.is_ours, tuple(state.others))
        async with slots:
            try:
                await self._attempt(namespace, state)
            except Refused as error:
                # No permission, or the namespace is being deleted: its queues need an operator all the same.
                state.is_ours = True
                _log.warning(LogEvent("namespace_lease_refused", namespace=namespace, error=error))
            except ClusterError as error:
                # What was known stays: without the API server no release can change the cluster.
                _log.warning(LogEvent("namespace_lease_not_renewed", namespace=namespace, error=error))
        if state.is_ours not in (before[0], None):
            holder = self.release if state.is_ours else state.observed.record[0]
            _log.info(LogEvent("namespace_managed", namespace=namespace, by=holder))
        if before != (state.is_ours, tuple(state.others)):
            self._changed(namespace)

    async def _attempt(self, namespace: str, state: _Namespace) -> None:
        """Reads the Lease, and renews or takes it, or stands by. Raises ClusterError."""
        now = asyncio.get_running_loop().time()
        lease, state.written = state.written or await self._get(namespace), None
        step = self._step(state, lease, now)
        if step is not Step.WAIT:
            try:
                state.written = await self._write(lease, is_new=step is Step.TAKE)
            except Conflict:  # another release has entered its name, or was faster
                lease = await self._get(namespace)
                step = self._step(state, lease, now)
                if step is not Step.WAIT:
                    state.written = await self._write(lease, is_new=step is Step.TAKE)
        if step is Step.WAIT:
            state.is_ours, state.waits_until = False, None
            await self._stand_by(namespace)
            return
        state.observed = state.observed.updated(part(state.written, "spec"), now)
        state.note_others(
            self.release, part(part(state.written, "metadata"), "annotations"), self._lasts, now
        )
        if state.is_ours is False and step is Step.RENEW and state.waits_until is None:
            state.waits_until = now + self._period
        if state.waits_until is None or now >= state.waits_until:
            state.is_ours, state.waits_until = True, None

    def _step(self, state: _Namespace, lease: Json, now: float) -> Step:
        state.observed = state.observed.updated(part(lease, "spec"), now)
        return state.observed.step(self.release, self._lasts, now)

    async def _get(self, namespace: str) -> Json:
        try:
            return await self._cluster.get(LEASES, namespace, NAMESPACE_LEASE)
        except NotFound:
            body: Json = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": NAMESPACE_LEASE, "namespace": namespace},
                "spec": {},
            }
            return await self._cluster.create(LEASES, body)

    async def _write(self, lease: Json, *, is_new: bool) -> Json:
        """Takes or renews the Lease. Raises Conflict if it has changed since it was read."""
        now = format_micro_time(self._wall_clock())
        spec: Json = {
            "holderIdentity": self.release,
            "leaseDurationSeconds": max(1, round(self._lasts)),
            "renewTime": now,
        }
        if is_new:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(part(lease, "spec").get("leaseTransitions") or 0) + 1
        changes = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}
        return await self._cluster.patch(LEASES, lease["metadata"]["namespace"], NAMESPACE_LEASE, changes)

    async def _stand_by(self, namespace: str) -> None:
        """Enters this release, so that the one that manages the namespace reports it."""
        entry = f"{self.release} {format_micro_time(self._wall_clock())}"
        changes: Json = {"metadata": {"annotations": {STANDS_BY: entry}}}
        await self._cluster.patch(LEASES, namespace, NAMESPACE_LEASE, changes)
