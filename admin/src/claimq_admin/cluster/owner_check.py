"""Checks that a queue on its server belongs to the ReliableQueue that names it.

A status is written by every user who has that right in the namespace, so it is no proof; the record on the server is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import claimq
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.internals.several_queues import owners_of_each
from claimq.model import Snapshot
from claimq_admin.cluster.server_settings import ClusterQueue
from claimq_admin.errors import ForeignQueue
from claimq_admin.reads.owners import owner_text
from claimq_admin.reads.queue_reads import snapshots_together
from claimq_control.grants import QueueGrants

_SECONDS = 5.0
"""After so long the owner of a queue is read again."""


async def check_owner(queue: claimq.ReliableQueue, named: ClusterQueue) -> None:
    """Returns if the server has the object of ``named`` on record as the queue's owner.

    Raises ForeignQueue if it has another owner or none, ClaimqError.
    """
    _check_record(await internals(queue).owner(), named)


def _check_record(owner: Owner | None, named: ClusterQueue) -> None:
    if owner is None:
        raise ForeignQueue(
            "no owner of the queue is on record on its server: the operator has not used it yet"
        )
    if (owner.namespace, owner.name, owner.uid) != (named.namespace, named.name, named.uid):
        raise ForeignQueue(
            f"the queue {named.queue_name} belongs to {owner_text(owner)}; choose another spec.queueName for "
            f"{named.namespace}/{named.name}"
        )


async def check_owner_or_name(queue: claimq.ReliableQueue, named: ClusterQueue, grants: QueueGrants) -> None:
    """As :func:`check_owner`; a queue without an owner is accepted if its name is one of the namespace's own."""
    if await internals(queue).owner() is None and grants.allows_name(named.namespace, queue.name):
        return
    await check_owner(queue, named)


class OwnerChecks:
    """The queues whose owner was read, by names that the caller gives them, and when."""

    def __init__(self) -> None:
        self._checked: dict[str, tuple[ClusterQueue, float]] = {}

    async def check(self, name: str, queue: claimq.ReliableQueue, named: ClusterQueue) -> None:
        """As :func:`check_owner`, if that was not done seconds ago."""
        if self._must_read(name, named):
            await check_owner(queue, named)
            self._checked[name] = (named, time.monotonic())

    def forget(self, name: str) -> None:
        """The name has no queue any more."""
        self._checked.pop(name, None)

    async def snapshots(
        self, server: claimq.Server, queues: Mapping[str, ClusterQueue]
    ) -> Mapping[str, Snapshot | None]:
        """The snapshots of queues of a server, with few round trips. None for a queue that does not exist. Checks as
        :meth:`check` does."""
        unread = [name for name, named in queues.items() if self._must_read(name, named)]
        owners = await owners_of_each(server.connection, [queues[name].queue_name for name in unread])
        for name, owner in zip(unread, owners, strict=True):
            _check_record(owner, queues[name])
            self._checked[name] = (queues[name], time.monotonic())
        snapshots = await snapshots_together(server, [named.queue_name for named in queues.values()])
        return {name: snapshots[named.queue_name] for name, named in queues.items()}

    def _must_read(self, name: str, named: ClusterQueue) -> bool:
        checked, at = self._checked.get(name, (None, 0.0))
        return checked != named or time.monotonic() - at > _SECONDS
