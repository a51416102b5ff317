"""One pass over a queue: maintain it on its server, observe, plan, order, report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from claimq.model import Snapshot, State
from claimq.reliable_queue import ReliableQueue
from claimq_control.decide.observed import DeclaredQueue, Observed
from claimq_control.decide.plan import Memory, Plan, plan
from claimq_control.manifest import QueueSpec, ScalingMode
from claimq_control.passes.maintenance import NO_FAILED_POLICY
from claimq_control.passes.server import QueueServer
from claimq_control.passes.worker_platform import Platform
from claimq_control.scale_down import SETTLE_SECONDS

MIN_PAUSE = 0.05


class QueueLoop:
    """The passes over one queue. Its memory may be lost: then workers are only removed later."""

    def __init__(
        self,
        platform: Platform,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        *,
        busy_period: float,
        idle_period: float,
        quiet_period: float | None = None,
        timeout: float = 30.0,
        longest_retry: float = 15.0,
    ) -> None:
        """``clock``: monotonic seconds; ``wall_clock``: Unix seconds. ``busy_period``: between two passes while there
        are items or workers, else ``idle_period``. ``quiet_period``: between two passes over a quiet queue, which the
        platform watches; None: ``idle_period``. ``timeout``: of the calls to the server in a pass."""
        self._platform = platform
        self._clock = clock
        self._wall_clock = wall_clock
        self._busy_period = busy_period
        self._idle_period = idle_period
        self._quiet_period = quiet_period or idle_period
        self._server = QueueServer(platform, timeout=timeout, longest_retry=longest_retry)
        self._memory = Memory()
        self.waits_for_work = False
        """Whether the first item must start a pass at once: there are no workers, and the loop decides on them."""
        self.is_quiet = False
        """Whether the next pass finds the same as this one unless the queue is changed or a delayed item is due."""

    @property
    def is_failing(self) -> bool:
        """Whether the server could not be used in the last pass."""
        return self._server.retry_after > 0

    async def write_policy(self, queue: ReliableQueue, spec: QueueSpec) -> None:
        """Writes the policy of a manifest outside of a pass, for a user who waits for it. Raises ClaimqError."""
        await self._server.write_policy(queue, spec)

    async def run(self, resource: DeclaredQueue) -> float:
        """Runs one pass; returns the seconds until the next one. Raises errors of the platform."""
        self.waits_for_work = self.is_quiet = False
        server = await self._server.maintain(resource)
        maintained = server.maintained
        holders = () if maintained is None else maintained.workers
        observed = Observed(
            resource,
            self._platform.workers(holders),
            None if maintained is None else maintained.snapshot,
            server.report,
            server.fault,
            holders,
        ).without_claims_ahead()
        planned = plan(observed, self._memory, now=self._wall_clock(), clock=self._clock())
        if not await self._platform.order(observed, planned):
            # The number of workers was not applied: it is neither remembered nor reported.
            planned = replace(planned, replicas=None, memory=self._memory)
        self._memory = planned.memory
        await self._platform.report(observed, planned, maintained)
        self.waits_for_work = _may_wait_for_work(observed, planned)
        return self._pause(observed, planned)

    def _pause(self, observed: Observed, planned: Plan) -> float:
        """Seconds until the next pass."""
        snapshot, workers = observed.snapshot, observed.workers
        if planned.memory.marks.victims:
            return min(SETTLE_SECONDS, self._busy_period)
        if self._platform.retry_after:
            return self._platform.retry_after
        if snapshot is None:
            return max(self._server.retry_after, self._busy_period)
        if workers.workers or workers.replicas or planned.replicas or _has_work(observed):
            return self._busy_period
        self.is_quiet = _is_quiet(observed.resource, snapshot)
        period = self._quiet_period if self.is_quiet else self._idle_period
        due = period if snapshot.next_due_in is None else snapshot.next_due_in
        return min(period, max(due, MIN_PAUSE))


def _is_quiet(resource: DeclaredQueue, snapshot: Snapshot) -> bool:
    """Of a queue without work and workers: no pause ends by itself, and no failed item is handled by its age."""
    spec = resource.spec
    handles_failed = (
        spec is not None and spec.policy_fields().get("failed", NO_FAILED_POLICY) != NO_FAILED_POLICY
    )
    ends = any(pause.until is not None for pause in snapshot.pauses)
    return not ends and not (handles_failed and snapshot.lengths[State.FAILED])


def _may_wait_for_work(observed: Observed, planned: Plan) -> bool:
    resource, snapshot = observed.resource, observed.snapshot
    if resource.spec is None or snapshot is None or snapshot.paused or resource.is_paused:
        return False
    is_auto = resource.spec.scaling.mode is ScalingMode.AUTO and not resource.spec.suspend
    return is_auto and not (observed.workers.replicas or planned.replicas or _has_work(observed))


def _has_work(observed: Observed) -> bool:
    lengths = {} if observed.snapshot is None else observed.snapshot.lengths
    return bool(lengths.get(State.MAIN) or lengths.get(State.BUSY))
