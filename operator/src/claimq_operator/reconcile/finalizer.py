"""Deletes a queue: first its workers, then its items on the server as deletionPolicy says.

Deletion never blocks forever: if the server is unreachable for ``deletion_patience``, the finalizer is removed, the
items stay on the server, and an Event describes how to delete them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from claimq.errors import ClaimqError
from claimq.internals.operations import internals
from claimq.reliable_queue import ReliableQueue
from claimq_control.fault import OWNED_BY_ANOTHER, Fault
from claimq_control.manifest import DeletionPolicy, QueueSpec
from claimq_control.passes.maintenance import set_fields
from claimq_control.passes.server import no_response
from claimq_control.passes.worker_platform import ServerAccessError
from claimq_kubernetes.port import ClusterError, Json, NamespaceEnding
from claimq_kubernetes.queue_resource import QueueResource
from claimq_kubernetes.worker_pods import is_finished
from claimq_operator.reconcile.apply import Applier
from claimq_operator.reconcile.cluster_platform import open_queue
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.server_faults import ServerFaults
from claimq_operator.redis.ownership import NAME_FORBIDDEN
from claimq_operator.telemetry.event_recorder import counted
from claimq_process.log_lines import LogEvent

_log = logging.getLogger(__name__)
_Action = Callable[[QueueResource, QueueSpec, ReliableQueue], Awaitable[None]]
_NOT_OURS = (OWNED_BY_ANOTHER, NAME_FORBIDDEN)
_WORKERS_SECONDS = 60.0
"""Time after the drain timeout that pods may take to terminate; after that the items are handled anyway."""
_MISSING_SECRET_SECONDS = 20.0
_ENDING_SECONDS = 5.0
"""How long a deletion waits for a server that is deleted with the namespace."""
_ASK_SECONDS = 10.0
_TIMEOUT = 15.0


class Finalizer:
    """Deletes one queue, one step in each pass."""

    def __init__(self, context: Context, applier: Applier) -> None:
        self._context = context
        self._faults = ServerFaults(context.connections)
        self._applier = applier
        self._since: float | None = None
        self._asked_at = float("-inf")
        self._is_ending = False
        """Whether the namespace is being deleted, too."""
        self._is_handled = False
        """Whether only the finalizer is left. A further look at the server would record the owner again."""

    async def step(self, resource: QueueResource) -> None:
        """Does the next step. Raises ClusterError."""
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        if not resource.has_finalizer:
            return
        spec = resource.spec
        if spec is None or spec.redis is None or spec.deletion_policy is DeletionPolicy.RETAIN:
            await self._applier.finalizer(resource, is_present=False)
            return
        if not self._is_handled and not await self._handle_items(resource, spec, self._since):
            return
        self._is_handled = True
        await self._applier.finalizer(resource, is_present=False)

    async def _handle_items(self, resource: QueueResource, spec: QueueSpec, since: float) -> bool:
        """Stops the workers, then handles the items; returns False until that is done."""
        clock = asyncio.get_running_loop().time
        suspend_fault = await self._try(resource, spec, self._suspend)
        deployment = self._context.cache.deployment_of(resource)
        if deployment is not None and deployment["spec"].get("replicas", 1) > 0:
            await self._scale_to_zero(resource, deployment)
        if suspend_fault is not None and await self._ends_with_namespace(resource, suspend_fault, clock()):
            if clock() - since < _ENDING_SECONDS:
                return False
            await self._leave_items(resource, spec, suspend_fault)
            return True
        has_pods = not all(map(is_finished, self._context.cache.pods(resource.key)))
        if has_pods and clock() - since < spec.worker.drain_timeout + _WORKERS_SECONDS:
            return False
        fault = suspend_fault or await self._try(resource, spec, self._delete)
        if fault is not None:
            if clock() - since < self._patience(fault):
                return False
            await self._leave_items(resource, spec, fault)
        return True

    async def _ends_with_namespace(self, resource: QueueResource, fault: Fault, now: float) -> bool:
        """Whether the server, or the Secret with its address or password, is deleted with the namespace.

        The operator may not read namespaces, but no Event can be created in one that is being deleted.
        """
        if fault.reason in _NOT_OURS:
            return False
        if not self._is_ending and now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            longest = self._context.settings.deletion_patience
            message = f"the deletion waits for the queue's server, at most {longest:g} s: {fault.message}"
            refusal = await self._context.recorder.emit(resource, "DeletionWaits", message, warning=True)
            self._is_ending = isinstance(refusal, NamespaceEnding)
        is_lost = fault.reason == "SecretMissing" or self._context.connections.is_in_namespace(resource.key)
        return self._is_ending and is_lost

    async def _scale_to_zero(self, resource: QueueResource, deployment: Json) -> None:
        """Ends the workers. If the API server does not accept that, as while a webhook does not answer, they end with
        the Deployment, once the queue's object is gone."""
        try:
            await self._applier.scale_to_zero(deployment)
        except ClusterError as error:
            _log.warning(LogEvent("request_refused", queue=resource.full_name, error=error))

    def _patience(self, fault: Fault) -> float:
        """Seconds to keep trying: little for a Secret deleted with its namespace, none for another owner's queue."""
        if fault.reason in _NOT_OURS:
            return 0.0
        longest = self._context.settings.deletion_patience
        return min(longest, _MISSING_SECRET_SECONDS) if fault.reason == "SecretMissing" else longest

    async def _try(self, resource: QueueResource, spec: QueueSpec, action: _Action) -> Fault | None:
        assert spec.redis is not None  # noqa: S101 - checked by the caller
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, queue = await open_queue(self._context, resource, spec, spec.redis)
                await action(resource, spec, queue)
        except ServerAccessError as error:
            return error.fault
        except ClaimqError as error:
            self._context.connections.expire_secrets(resource.key, spec.redis)
            return self._faults.of(resource, spec.redis, error)
        except TimeoutError:
            return self._faults.of(resource, spec.redis, no_response(_TIMEOUT))
        return None

    async def _suspend(self, resource: QueueResource, spec: QueueSpec, queue: ReliableQueue) -> None:
        del resource, spec
        snapshot = await queue.snapshot()
        if snapshot.pause is not None or not snapshot.paused:  # a pause may end
            await queue.update_policy(suspended=True)

    async def _delete(self, resource: QueueResource, spec: QueueSpec, queue: ReliableQueue) -> None:
        deleted = await internals(queue).delete_owned(
            await self._context.ownership.owner(resource),
            only_if_empty=spec.deletion_policy is DeletionPolicy.DELETE_IF_EMPTY,
        )
        recorder, name = self._context.recorder, spec.queue_name
        if deleted is None:
            await set_fields(queue, spec.policy_fields())
            message = (
                f"the queue {name} still has items and stays on the server (deletionPolicy DeleteIfEmpty)"
            )
            await recorder.emit(resource, "ItemsKept", message, warning=True)
            return
        message = (
            f"the queue {name} was deleted from the server with {counted(sum(deleted.values()), 'item')}"
        )
        await recorder.emit(resource, "ItemsRemoved", message)

    async def _leave_items(self, resource: QueueResource, spec: QueueSpec, fault: Fault) -> None:
        recorder = self._context.recorder
        if fault.reason in _NOT_OURS:
            message = f"nothing was deleted from the server: {fault.message}"
            await recorder.emit(resource, "ItemsKept", message, warning=True)
            return
        message = (
            f"the queue {spec.queue_name} could not be deleted from its server and stays there ({fault.message}); to "
            f"delete it, run `claimq delete {spec.queue_name} --redis URL`"
        )
        await recorder.emit(resource, "ItemsLeftBehind", message, warning=True)
