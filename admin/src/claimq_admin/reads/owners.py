"""The owner of a queue, in words."""

from __future__ import annotations

import claimq
from claimq.internals.operations import internals
from claimq.internals.owner import Owner

LOCAL_CLUSTER = "local"
"""The cluster in the owner record of a queue that local mode has taken over."""


def owner_text(owner: Owner) -> str:
    """Names an owner for people."""
    if owner.cluster == LOCAL_CLUSTER:
        return f"a local mode on {owner.namespace}"
    return f"the ReliableQueue {owner.namespace}/{owner.name}"


async def owner_note(queue: claimq.ReliableQueue) -> str:
    """The owner of a queue as text to put after its name; empty if it has none."""
    owner = await internals(queue).owner()
    return "" if owner is None else f", which {owner_text(owner)} owns,"
