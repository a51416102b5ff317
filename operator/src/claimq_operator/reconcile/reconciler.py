"""Reconciles one queue in a loop of its own, so that problems of one queue never delay another."""

from __future__ import annotations

import asyncio
import logging

from claimq.concurrency.background_work import or_cancelled
from claimq_control.manifest import DeletionPolicy
from claimq_control.passes.queue_loop import MIN_PAUSE, QueueLoop
from claimq_kubernetes.port import ClusterError, Conflict, Json, Refused
from claimq_kubernetes.queue_resource import Key, QueueResource, read_queue
from claimq_operator.decide.request_failures import Step
from claimq_operator.reconcile.apply import Applier
from claimq_operator.reconcile.cluster_platform import PAUSE_AFTER_ERROR, ClusterPlatform
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.finalizer import Finalizer
from claimq_process.log_lines import LogEvent

QUIET_PERIODS = 6
"""Periods of an idle queue from one pass to the next while looks at many queues find it unchanged."""
PASS_TIMEOUT = 120.0
"""Each step of a pass has a shorter timeout, so only a defect exceeds this one."""
_log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles one queue until it is cancelled."""

    def __init__(self, key: Key, context: Context) -> None:
        self.key = key
        self._context = context
        self._dirty = asyncio.Event()
        self._applier = Applier(context.cluster, context.cache, context.budgets)
        self._finalizer = Finalizer(context, self._applier)
        self._platform = ClusterPlatform(context, self._applier, self.mark_dirty)
        self._loop = QueueLoop(
            self._platform,
            asyncio.get_running_loop().time,
            context.wall_clock,
            busy_period=context.settings.busy_period,
            idle_period=context.settings.idle_period,
            quiet_period=QUIET_PERIODS * context.settings.idle_period,
        )
        self._parsed: tuple[Json, QueueResource] | None = None
        self._shown = f"{key[0]}/{key[1]}"
        self._loop_name = f"queue {self._shown}"

    def mark_dirty(self) -> None:
        """Starts the next pass at once, because an object of the queue has changed or there may be work."""
        self._dirty.set()

    async def run(self) -> None:
        """Runs passes forever. It may be cancelled at any point; the next leader continues from the same state."""
        context, loop = self._context, asyncio.get_running_loop()
        try:
            while True:
                context.liveness.beat(self._loop_name, timeout=2 * PASS_TIMEOUT)
                began = loop.time()
                pause = await or_cancelled(self._guarded_pass())
                context.metrics.pass_seconds.observe(loop.time() - began)
                # The configured pause may be longer than the timeout of a pass.
                context.liveness.beat(self._loop_name, timeout=pause + 2 * PASS_TIMEOUT)
                due = loop.time() + pause
                if not await or_cancelled(self._wait(pause)):
                    context.metrics.pass_lag.observe(max(loop.time() - due, 0.0))
        finally:
            context.liveness.remove(self._loop_name)
            context.metrics.forget_queue(self.key)
            await context.connections.release(self.key)

    async def _guarded_pass(self) -> float:
        """Runs one pass and logs its errors; returns the seconds until the next one."""
        self._dirty.clear()
        outcome, pause = "ok", PAUSE_AFTER_ERROR
        try:
            async with asyncio.timeout(PASS_TIMEOUT):
                pause = await self._pass()
        except Refused as error:
            outcome = "refused"
            _log.warning(LogEvent("request_refused", queue=self._shown, error=error))
        except ClusterError as error:
            outcome = "cluster"
            _log.warning(LogEvent("kubernetes_error", queue=self._shown, error=error))
        except TimeoutError:
            outcome = "timeout"
            _log.warning(LogEvent("pass_timed_out", queue=self._shown))
        except Exception:  # noqa: BLE001 - an unexpected error of one queue must not end its loop or others
            outcome = "defect"
            _log.exception(LogEvent("defect", queue=self._shown))
        self._context.metrics.passes.labels(*self.key, outcome).inc()
        return pause

    async def _pass(self) -> float:
        context = self._context
        body = context.cache.queue(self.key)
        if body is None:
            return context.settings.idle_period
        resource = self._read(body)
        if resource.deleted_at is not None:
            await self._finalizer.step(resource)
            return context.settings.busy_period
        self._platform.begin(resource, await self._ensure_finalizer(resource))
        return min(await self._loop.run(resource), self._platform.status_due_in)

    def _read(self, body: Json) -> QueueResource:
        if self._parsed is None or self._parsed[0] is not body:
            self._parsed = (body, read_queue(body))
        return self._parsed[1]

    async def _ensure_finalizer(self, resource: QueueResource) -> dict[Step, ClusterError]:
        """Adds the finalizer only if the deletion policy needs the operator, so that other deletions never wait.

        Returns the error if that fails; raises Conflict if the object has changed.
        """
        spec = resource.spec
        if spec is None:
            return {}
        needs_finalizer = spec.deletion_policy is not DeletionPolicy.RETAIN
        if needs_finalizer != resource.has_finalizer:
            try:
                await self._applier.finalizer(resource, is_present=needs_finalizer)
            except Conflict:
                raise
            except ClusterError as error:
                return {Step.FINALIZER: error}
        return {}

    async def _wait(self, pause: float) -> bool:
        """Waits for the next pass; returns True if a change or a new item ended the wait early."""
        await asyncio.sleep(MIN_PAUSE)
        # A watch that fails also starts a pass, which reports the error.
        with self._platform.watch(self._loop, self.mark_dirty):
            try:
                async with asyncio.timeout(max(pause - MIN_PAUSE, 0.0)):
                    return await self._dirty.wait()
            except TimeoutError:
                return False
