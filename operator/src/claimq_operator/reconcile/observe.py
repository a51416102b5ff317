"""One look at a queue: its objects as the watches told them, its server by asking. Faults are part of what is seen."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from claimq.errors import ClaimqError, StoreFull, StoreMisused
from claimq.model import ServerReport
from claimq.queue.reliable_queue import ReliableQueue
from claimq_operator.children.redis_secrets import place
from claimq_operator.decide.observed import Observed
from claimq_operator.fault import Fault
from claimq_operator.kubernetes_api.labels import TAKE_OVER
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.kubernetes_api.worker_pods import has_ended, read_pods
from claimq_operator.reconcile.context import Context
from claimq_operator.redis.connections import NoAccess
from claimq_operator.redis.maintenance import Kept, Maintenance
from claimq_spec.manifest import QueueSpec, RedisSpec

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
_ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the server said, or why it said nothing."""

    kept: Kept | None = None
    report: ServerReport | None = None
    fault: Fault | None = None


class Observer:
    """Looks at one queue, and does on its server what has to be done there."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._maintenance = Maintenance()
        self._pause = 0.0
        self._retry_at = float("-inf")
        self._fault: Fault | None = None
        self._asked_for: tuple[object, ...] | None = None
        self.queue: ReliableQueue | None = None
        """The queue on its server, once it has been reached."""

    @property
    def pause(self) -> float:
        """Seconds to let pass before a server that did not answer is asked again; 0: it answered."""
        return self._pause

    async def look(self, resource: QueueResource, refusal: Fault | None) -> tuple[Observed, Kept | None]:
        """What is there now. Never raises because of the server: that is what ``redis_fault`` is for."""
        key = resource.key
        answer = await self._answer(resource)
        bodies = self._context.cache.pods(key)
        observed = Observed(
            resource=resource,
            deployment=self._context.cache.deployment_of(resource),
            pods=read_pods(bodies, answer.kept.workers if answer.kept is not None else ()),
            snapshot=None if answer.kept is None else answer.kept.snapshot,
            workers=() if answer.kept is None else answer.kept.workers,
            report=answer.report,
            redis_fault=answer.fault,
            refusal=refusal,
        )
        return observed, answer.kept

    async def _answer(self, resource: QueueResource) -> _Answer:
        spec, now = resource.spec, asyncio.get_running_loop().time()
        if spec is None or spec.redis is None:
            return _Answer()
        asked_for = (resource.uid, resource.generation, resource.annotations.get(TAKE_OVER))
        if now < self._retry_at and asked_for == self._asked_for:
            return _Answer(fault=self._fault)
        self._asked_for = asked_for
        try:
            self._context.ownership.check_name(resource, spec)
            async with asyncio.timeout(_ASK_SECONDS):
                answer = await self._ask(resource, spec, spec.redis, now)
        except NoAccess as error:
            # How the server may be asked is not known, so workers must not try it either.
            return self._failed(resource, spec.redis, replace(error.fault, denied=True))
        except ClaimqError as error:
            return self._failed(resource, spec.redis, self._at(resource, spec.redis, fault_of(error)))
        except TimeoutError:
            fault = Fault("Unreachable", f"the server has not answered within {_ASK_SECONDS:g} s")
            return self._failed(resource, spec.redis, self._at(resource, spec.redis, fault))
        self._pause, self._retry_at, self._fault = 0.0, float("-inf"), None
        return answer

    async def _ask(self, resource: QueueResource, spec: QueueSpec, redis: RedisSpec, now: float) -> _Answer:
        shared = await self._context.servers.server_for(resource.key, redis)
        self.queue = shared.server.queue(spec.queue_name, worker="claimq-operator")
        await self._context.ownership.own(resource, self.queue)
        deaths = self._context.cache.deaths(resource.key)
        kept = await self._maintenance.run(
            self.queue,
            None if resource.is_paused else spec.policy_fields(),
            deaths,
            now=now,
            asks_workers=not all(map(has_ended, self._context.cache.pods(resource.key))),
        )
        self._context.cache.dealt_with(deaths, resource.key)
        return _Answer(kept, await shared.look(now))

    def _at(self, resource: QueueResource, redis: RedisSpec, fault: Fault) -> Fault:
        """The fault with the field that leads to the server, and how it was asked: TLS and its lack look alike."""
        if fault.reason == "Full":
            return fault
        how = "by TLS" if self._context.servers.asks_by_tls(resource.key) else "without TLS"
        told = f"it is the server of {place(redis)}, asked {how}: correct that, or mend the server"
        return replace(fault, message=f"{fault.message}; {told}")

    def _failed(self, resource: QueueResource, redis: RedisSpec, fault: Fault) -> _Answer:
        self._maintenance.forget()
        self._context.servers.distrust(resource.key, redis)
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._retry_at = asyncio.get_running_loop().time() + self._pause
        self._fault = fault
        return _Answer(fault=fault)


def fault_of(error: ClaimqError) -> Fault:
    """What a fault of the server means for the person who reads the condition."""
    if isinstance(error, StoreMisused):
        return Fault("Misused", str(error), needs_person=True)
    if isinstance(error, StoreFull):
        return Fault("Full", str(error), needs_person=True)
    return Fault("Unreachable", str(error))
