"""Exceptions, named by what the caller does next.

No exception of the client library leaves this package: each is translated into one of these, with ``raise ... from``.
Misuse of the Python API (a wrong type, a negative number) is a plain :class:`TypeError` or
:class:`ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class ClaimqError(Exception):
    """The base class of all exceptions of this package."""


class NoServer(ClaimqError):
    """The program names no server, and there is no default. Nothing was sent."""


class StoreUnavailable(ClaimqError):
    """The server cannot be reached or cannot serve now (down, loading, failing over). Try again later.

    The outcome of the call is unknown: it may have taken effect. Repeating an enqueue with ids of the producer's own is
    harmless. A repeated verdict returns ``lost`` if the first one took effect.
    """


class NotReplicated(StoreUnavailable):
    """The primary has carried out the call, but no replica confirmed it, as the queue's ``durability`` requires. It
    took too long, or the server refused to wait.

    The call may be lost in a failover. Repeating an enqueue that carried ids of the producer's own is harmless, and
    waits for a replica again. ``result`` is what the call would have returned; for several items that go in several
    calls, the result up to the call that was not confirmed."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class StoreFull(ClaimqError):
    """The server is at ``maxmemory`` and refuses new items. Slow the producers or give it more memory.

    Nothing was stored. Claims, verdicts and the reaper go on working, so the backlog can drain.
    """


class StoreMisused(ClaimqError):
    """The server refuses the call, and will go on refusing it until someone changes something.

    For example a key of another type, a missing permission, a wrong password, or a server that is too old.
    """


class RightMissing(StoreMisused):
    """The user lacks a right that the call needs. Grant it, see docs/acl.md."""


class WrongKeyType(StoreMisused):
    """A key of the queue has another type than the call needs. Rename or delete it."""


class UnknownReply(StoreMisused):
    """The server replied with an error that claimq does not know."""


class ScriptsRefused(StoreMisused):
    """The server cannot run claimq's scripts: it is too old, or neither Redis nor Valkey. Nothing was changed."""


class ReadTooLarge(StoreMisused):
    """The server returned more rows or bytes in one read, or took longer, than :class:`RedisSettings` allows.

    A healthy queue stays far below the default bounds. Programs that read from servers of others set smaller ones.
    """


class CrossSlot(StoreMisused):
    """The queues of one call are in different slots of a Redis Cluster. Make one call per queue."""


class ItemRefused(ClaimqError):
    """A queue never takes this item, as it is set. Nothing was stored. ``index``: the item's position in the call."""

    index: int


class ItemTooLarge(ItemRefused):
    """A payload is over the queue's ``max_payload``. Store it elsewhere and enqueue a reference. Nothing was stored."""

    def __init__(self, *, size: int, limit: int, index: int = 0) -> None:
        super().__init__(
            f"payload {index} of this call has {size} bytes and the queue takes at most {limit}; "
            "store it elsewhere and enqueue a reference, or raise maxPayload"
        )
        self.size = size
        self.limit = limit
        self.index = index


class ItemTooCostly(ItemRefused):
    """An item costs more than a limit with ``unit="cost"`` ever lets start, so it never could. ``limit``: the burst, or
    the bound; ``name``: of the limit. Nothing was stored."""

    def __init__(self, *, cost: int, limit: int, name: str, index: int = 0) -> None:
        super().__init__(
            f"item {index} of this call costs {cost}, and the limit {name} lets {limit} start at once, so it could "
            "never start; give it a lower cost, or raise the limit's burst or busy"
        )
        self.cost = cost
        self.limit = limit
        self.name = name
        self.index = index


class QueueFull(ClaimqError):
    """A queue, or one client of it, has as many waiting items or bytes as ``max_waiting`` of the policy allows. Enqueue
    again when workers have taken some.

    Nothing of the call was stored. ``unit``: what is bounded, ``"items"`` or ``"bytes"``; ``waiting``: how many wait in
    main and delayed; ``limit``: how many may wait; ``adding``: how many the call had; ``client``: whose bound it is,
    None for that of the whole queue.
    ``stored_count``: how many of the first items of ``enqueue_many`` are stored, in earlier calls.
    """

    def __init__(
        self,
        queue: str,
        waiting: int,
        limit: int,
        adding: int,
        client: str | None = None,
        unit: str = "items",
        stored_count: int = 0,
    ) -> None:
        self.queue = queue
        self.waiting = waiting
        self.limit = limit
        self.adding = adding
        self.client = client
        self.unit = unit
        self.stored_count = stored_count
        super().__init__(queue, waiting, limit, adding, client, unit, stored_count)

    def __str__(self) -> str:
        whose, field = "", f"maxWaiting.{self.unit}"
        if self.client is not None:
            whose, field = f" for the client {self.client}", f"maxWaiting.perClient.{self.unit}"
        advice = f"make calls of at most {self.limit}" if self.adding > self.limit else "enqueue again later"
        return (
            f"the queue {self.queue} is full{whose}: {self.waiting} of at most {self.limit} {self.unit} wait, and this "
            f"call adds {self.adding}; {advice}, add workers, or raise {field}"
        )


class PayloadError(ClaimqError):
    """The payload is not text or JSON, as which the caller reads it. The item itself is unchanged."""


class SearchEnded(ClaimqError):
    """A search that was to take few calls did not find the item, and has not looked at all items. Search all."""


class ItemOutOfReach(ClaimqError):
    """The item waits behind so many others that taking it out would block the server. Try again when fewer wait.

    Nothing was changed.
    """


class InvalidName(ValueError, ClaimqError):
    """An invalid name of a queue, worker, client or item. The message says which rule it breaks."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a manifest: ``field`` is its path (``spec.scaling.minReplicas``), ``message`` says the fix."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSpec(ClaimqError):
    """A manifest has errors; ``problems`` holds all of them. Edit it and apply it again."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems) or "the manifest is not valid")
