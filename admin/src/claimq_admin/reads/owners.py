"""The owner of a queue, in words."""

from __future__ import annotations

from claimq.internals.owner import Owner

LOCAL_CLUSTER = "local"
"""The cluster in the owner record of a queue that local mode has taken over."""


def owner_text(owner: Owner) -> str:
    """Names an owner for people."""
    if owner.cluster == LOCAL_CLUSTER:
        return f"`claimq up` on {owner.namespace}"
    return f"the ReliableQueue {owner.namespace}/{owner.name}"


def owner_note(owner: Owner | None) -> str:
    """The owner of a queue as text to put after its name; empty if it has none."""
    return "" if owner is None else f", which {owner_text(owner)} owns,"
