"""What can go wrong, named by what the caller does next.

No exception of a client library leaves this package: the adapter turns each into one of these, with ``raise
... from``. Misuse of the Python API (a wrong type, a negative number) is a plain :class:`TypeError` or
:class:`ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class ClaimqError(Exception):
    """The root of everything this package raises on purpose."""


class NoServer(ClaimqError):
    """No server was named, and none could be found without a name. Nothing was sent."""


class StoreUnavailable(ClaimqError):
    """The server cannot be reached or cannot serve now (down, loading, failing over). Try again later.

    Nothing is known about a call that ended so: it may have taken effect. Repeating an enqueue that carried
    ids of the producer's own is harmless; a verdict that did arrive is answered ``lost`` when it is repeated
    by another call.
    """


class NotReplicated(StoreUnavailable):
    """The primary has carried out the call, and no replica confirmed it in time, as the queue's ``durability`` asks.

    Whether it survives a failover is not known. Repeating an enqueue that carried ids of the producer's own is
    harmless, and waits for a replica again. ``result`` is what the call would have returned.
    """

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class StoreFull(ClaimqError):
    """The server is at ``maxmemory`` and refuses new items. Slow the producers or give it more memory.

    Nothing was stored. Claims, verdicts and the reaper go on working, so the backlog can drain.
    """


class StoreMisused(ClaimqError):
    """The server answers, and the answer will not change by itself: a person has to change something.

    For instance a key of another type in the way, a missing permission, a wrong password, a server that is
    too old.
    """


class CrossSlot(StoreMisused):
    """The queues named in one call live in different slots of a Redis Cluster. Make one call for each queue."""


class ClaimLost(ClaimqError):
    """The claim is no longer held: its lease ran out or it was given back. Stop working and forget the result."""

    def __init__(self, token: str) -> None:
        super().__init__(f"the claim {token} is no longer held; stop working on it and forget the result")
        self.token = token


class ItemTooLarge(ClaimqError):
    """A payload is over the queue's ``max_payload``. Store it elsewhere and enqueue a reference. Nothing was stored."""

    def __init__(self, *, size: int, limit: int, index: int = 0) -> None:
        super().__init__(
            f"payload {index} of this call has {size} bytes and the queue takes at most {limit}; "
            "store it elsewhere and enqueue a reference, or raise maxPayload"
        )
        self.size = size
        self.limit = limit
        self.index = index


class PayloadError(ClaimqError):
    """The payload is not what the caller reads it as (text or JSON). The item itself is untouched."""


class InvalidName(ValueError, ClaimqError):
    """A name of a queue, worker, client or item that cannot be used. Choose another; the message says which rule."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a manifest: ``field`` is its path (``spec.scaling.minReplicas``), ``message`` says the fix."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSpec(ClaimqError):
    """A manifest has mistakes; ``problems`` holds all of them. Edit it and apply it again."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems) or "the manifest is not valid")
