"""The end of a queue that is deleted: workers gone first, then what its deletionPolicy says of the items.

It never hangs: when the server cannot be reached for ``deletion_patience``, the object goes, the items stay where they
are, and an event says so and how to remove them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from claimq.errors import ClaimqError
from claimq.queue.reliable_queue import ReliableQueue
from claimq_operator.fault import OWNED_BY_ANOTHER, Fault
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.kubernetes_api.worker_pods import has_ended
from claimq_operator.reconcile.apply import Applier
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.observe import fault_of
from claimq_operator.redis.connections import NoAccess
from claimq_operator.redis.ownership import NAME_FORBIDDEN
from claimq_spec.manifest import DeletionPolicy, QueueSpec

_Work = Callable[[QueueResource, QueueSpec, ReliableQueue], Awaitable[None]]
_NOT_OURS = (OWNED_BY_ANOTHER, NAME_FORBIDDEN)
_WORKERS_SECONDS = 60.0
"""Beyond the drain time: how long pods may take to go before the items are dealt with all the same."""
_GONE_SECRET_SECONDS = 20.0
_ASK_SECONDS = 15.0


class Finalizer:
    """Ends one queue, one step a pass."""

    def __init__(self, context: Context, applier: Applier) -> None:
        self._context = context
        self._applier = applier
        self._since: float | None = None

    async def step(self, resource: QueueResource) -> None:
        """The next step. Raises ClusterError."""
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        if not resource.has_finalizer:
            return
        spec = resource.spec
        if spec is None or spec.redis is None or spec.deletion_policy is DeletionPolicy.RETAIN:
            await self._applier.finalizer(resource, wanted=False)
            return
        suspending = await self._tried(resource, spec, self._suspend)
        deployment = self._context.cache.deployment_of(resource)
        if deployment is not None and deployment["spec"].get("replicas", 1) > 0:
            await self._applier.order_none(deployment)
        waited = now - self._since
        if (
            not all(map(has_ended, self._context.cache.pods(resource.key)))
            and waited < spec.worker.drain_timeout + _WORKERS_SECONDS
        ):
            return
        fault = suspending or await self._tried(resource, spec, self._remove)
        if fault is not None:
            if waited < self._patience(fault):
                return
            await self._leave_behind(resource, spec, fault)
        await self._applier.finalizer(resource, wanted=False)

    def _patience(self, fault: Fault) -> float:
        """A Secret that is gone with its namespace does not come back; another's queue is left at once."""
        if fault.reason in _NOT_OURS:
            return 0.0
        longest = self._context.settings.deletion_patience
        return min(longest, _GONE_SECRET_SECONDS) if fault.reason == "SecretMissing" else longest

    async def _tried(self, resource: QueueResource, spec: QueueSpec, work: _Work) -> Fault | None:
        assert spec.redis is not None  # noqa: S101 - the caller has looked
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                self._context.ownership.check_name(resource, spec)
                shared = await self._context.servers.server_for(resource.key, spec.redis)
                queue = shared.server.queue(spec.queue_name, worker="claimq-operator")
                await self._context.ownership.own(resource, queue)
                await work(resource, spec, queue)
        except NoAccess as error:
            return error.fault
        except ClaimqError as error:
            self._context.servers.distrust(resource.key, spec.redis)
            return fault_of(error)
        except TimeoutError:
            return Fault("Unreachable", f"the server has not answered within {_ASK_SECONDS:g} s")
        return None

    async def _suspend(self, resource: QueueResource, spec: QueueSpec, queue: ReliableQueue) -> None:
        del resource, spec
        if not (await queue.snapshot()).paused:
            await queue.update_policy(suspended=True)

    async def _remove(self, resource: QueueResource, spec: QueueSpec, queue: ReliableQueue) -> None:
        gone = await queue.delete(
            only_if_empty=spec.deletion_policy is DeletionPolicy.DELETE_IF_EMPTY,
            owner=await self._context.ownership.owner(resource),
        )
        if gone is None:
            await queue.update_policy(**spec.policy_fields())
            said = f"the queue {spec.queue_name} still has items and stays on the server (deletionPolicy DeleteIfEmpty)"
            await self._context.recorder.tell(resource, "ItemsKept", said, warning=True)
            return
        said = f"the queue {spec.queue_name} was removed from the server with {sum(gone.values())} items"
        await self._context.recorder.tell(resource, "ItemsRemoved", said)

    async def _leave_behind(self, resource: QueueResource, spec: QueueSpec, fault: Fault) -> None:
        if fault.reason in _NOT_OURS:
            said = f"nothing was removed from the server: {fault.message}"
            await self._context.recorder.tell(resource, "ItemsKept", said, warning=True)
            return
        said = (
            f"the queue {spec.queue_name} could not be removed from its server and is left there ({fault.message}); to "
            f"remove it, connect to the server and delete the keys that begin with cq:{{{spec.queue_name}}}:"
        )
        await self._context.recorder.tell(resource, "ItemsLeftBehind", said, warning=True)
