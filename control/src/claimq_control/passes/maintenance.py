"""Maintains one queue on its server: policy, claims of terminated workers, expired leases, due and failed items.

Each step is one atomic call that several processes may run at the same time and that determines by itself what is left
to do. A process that dies at any point leaves every item where it was or where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from claimq.errors import StoreFull, StoreMisused
from claimq.internals.operations import internals
from claimq.model import Reason, State, WorkerInfo
from claimq.policy import Policy, PolicyFields
from claimq.reliable_queue import ReliableQueue
from claimq_control.passes.worker_platform import Maintained, ReleasedClaims
from claimq_control.workers import Termination, terminated_workers

POLICY_SECONDS = 30.0
"""How often the policy on the server is compared with the spec, in addition to every change of the spec."""
FAILED_SECONDS = 10.0
_LIMIT = 500
_MAX_CALLS = 10
"""Calls of one kind in a pass; the next pass does the rest."""
NO_FAILED_POLICY = Policy().failed
_NEVER = float("-inf")


@dataclass(slots=True)
class Maintenance:
    """Maintains one queue. Its state may be lost: then it makes more calls, and claims of apps that ended may wait for
    their leases."""

    _written: PolicyFields | None = None
    _policy_at: float = float("-inf")
    _failed_at: float = float("-inf")
    _handled: set[tuple[str, bool]] = field(default_factory=set[tuple[str, bool]])
    _passes_at: tuple[float, float] = _NEVER, _NEVER
    """When the last two passes ended, by the server's clock."""
    _alive_at: dict[str, float] = field(default_factory=dict[str, float])
    """For each container whose termination is known: an instant of the server's clock at which it was running."""

    def forget(self) -> None:
        """Call it after a fault: the server may have lost its data, so the policy is written again."""
        self._written = None
        self._passes_at = _NEVER, _NEVER

    async def run(
        self,
        queue: ReliableQueue,
        policy: PolicyFields | None,
        terminations: Iterable[Termination],
        *,
        now: float,
        has_workers: bool,
    ) -> Maintained:
        """Runs all steps. ``policy``: the fields that the manifest sets; None: do not change the policy.

        Raises ClaimqError; steps that were done before it stay done.
        """
        with internals(queue).reading("maintenance"):
            return await self._run(queue, policy, tuple(terminations), now=now, has_workers=has_workers)

    async def _run(
        self,
        queue: ReliableQueue,
        policy: PolicyFields | None,
        terminations: tuple[Termination, ...],
        *,
        now: float,
        has_workers: bool,
    ) -> Maintained:
        # The status may be older than the last pass, but not than the one before it.
        self._alive_at = {
            ended.container_id: self._alive_at.get(ended.container_id, self._passes_at[0])
            for ended in terminations
        }
        if policy is not None:
            await self.write_policy(queue, policy, now)
        workers: tuple[WorkerInfo, ...] = ()
        released: tuple[ReleasedClaims, ...] = ()
        if terminations or has_workers:
            workers = tuple(await queue.workers())
            released = await self._release(queue, terminations, workers)
        for _ in range(_MAX_CALLS):
            if not (await queue.reap(_LIMIT)).more:
                break
        if policy is not None:
            await self._apply_failed_policy(queue, policy, now)
        snapshot = await queue.snapshot(neighbours=True)
        self._passes_at = self._passes_at[1], snapshot.now
        if released or (snapshot.lengths[State.BUSY] and not workers):
            workers = tuple(await queue.workers())
        return Maintained(snapshot, workers, released)

    async def write_policy(self, queue: ReliableQueue, policy: PolicyFields, now: float) -> None:
        """Writes the fields that the manifest sets; other fields keep the values that other clients set."""
        if policy == self._written and now - self._policy_at < POLICY_SECONDS:
            return
        try:
            current: Policy | None = await queue.policy()
        except StoreMisused:  # a field has an invalid value; writing the policy replaces it
            current = None
        if current is None or self._written is None or replace(current, **policy) != current:
            await set_fields(queue, policy)
            await queue.add_to_index()
        self._written, self._policy_at = policy, now

    async def _apply_failed_policy(self, queue: ReliableQueue, policy: PolicyFields, now: float) -> None:
        if now - self._failed_at < FAILED_SECONDS or policy.get("failed") == NO_FAILED_POLICY:
            return
        # A full server rejects requeues of failed items; removals are done before them.
        with suppress(StoreFull):
            await queue.apply_failed_policy(limit=_LIMIT)
        self._failed_at = now

    async def _release(
        self, queue: ReliableQueue, terminations: tuple[Termination, ...], workers: tuple[WorkerInfo, ...]
    ) -> tuple[ReleasedClaims, ...]:
        released: list[ReleasedClaims] = []
        for ended in terminations:
            count = 0
            for worker in terminated_workers(ended, workers):
                count += (await queue.release_worker(worker, ended.reason, ended.cause)).total
            if not ended.is_sidecar:
                count += await self._release_of_app(queue, ended, workers)
            if count:
                released.append(ReleasedClaims(ended, count))
        self._handled &= {(ended.container_id, ended.is_last) for ended in terminations}
        return tuple(released)

    async def _release_of_app(
        self, queue: ReliableQueue, termination: Termination, workers: tuple[WorkerInfo, ...]
    ) -> int:
        """Returns claims without a session that an app held when it terminated while its sidecar runs on.

        These are all claims if no later run of the app can have any; else those that it had while earlier passes saw
        it running. The others stay until their leases expire: they may be the next run's.
        """
        if (termination.container_id, termination.is_last) in self._handled:
            return 0
        before = math.inf if termination.is_last else self._alive_at[termination.container_id]
        tokens = [
            token
            for info in workers
            if info.busy and info.worker.startswith(termination.prefix)
            for token in await internals(queue).tokens_claimed_before(info.worker, before)
        ]
        if tokens and termination.reason is Reason.CRASHED:
            await queue.crash(tokens, termination.cause)
        elif tokens:
            await queue.unclaim(tokens)
        explained = 0
        if termination.reason is Reason.CRASHED:
            # Items that the sidecar returned itself have no cause yet, and in a drain they were not counted: an
            # eviction for the pod's own usage and a restart of the app alone both start like a drain.
            for info in workers:
                if info.worker.startswith(termination.prefix):
                    explained += await internals(queue).explain(
                        info.worker,
                        termination.cause,
                        ended_at=termination.ended_at,
                        within=termination.within,
                    )
                    if termination.recounts:
                        explained += await internals(queue).recount(info.worker, termination.cause)
        self._handled.add((termination.container_id, termination.is_last))
        return len(tokens) + explained


async def set_fields(queue: ReliableQueue, policy: PolicyFields) -> None:
    """Sets these fields of the policy. Limits that would be more than eight with the temporary ones stay as they are:
    the next write sets them."""
    try:
        await queue.update_policy(**policy)
    except ValueError:
        rest = policy.copy()
        del rest["limits"]
        await queue.update_policy(**rest)
