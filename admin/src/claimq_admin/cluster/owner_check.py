"""Checks that a queue on its server belongs to the ReliableQueue that names it.

A status is written by every user who has that right in the namespace, so it is no proof; the record on the server is.
"""

from __future__ import annotations

import claimq
from claimq.internals.operations import internals
from claimq_admin.cluster.server_settings import ClusterQueue
from claimq_admin.errors import ForeignQueue
from claimq_admin.reads.owners import owner_text
from claimq_control.grants import QueueGrants


async def check_owner(queue: claimq.ReliableQueue, named: ClusterQueue) -> None:
    """Returns if the server has the object of ``named`` on record as the queue's owner.

    Raises ForeignQueue if it has another owner or none, ClaimqError.
    """
    owner = await internals(queue).owner()
    if owner is None:
        raise ForeignQueue(
            "no owner of the queue is on record on its server: the operator has not used it yet"
        )
    if (owner.namespace, owner.name, owner.uid) != (named.namespace, named.name, named.uid):
        raise ForeignQueue(
            f"the queue {queue.name} belongs to {owner_text(owner)}; choose another spec.queueName for "
            f"{named.namespace}/{named.name}"
        )


async def check_owner_or_name(queue: claimq.ReliableQueue, named: ClusterQueue, grants: QueueGrants) -> None:
    """As :func:`check_owner`; a queue without an owner is accepted if its name is one of the namespace's own."""
    if await internals(queue).owner() is None and grants.allows_name(named.namespace, queue.name):
        return
    await check_owner(queue, named)
