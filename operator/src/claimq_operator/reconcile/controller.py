"""All queues of one process: a runner for each while this process is to work, and the listing that forgets no event."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from claimq.background_work import in_background, run_every
from claimq_operator.kubernetes_api.labels import SELECTOR
from claimq_operator.kubernetes_api.port import (
    DEPLOYMENTS,
    PODS,
    QUEUES,
    ClusterError,
    Json,
    NotThere,
    Refused,
)
from claimq_operator.kubernetes_api.queue_resource import Key
from claimq_operator.kubernetes_api.worker_pods import trimmed
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.reconciler import Reconciler
from claimq_operator.watch.cache import trimmed_deployment, trimmed_queue
from claimq_spec.log_lines import LogEvent

_log = logging.getLogger(__name__)
_STARTS_AT_ONCE = 50
_BETWEEN_STARTS = 0.05


@dataclass(slots=True)
class _Listing:
    """What there is, but for the namespaces that may not be listed."""

    queues: list[Json] = field(default_factory=list[Json])
    deployments: list[Json] = field(default_factory=list[Json])
    pods: list[Json] = field(default_factory=list[Json])
    refused: set[str] = field(default_factory=set[str])


class Controller:
    """Starts and ends runners as queues come and go. Standing by, it watches and does nothing."""

    def __init__(self) -> None:
        self._context: Context | None = None
        self._runners: dict[Key, tuple[Reconciler, asyncio.Task[None]]] = {}
        self._stopping: dict[Key, asyncio.Task[None]] = {}
        self._works = False
        self.listed = asyncio.Event()
        """Set when the first whole listing has been read."""

    def settle_in(self, context: Context) -> None:
        """Gives it what its runners work with; it is made before, since the cache calls :meth:`changed`."""
        self._context = context

    @property
    def context(self) -> Context:
        """What the runners work with."""
        if self._context is None:
            raise RuntimeError("settle_in() comes first")
        return self._context

    def changed(self, key: Key) -> None:
        """Something about a queue is news."""
        if not self._works:
            return
        is_there = self.context.cache.queue(key) is not None
        if is_there and key not in self._runners:
            self._start(key)
        elif is_there:
            self._runners[key][0].mark_dirty()
        elif key in self._runners:
            self._end(key)
        self.context.metrics.queues.set(len(self._runners))

    def _start(self, key: Key) -> None:
        runner = Reconciler(key, self.context)
        work = _after(self._stopping.get(key), runner)
        self._runners[key] = (runner, in_background(work, name=f"queue {key[0]}/{key[1]}"))

    def _end(self, key: Key) -> None:
        """Ends a runner; the next one of that name waits for it, since at its end it lets go of what both use."""
        _, task = self._runners.pop(key)
        self._stopping[key] = task
        task.add_done_callback(lambda _: self._ended(key, task))
        task.cancel()

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._stopping.get(key) is task:
            del self._stopping[key]

    async def work(self) -> None:
        """Looks after all queues until it is cancelled; then nothing is touched any more."""
        await self.listed.wait()
        self._works = True
        try:
            for number, key in enumerate(self.context.cache.queues(), start=1):
                self.changed(key)
                if number % _STARTS_AT_ONCE == 0:
                    await asyncio.sleep(_BETWEEN_STARTS)
            await asyncio.Event().wait()
        finally:
            self._works = False
            tasks = [*(task for _, task in self._runners.values()), *self._stopping.values()]
            self._runners.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.context.metrics.queues.set(0)

    async def resync(self, stop: asyncio.Event) -> None:
        """Lists everything at once and then every resync period: a missed event costs that and nothing else."""
        period = self.context.settings.resync_period
        while not self.listed.is_set():
            await self._resync_once()
            if not self.listed.is_set():
                await asyncio.sleep(1.0)
        await run_every(period, self._resync_once, name="resync", stop=stop)

    async def _resync_once(self) -> bool:
        try:
            listing = await self._listing()
        except NotThere as error:
            _log.warning(
                LogEvent("resync_failed", error=error, fix="install the CRD reliablequeues.claimq.dev")
            )
        except ClusterError as error:
            _log.warning(LogEvent("resync_failed", error=error))
        else:
            self.context.cache.resync(
                listing.queues, listing.deployments, listing.pods, unknown=listing.refused
            )
            self.listed.set()
        self.context.liveness.ran("resync", silent_for=3 * self.context.settings.resync_period + 60)
        return False

    async def _listing(self) -> _Listing:
        """Everything in the namespaces that may be listed. Raises ClusterError when none may."""
        namespaces = self.context.settings.namespaces or (None,)
        listing = _Listing()
        for namespace in namespaces:
            try:
                await self._add(listing, namespace)
            except Refused as error:
                # A namespace that is deleted takes the role in it along: that must not end the work in the others.
                if namespace is None or len(listing.refused) + 1 == len(namespaces):
                    raise
                listing.refused.add(namespace)
                _log.warning(
                    LogEvent(
                        "namespace_not_listed",
                        namespace=namespace,
                        error=error,
                        fix="give the operator its role there, or take the namespace out of CLAIMQ_NAMESPACES",
                    )
                )
        return listing

    async def _add(self, listing: _Listing, namespace: str | None) -> None:
        ask = self.context.cluster.list
        queues = await ask(QUEUES, namespace, "", trimmed_queue)
        deployments = await ask(DEPLOYMENTS, namespace, SELECTOR, trimmed_deployment)
        listing.pods += await ask(PODS, namespace, SELECTOR, trimmed)
        listing.queues += queues
        listing.deployments += deployments


async def _after(former: asyncio.Task[None] | None, runner: Reconciler) -> None:
    if former is not None:
        await asyncio.wait({former})
    await runner.run()
