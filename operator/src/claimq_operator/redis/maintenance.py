"""What a pass does on a queue's server: its policy, dead workers' claims, expired leases, due and failed items.

Every step is one atomic call that may run in any number of operators at once, and finds by itself what is left to do:
an operator that dies anywhere in here leaves each item where it was or where it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from claimq.errors import StoreFull, StoreMisused
from claimq.model import Reason, Snapshot, State, WorkerInfo
from claimq.policy import Policy
from claimq.policy_changes import PolicyFields
from claimq.queue.reliable_queue import ReliableQueue
from claimq_operator.kubernetes_api.terminations import Termination, dead_workers

POLICY_SECONDS = 30.0
"""How often the policy on the server is compared with the spec, beside every change of the spec."""
FAILED_SECONDS = 10.0
_LIMIT = 500
_ROUNDS = 10
"""Calls of one kind in one pass at most; what is left waits for the next."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Claims of one dead container that went back."""

    death: Termination
    count: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What upkeep found and did."""

    snapshot: Snapshot
    workers: tuple[WorkerInfo, ...] = ()
    given_back: tuple[GivenBack, ...] = ()


@dataclass(slots=True)
class Maintenance:
    """Keeps one queue in order; remembers only what need not be asked again soon."""

    _written: PolicyFields | None = None
    _policy_at: float = float("-inf")
    _failed_at: float = float("-inf")
    _settled: set[tuple[str, float]] = field(default_factory=set[tuple[str, float]])

    def forget(self) -> None:
        """After a fault nothing is taken for granted: the server may have come back empty."""
        self._written = None

    async def run(
        self,
        queue: ReliableQueue,
        policy: PolicyFields | None,
        deaths: Iterable[Termination],
        *,
        now: float,
        asks_workers: bool,
    ) -> Kept:
        """One round. ``policy``: the fields that the manifest sets, None: leave it. Raises ClaimqError; what was
        done before holds."""
        if policy is not None:
            await self._write_policy(queue, policy, now)
        known = tuple(deaths)
        workers: tuple[WorkerInfo, ...] = ()
        given_back: tuple[GivenBack, ...] = ()
        if known or asks_workers:
            workers = tuple(await queue.workers())
            given_back = await self._give_back(queue, known, workers)
        for _ in range(_ROUNDS):
            if not (await queue.reap(_LIMIT)).more:
                break
        if (
            policy is not None
            and now - self._failed_at >= FAILED_SECONDS
            and policy.get("failed") != _NOTHING
        ):
            # A full server takes no requeues of failed items; what is removed is removed before that.
            with suppress(StoreFull):
                await queue.apply_failed_policy(limit=_LIMIT)
            self._failed_at = now
        snapshot = await queue.snapshot()
        if given_back or (snapshot.lengths[State.BUSY] and not workers):
            workers = tuple(await queue.workers())
        return Kept(snapshot, workers, given_back)

    async def _write_policy(self, queue: ReliableQueue, policy: PolicyFields, now: float) -> None:
        """Writes the fields that the manifest sets; what it leaves open stays as another program set it."""
        if policy == self._written and now - self._policy_at < POLICY_SECONDS:
            return
        try:
            current: Policy | None = await queue.policy()
        except StoreMisused:  # a field holds what no release writes; ours replaces it
            current = None
        if current is None or self._written is None or replace(current, **policy) != current:
            await queue.update_policy(**policy)
            await queue.add_to_index()
        self._written, self._policy_at = policy, now

    async def _give_back(
        self, queue: ReliableQueue, deaths: tuple[Termination, ...], workers: tuple[WorkerInfo, ...]
    ) -> tuple[GivenBack, ...]:
        found: list[GivenBack] = []
        for death in deaths:
            count = 0
            for worker in dead_workers(death, workers):
                count += (await queue.release_worker(worker, death.reason, death.cause)).total
            if not death.is_sidecar:
                count += await self._give_back_apps(queue, death, workers)
            if count:
                found.append(GivenBack(death, count))
        self._settled &= {(death.container_id, death.before) for death in deaths}
        return tuple(found)

    async def _give_back_apps(
        self, queue: ReliableQueue, death: Termination, workers: tuple[WorkerInfo, ...]
    ) -> int:
        """Claims without a session, of an app that ended beside a sidecar that lives: those from before its end.

        Its node's clock and the server's are compared here. Where they differ, a claim is left to its lease, or at
        worst goes back while the app's next run works on it: its verdict is then lost and the item repeated.
        """
        if (death.container_id, death.before) in self._settled:
            return 0
        alive = {info.worker for info in workers if info.busy and info.worker.startswith(death.prefix)}
        tokens: list[str] = []
        if alive:
            for page in range(_ROUNDS):
                located = await queue.items(State.BUSY, _LIMIT, offset=page * _LIMIT)
                tokens += [
                    one.name
                    for one in located
                    if one.worker in alive and one.claimed_at is not None and one.claimed_at < death.before
                ]
                if len(located) < _LIMIT:
                    break
        if tokens and death.reason is Reason.CRASHED:
            await queue.crash(tokens, death.cause)
        elif tokens:
            await queue.unclaim(tokens)
        told = 0
        if death.reason is Reason.CRASHED:
            # What its sidecar gave back already does not know the cause, and in a drain is not even counted: with one
            # begin an eviction for what the pod itself used, and a restart of the app alone.
            for info in workers:
                if info.worker.startswith(death.prefix):
                    told += await queue.explain(info.worker, death.cause)
                    told += await queue.recount(info.worker, death.cause)
        self._settled.add((death.container_id, death.before))
        return len(tokens) + told


_NOTHING = Policy().failed
