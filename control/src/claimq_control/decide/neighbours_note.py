"""The sentence about clients that take many slots while others wait. Pure."""

from __future__ import annotations

from claimq.model import Snapshot, State
from claimq_process.duration import readable_duration

_MOST_NAMED = 3
"""Names are up to 128 characters long, and the end of the sentence is the fix."""


def neighbours_note(snapshot: Snapshot, limits: str) -> str:
    """Names the clients and the command that helps; empty if there are none. ``limits``: the command that changes the
    limits of the queue."""
    neighbours = snapshot.neighbours
    if not neighbours:
        return ""
    shares = [
        f"{client.name} has {client.slots:.0%} of the slots and {client.time:.0%} of the time"
        for client in neighbours[:_MOST_NAMED]
    ]
    shares += [f"{more} more clients have much too"] if (more := len(neighbours) - len(shares)) else []
    count = max(client.delayed_clients for client in neighbours)
    delay = readable_duration(max(client.delay for client in neighbours))
    others = "another client waits" if count == 1 else f"{count:,} others wait"
    most = max(1, snapshot.lengths[State.BUSY] // (len(neighbours) + 1))
    return (
        f"{', '.join(shares)}, while {others}, for up to {delay}; limit each client: {limits} set "
        f"each-client:per=client,busy={most}"
    )
