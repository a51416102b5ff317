"""Reconciles one queue in a loop of its own, so that problems of one queue never delay another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

from claimq.concurrency.background_work import or_cancelled
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, Plan, plan
from claimq_control.fault import Fault
from claimq_control.manifest import DeletionPolicy, ScalingMode
from claimq_control.scale_down import SETTLE_SECONDS
from claimq_kubernetes.labels import selector_text
from claimq_kubernetes.port import ClusterError, Conflict, Json, Refused
from claimq_kubernetes.queue_resource import Key, QueueResource, read_queue
from claimq_operator.decide.objects import objects_of
from claimq_operator.decide.request_failures import RequestFailures, Step
from claimq_operator.decide.status_writes import has_changed, is_urgent
from claimq_operator.reconcile.apply import Applier
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.events import EventState, emit_events
from claimq_operator.reconcile.finalizer import Finalizer
from claimq_operator.reconcile.observe import observe
from claimq_operator.reconcile.server import QueueServer
from claimq_process.log_lines import LogEvent

PASS_TIMEOUT = 120.0
"""Each step of a pass has a shorter timeout, so only a defect exceeds this one."""
_MIN_PAUSE = 0.05
_PAUSE_AFTER_ERROR = 5.0
_log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles one queue until it is cancelled."""

    def __init__(self, key: Key, context: Context) -> None:
        self.key = key
        self._context = context
        self._dirty = asyncio.Event()
        self._server = QueueServer(context)
        self._applier = Applier(context.cluster, context.cache, context.budgets)
        self._finalizer = Finalizer(context, self._applier)
        self._memory = Memory()
        self._failures = RequestFailures()
        self._refusal: Fault | None = None
        self._parsed: tuple[Json, QueueResource] | None = None
        self._status_at = float("-inf")
        self._event_state = EventState()
        self._waits_for_work = False
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
        outcome, pause = "ok", _PAUSE_AFTER_ERROR
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
        context, loop = self._context, asyncio.get_running_loop()
        body = context.cache.queue(self.key)
        self._waits_for_work = False
        if body is None:
            return context.settings.idle_period
        resource = self._read(body)
        if resource.deleted_at is not None:
            await self._finalizer.step(resource)
            return context.settings.busy_period
        failures = await self._ensure_finalizer(resource)
        server = await self._server.maintain(resource)
        others = context.namespaces.others(resource.namespace)
        objects = objects_of(resource, context.cache.deployment_of(resource), context.settings)
        observed = observe(context.cache, objects, server, self._refusal, others)
        planned = plan(observed, self._memory, now=context.wall_clock(), clock=loop.time())
        planned = replace(planned, status={**planned.status, "selector": selector_text(resource.name)})
        # Before requests that fail while the API server is down.
        context.metrics.set_pass(self.key, observed, planned)
        failures |= await self._applier.children(planned, objects, loop.time())
        self._report(failures, loop.time())
        if failures.keys() & {Step.COSTS, Step.REPLICAS}:
            # The number of workers was not applied: it is neither remembered nor reported as an Event.
            planned = replace(planned, replicas=None, memory=self._memory)
        self._memory = planned.memory
        await self._write_status(planned.status, resource, loop.time())
        await emit_events(context, self._event_state, resource, observed, planned, server.maintained)
        for error in failures.values():
            if not isinstance(error, Refused):
                raise error
        self._waits_for_work = _may_wait_for_work(observed, planned)
        return self._pause(observed, planned)

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
        wanted = spec.deletion_policy is not DeletionPolicy.RETAIN
        if wanted != resource.has_finalizer:
            try:
                await self._applier.finalizer(resource, wanted=wanted)
            except Conflict:
                raise
            except ClusterError as error:
                return {Step.FINALIZER: error}
        return {}

    def _report(self, failures: Mapping[Step, ClusterError], now: float) -> None:
        """Keeps the fault of the failed requests for the next pass, which starts at once if the fault is new."""
        self._failures.update(failures, now)
        fault = self._failures.fault(now)
        if fault is not None and self._refusal is None:
            self.mark_dirty()
        self._refusal = fault

    async def _write_status(self, status: Json, resource: QueueResource, now: float) -> None:
        is_due = now - self._status_at >= self._context.settings.status_period
        if not is_urgent(status, resource.status) and not (is_due and has_changed(status, resource.status)):
            return
        try:
            await self._applier.status(resource, status)
            self._status_at = now
        except ClusterError as error:
            # The changes of this pass stay; the next pass writes the status.
            _log.warning(LogEvent("status_not_written", queue=self._shown, error=error))

    def _pause(self, observed: Observed, planned: Plan) -> float:
        """Seconds until the next pass."""
        settings, snapshot = self._context.settings, observed.snapshot
        if planned.memory.marks.victims:
            return min(SETTLE_SECONDS, settings.busy_period)
        if self._refusal is not None:
            return _PAUSE_AFTER_ERROR
        if snapshot is None:
            return max(self._server.retry_after, settings.busy_period)
        if observed.workers.workers or observed.workers.replicas or planned.replicas or _has_work(observed):
            return settings.busy_period
        due = settings.idle_period if snapshot.next_due_in is None else snapshot.next_due_in
        return min(settings.idle_period, max(due, _MIN_PAUSE))

    async def _wait(self, pause: float) -> bool:
        """Waits for the next pass; returns True if a change or a new item ended the wait early."""
        await asyncio.sleep(_MIN_PAUSE)
        # A watch that fails also starts a pass, which reports the error.
        with self._server.watch(self.mark_dirty) if self._waits_for_work else nullcontext():
            try:
                async with asyncio.timeout(max(pause - _MIN_PAUSE, 0.0)):
                    return await self._dirty.wait()
            except TimeoutError:
                return False


def _may_wait_for_work(observed: Observed, planned: Plan) -> bool:
    """Whether the operator must wait for the first item: there are no workers, and it decides on their number."""
    spec, snapshot = observed.resource.spec, observed.snapshot
    if spec is None or snapshot is None or snapshot.paused or observed.resource.is_paused:
        return False
    is_auto = spec.scaling.mode is ScalingMode.AUTO and not spec.suspend
    return is_auto and observed.workers.replicas == 0 and not planned.replicas and not _has_work(observed)


def _has_work(observed: Observed) -> bool:
    lengths = {} if observed.snapshot is None else observed.snapshot.lengths
    return any(count for state, count in lengths.items() if state.value in ("main", "busy"))
