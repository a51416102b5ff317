"""Runs one reconciler per queue while this process leads, and lists all objects periodically."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from claimq.concurrency.background_work import run_every, spawn
from claimq_kubernetes.labels import SELECTOR
from claimq_kubernetes.port import DEPLOYMENTS, PODS, QUEUES, ClusterError, Json, Kind, NotFound, Refused
from claimq_kubernetes.queue_resource import Key
from claimq_kubernetes.worker_pods import trim_pod
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.reconciler import Reconciler
from claimq_operator.watch.cache import trim_deployment, trim_queue
from claimq_process.log_lines import LogEvent

_log = logging.getLogger(__name__)
_BATCH = 50
_BATCH_PAUSE = 0.05


@dataclass(slots=True)
class _Listing:
    """All objects, except those in namespaces that the operator may not list."""

    queues: list[Json] = field(default_factory=list[Json])
    deployments: list[Json] = field(default_factory=list[Json])
    pods: list[Json] = field(default_factory=list[Json])
    refused: set[str] = field(default_factory=set[str])


class Controller:
    """Starts and stops reconcilers as queues come and go. On standby it only fills the cache."""

    def __init__(self) -> None:
        self._context: Context | None = None
        self._reconcilers: dict[Key, tuple[Reconciler, asyncio.Task[None]]] = {}
        self._stopping: dict[Key, asyncio.Task[None]] = {}
        self._is_leading = False
        self.listed = asyncio.Event()
        """Set after the first complete listing."""

    def attach(self, context: Context) -> None:
        """Sets the context. The controller is created first, because the cache calls :meth:`changed`."""
        self._context = context

    @property
    def context(self) -> Context:
        """The context of all reconcilers."""
        if self._context is None:
            raise RuntimeError("attach() comes first")
        return self._context

    def changed(self, key: Key) -> None:
        """The cache calls this when an object of a queue has changed."""
        if not self._is_leading:
            return
        exists = self.context.cache.queue(key) is not None and self.context.namespaces.manages(key[0])
        if exists and key not in self._reconcilers:
            self._start(key)
        elif exists:
            self._reconcilers[key][0].mark_dirty()
        elif key in self._reconcilers:
            self._stop(key)
        self.context.metrics.queues.set(len(self._reconcilers))

    def namespace_changed(self, namespace: str) -> None:
        """The manager of a namespace has changed: starts, stops or wakes the reconcilers of its queues."""
        for key in [key for key in self.context.cache.queues() if key[0] == namespace]:
            self.changed(key)

    def _namespaces(self) -> set[str]:
        return {namespace for namespace, _ in self.context.cache.queues()}

    def _start(self, key: Key) -> None:
        reconciler = Reconciler(key, self.context)
        work = _run_after(self._stopping.get(key), reconciler)
        self._reconcilers[key] = (reconciler, spawn(work, name=f"queue {key[0]}/{key[1]}"))

    def _stop(self, key: Key) -> None:
        """Stops a reconciler. The next one of the same name waits for it: it releases resources that both use."""
        _, task = self._reconcilers.pop(key)
        self._stopping[key] = task
        task.add_done_callback(lambda _: self._stopped(key, task))
        # Later: a pass that stops its own reconciler must come to an await, where it is cancelled once.
        asyncio.get_running_loop().call_soon(task.cancel)

    def _stopped(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._stopping.get(key) is task:
            del self._stopping[key]

    async def lead(self) -> None:
        """Reconciles all queues until it is cancelled; returns after all reconcilers have stopped."""
        await self.listed.wait()
        self._is_leading = True
        leases = spawn(self.context.namespaces.run(self._namespaces), name="namespace leases")
        try:
            for number, key in enumerate(self.context.cache.queues(), start=1):
                self.changed(key)
                if number % _BATCH == 0:
                    await asyncio.sleep(_BATCH_PAUSE)
            await leases
        finally:
            self._is_leading = False
            leases.cancel()
            for key in list(self._reconcilers):
                self._stop(key)
            # A second cancellation would end the closing of a connection.
            await asyncio.gather(leases, *self._stopping.values(), return_exceptions=True)
            self.context.metrics.queues.set(0)

    async def resync(self, stop: asyncio.Event) -> None:
        """Lists all objects at once and then in every resync period, which bounds the effect of a missed event."""
        period = self.context.settings.resync_period
        while not self.listed.is_set():
            await self._resync_once()
            if not self.listed.is_set():
                await asyncio.sleep(1.0)
        await run_every(period, self._resync_once, name="resync", stop=stop)

    async def _resync_once(self) -> bool:
        context = self.context
        before = context.cache.uids()
        try:
            listing = await self._list_all()
        except NotFound as error:
            fix = "install the CRD reliablequeues.claimq.dev"
            _log.warning(LogEvent("resync_failed", error=error, fix=fix))
        except ClusterError as error:
            _log.warning(LogEvent("resync_failed", error=error))
        else:
            context.cache.resync(
                listing.queues, listing.deployments, listing.pods, before=before, unknown=listing.refused
            )
            self.listed.set()
        self._beat()
        return False

    def _beat(self) -> None:
        context = self.context
        context.liveness.beat("resync", timeout=3 * context.settings.resync_period + 60)

    async def _list_all(self) -> _Listing:
        """Lists all namespaces that the operator may list. Raises ClusterError if there are none."""
        namespaces = self.context.settings.namespaces or (None,)
        listing = _Listing()
        for namespace in namespaces:
            try:
                await self._list(listing, namespace)
            except Refused as error:
                # The role in a namespace is deleted with it. The other namespaces must not be affected.
                if namespace is None or len(listing.refused) + 1 == len(namespaces):
                    raise
                listing.refused.add(namespace)
                fix = "grant the operator its role there, or remove the namespace from CLAIMQ_NAMESPACES"
                _log.warning(LogEvent("namespace_not_listed", namespace=namespace, error=error, fix=fix))
        return listing

    async def _list(self, listing: _Listing, namespace: str | None) -> None:
        async def listed(kind: Kind, selector: str, trim: Callable[[Json], Json]) -> list[Json]:
            def keep(body: Json) -> Json:
                self._beat()  # many pages of a slow API server can take longer than a heartbeat may
                return trim(body)

            self._beat()
            return await self.context.cluster.list(kind, namespace, selector, keep)

        queues = await listed(QUEUES, "", trim_queue)
        deployments = await listed(DEPLOYMENTS, SELECTOR, trim_deployment)
        listing.pods += await listed(PODS, SELECTOR, trim_pod)
        listing.queues += queues
        listing.deployments += deployments


async def _run_after(previous: asyncio.Task[None] | None, reconciler: Reconciler) -> None:
    if previous is not None:
        await asyncio.wait({previous})
    await reconciler.run()
