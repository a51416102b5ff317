"""The ways in which claims of the worker w1 end, as calls on the queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from claimq.model import Claim
    from claimq.reliable_queue import ReliableQueue

End = Callable[["ReliableQueue", "Sequence[Claim]"], Awaitable[object]]

ENDS: dict[str, End] = {
    "done": lambda queue, claims: queue.done(claims),
    "fail": lambda queue, claims: queue.fail(claims, "no"),
    "fail for good": lambda queue, claims: queue.fail(claims, "no", permanent=True),
    "drop": lambda queue, claims: queue.drop(claims, "no"),
    "unclaim": lambda queue, claims: queue.unclaim(claims),
    "requeue": lambda queue, claims: queue.requeue(claims),
    "release": lambda queue, _: queue.release_worker("w1"),
}
"""Without follow-up items and the end of a lease, which differ from test to test."""
