"""One queue: observe, plan, apply, again and again, in a loop of its own, so that no queue's trouble delays another."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from claimq.errors import ClaimqError
from claimq_operator.decide.observed import Observed
from claimq_operator.decide.plan import Memory, Plan, plan
from claimq_operator.decide.scale_down import SETTLE_SECONDS
from claimq_operator.decide.status import is_different, is_news
from claimq_operator.fault import Fault
from claimq_operator.kubernetes_api.port import ClusterError, Json, Refused
from claimq_operator.kubernetes_api.queue_resource import Key, QueueResource, read_queue
from claimq_operator.reconcile import events
from claimq_operator.reconcile.apply import Applier, NotOurs
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.finalizer import Finalizer
from claimq_operator.reconcile.observe import Observer
from claimq_spec.log_lines import LogEvent
from claimq_spec.manifest import DeletionPolicy, ScalingMode

PASS_SECONDS = 120.0
"""A pass that lasts longer is given up. Everything in it is bounded by less, so this is for defects."""
_LEAST_GAP = 0.05
_WAIT_GRACE = 1.0
_AFTER_FAULT = 5.0
_log = logging.getLogger(__name__)


class Reconciler:
    """Looks after one queue until it is cancelled."""

    def __init__(self, key: Key, context: Context) -> None:
        self.key = key
        self._context = context
        self._dirty = asyncio.Event()
        self._observer = Observer(context)
        self._applier = Applier(context.cluster, context.cache.see_deployment, context.cache.see_queue)
        self._finalizer = Finalizer(context, self._applier)
        self._memory = Memory()
        self._refusal: Fault | None = None
        self._parsed: tuple[Json, QueueResource] | None = None
        self._status_at = float("-inf")
        self._told = events.Told()
        self._waits_for_work = False
        self._shown = f"{key[0]}/{key[1]}"
        self._name = f"queue {self._shown}"

    def mark_dirty(self) -> None:
        """Something about the queue is news: the next pass comes at once."""
        self._dirty.set()

    async def run(self) -> None:
        """Passes, for ever. Cancelling it leaves everything where the next operator finds it."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._context.liveness.ran(self._name, silent_for=2 * PASS_SECONDS)
                began = loop.time()
                pause = await self._guarded()
                self._context.metrics.pass_seconds.observe(loop.time() - began)
                # A rest may be longer than any pass: it is by settings, and no silence.
                self._context.liveness.ran(self._name, silent_for=pause + 2 * PASS_SECONDS)
                due = loop.time() + pause
                if not await self._rest(pause):
                    self._context.metrics.pass_lag.observe(max(loop.time() - due, 0.0))
        finally:
            self._context.liveness.ended(self._name)
            self._context.metrics.forget_queue(self.key)
            await self._context.servers.release(self.key)

    async def _guarded(self) -> float:
        """One pass, whatever it meets; the seconds until the next."""
        self._dirty.clear()
        outcome, pause = "ok", _AFTER_FAULT
        try:
            async with asyncio.timeout(PASS_SECONDS):
                pause = await self._pass()
        except Refused as error:
            outcome = "refused"
            _log.warning(LogEvent("refused", queue=self._shown, error=error))
        except ClusterError as error:
            outcome = "cluster"
            _log.warning(LogEvent("cluster_fault", queue=self._shown, error=error))
        except TimeoutError:
            outcome = "timeout"
            _log.warning(LogEvent("pass_too_long", queue=self._shown))
        except Exception:  # noqa: BLE001 - a defect that one queue meets must not end its upkeep, nor that of others
            outcome = "defect"
            _log.exception(LogEvent("defect", queue=self._shown))
        self._context.metrics.passes.labels(*self.key, outcome).inc()
        return pause

    async def _pass(self) -> float:
        body = self._context.cache.queue(self.key)
        self._waits_for_work = False
        if body is None:
            return self._context.settings.idle_period
        resource = self._read(body)
        if resource.deleted_at is not None:
            await self._finalizer.step(resource)
            return self._context.settings.busy_period
        await self._keep_finalizer(resource)
        observed, kept = await self._observer.look(resource, self._refusal)
        loop = asyncio.get_running_loop()
        decided = plan(
            observed, self._memory, self._context.settings, now=self._context.wall(), clock=loop.time()
        )
        await self._apply(decided, observed, loop.time())
        self._memory = decided.memory
        await self._write_status(decided.status, resource, loop.time())
        self._show(observed, decided)
        await events.tell(self._context, self._told, observed, decided, kept)
        self._waits_for_work = _may_wait(observed, decided)
        return self._pause(observed, decided)

    def _read(self, body: Json) -> QueueResource:
        if self._parsed is None or self._parsed[0] is not body:
            self._parsed = (body, read_queue(body))
        return self._parsed[1]

    async def _keep_finalizer(self, resource: QueueResource) -> None:
        """Only where there is something to do at the end: else a deletion need not wait for the operator."""
        spec = resource.spec
        if spec is None:
            return
        wanted = spec.deletion_policy is not DeletionPolicy.RETAIN
        if wanted != resource.has_finalizer:
            await self._applier.finalizer(resource, wanted=wanted)

    async def _apply(self, decided: Plan, observed: Observed, now: float) -> None:
        try:
            await self._applier.children(decided, observed, now)
        except Refused as error:
            if self._refusal is None:
                self.mark_dirty()  # so that the status tells it at once
            self._refusal = _refusal(error)
            return
        self._refusal = None

    async def _write_status(self, status: Json, resource: QueueResource, now: float) -> None:
        is_due = now - self._status_at >= self._context.settings.status_period
        if not is_news(status, resource.status) and not (is_due and is_different(status, resource.status)):
            return
        try:
            await self._applier.status(resource, status)
            self._status_at = now
        except ClusterError as error:
            # What was done holds all the same; the next pass tells it.
            _log.warning(LogEvent("status_not_written", queue=self._shown, error=error))

    def _show(self, observed: Observed, decided: Plan) -> None:
        workers = decided.status["workers"]
        counts = {kind: workers[kind] for kind in ("desired", "ready", "busy")}
        self._context.metrics.see_queue(self.key, observed.snapshot, counts)
        if decided.decision is not None:
            self._context.metrics.decisions.labels(*self.key, decided.decision.rule.value).inc()

    def _pause(self, observed: Observed, decided: Plan) -> float:
        settings, snapshot = self._context.settings, observed.snapshot
        if decided.memory.marks.victims:
            return min(SETTLE_SECONDS, settings.busy_period)
        if self._refusal is not None:
            return _AFTER_FAULT
        if snapshot is None:
            return max(self._observer.pause, settings.busy_period)
        if observed.pods or observed.replicas or decided.replicas or _has_work(observed):
            return settings.busy_period
        due = settings.idle_period if snapshot.next_due_in is None else snapshot.next_due_in
        return min(settings.idle_period, max(due, _LEAST_GAP))

    async def _dirty_wait(self) -> bool:
        return await self._dirty.wait()

    async def _rest(self, pause: float) -> bool:
        """Until the next pass; True if something woke it before its time."""
        await asyncio.sleep(_LEAST_GAP)
        left = max(pause - _LEAST_GAP, 0.0)
        waits: set[asyncio.Task[bool]] = {asyncio.create_task(self._dirty_wait())}
        longest = left
        if self._waits_for_work and self._observer.queue is not None:
            waits.add(asyncio.create_task(self._observer.queue.wait_for_work(left)))
            # It ends by itself: cut short, it costs a connection in each pass of each queue that rests.
            longest += _WAIT_GRACE
        try:
            done, _ = await asyncio.wait(waits, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            for one in waits:
                with suppress(asyncio.CancelledError, ClaimqError):
                    await one
        # A wait that failed is news too: the next pass finds out what it was.
        return any(one.exception() is not None or one.result() for one in done)


def _refusal(error: Refused) -> Fault:
    """A child that the API server will not take, and what a person can do about it."""
    if isinstance(error, NotOurs):
        return Fault("ChildNotOurs", str(error), needs_person=True)
    if error.forbidden:
        said = f"{error}; give the operator the permission, or remove what in the namespace forbids it"
        return Fault("Forbidden", said, needs_person=True)
    return Fault("ChildInvalid", f"{error}; correct spec.worker.template", needs_person=True)


def _may_wait(observed: Observed, decided: Plan) -> bool:
    """Whether nobody but this operator would notice a first item: no workers, and the number is ours to decide."""
    spec, snapshot = observed.resource.spec, observed.snapshot
    if spec is None or snapshot is None or snapshot.paused or observed.resource.is_paused:
        return False
    is_auto = spec.scaling.mode is ScalingMode.AUTO and not spec.suspend
    return is_auto and observed.replicas == 0 and not decided.replicas and not _has_work(observed)


def _has_work(observed: Observed) -> bool:
    lengths = {} if observed.snapshot is None else observed.snapshot.lengths
    return any(count for state, count in lengths.items() if state.value in ("main", "busy"))
