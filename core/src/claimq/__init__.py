"""claimq: reliable work queues on Redis and Valkey.

Start with ``claimq.connect(url)``. ``claimq.blocking`` has the same operations for synchronous programs,
and ``claimq.worker`` is the client of the sidecar's socket, which needs nothing but the standard library.
Names are loaded when they are first used, so that importing ``claimq.worker`` does not need the Redis client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from claimq.consuming.observing import ConsumeObserver
    from claimq.consuming.options import Consumed, OnFailure
    from claimq.errors import (
        ClaimqError,
        CrossSlot,
        InvalidName,
        InvalidSpec,
        ItemOutOfReach,
        ItemTooLarge,
        NoServer,
        NotReplicated,
        PayloadError,
        Problem,
        ReadTooLarge,
        RightMissing,
        ScriptsRefused,
        StoreFull,
        StoreMisused,
        StoreUnavailable,
        UnknownReply,
        WrongKeyType,
    )
    from claimq.handler_verdicts import Fail, Requeue
    from claimq.item_options import ItemOptions
    from claimq.model import (
        COUNTERS,
        AuditRecord,
        Claim,
        ClientInfo,
        Enqueued,
        EnqueuedItem,
        FailedPass,
        Item,
        Located,
        MemoryUsage,
        NewItem,
        Outcome,
        Priority,
        Reaped,
        Reason,
        Released,
        RemovalReason,
        Removed,
        RemovedItem,
        ServerReport,
        ServerWarning,
        Snapshot,
        State,
        Verdict,
        WorkerInfo,
    )
    from claimq.policy import Durability, FailedPolicy, Match, OnExpiry, Policy, RetryDelay
    from claimq.queue.claiming import DEFAULT
    from claimq.queue.settling import Done
    from claimq.redis_store.bounded_read import ReadBounds
    from claimq.redis_store.settings import RedisSettings
    from claimq.reliable_queue import Reaper, ReliableQueue
    from claimq.server import Server, connect

_HOMES = {
    "claimq.queue.claiming": ("DEFAULT",),
    "claimq.consuming.options": ("Consumed", "OnFailure"),
    "claimq.handler_verdicts": ("Fail", "Requeue"),
    "claimq.queue.settling": ("Done",),
    "claimq.errors": (
        "ClaimqError",
        "CrossSlot",
        "InvalidName",
        "InvalidSpec",
        "ItemOutOfReach",
        "ItemTooLarge",
        "NoServer",
        "NotReplicated",
        "PayloadError",
        "Problem",
        "ReadTooLarge",
        "RightMissing",
        "ScriptsRefused",
        "StoreFull",
        "StoreMisused",
        "StoreUnavailable",
        "UnknownReply",
        "WrongKeyType",
    ),
    "claimq.item_options": ("ItemOptions",),
    "claimq.model": (
        "COUNTERS",
        "AuditRecord",
        "Claim",
        "ClientInfo",
        "Enqueued",
        "EnqueuedItem",
        "FailedPass",
        "Item",
        "Located",
        "MemoryUsage",
        "NewItem",
        "Outcome",
        "Priority",
        "Reaped",
        "Reason",
        "Released",
        "RemovalReason",
        "Removed",
        "RemovedItem",
        "ServerReport",
        "ServerWarning",
        "Snapshot",
        "State",
        "Verdict",
        "WorkerInfo",
    ),
    "claimq.policy": ("Durability", "FailedPolicy", "Match", "OnExpiry", "Policy", "RetryDelay"),
    "claimq.consuming.observing": ("ConsumeObserver",),
    "claimq.redis_store.bounded_read": ("ReadBounds",),
    "claimq.redis_store.settings": ("RedisSettings",),
    "claimq.reliable_queue": ("Reaper", "ReliableQueue"),
    "claimq.server": ("Server", "connect"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "COUNTERS",
    "DEFAULT",
    "AuditRecord",
    "Claim",
    "ClaimqError",
    "ClientInfo",
    "ConsumeObserver",
    "Consumed",
    "CrossSlot",
    "Done",
    "Durability",
    "Enqueued",
    "EnqueuedItem",
    "Fail",
    "FailedPass",
    "FailedPolicy",
    "InvalidName",
    "InvalidSpec",
    "Item",
    "ItemOptions",
    "ItemOutOfReach",
    "ItemTooLarge",
    "Located",
    "Match",
    "MemoryUsage",
    "NewItem",
    "NoServer",
    "NotReplicated",
    "OnExpiry",
    "OnFailure",
    "Outcome",
    "PayloadError",
    "Policy",
    "Priority",
    "Problem",
    "ReadBounds",
    "ReadTooLarge",
    "Reaped",
    "Reaper",
    "Reason",
    "RedisSettings",
    "Released",
    "ReliableQueue",
    "RemovalReason",
    "Removed",
    "RemovedItem",
    "Requeue",
    "RetryDelay",
    "RightMissing",
    "ScriptsRefused",
    "Server",
    "ServerReport",
    "ServerWarning",
    "Snapshot",
    "State",
    "StoreFull",
    "StoreMisused",
    "StoreUnavailable",
    "UnknownReply",
    "Verdict",
    "WorkerInfo",
    "WrongKeyType",
    "connect",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'claimq' has no attribute {name!r}")
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "redis":
            raise ImportError(
                f"claimq.{name} needs the Redis client: install 'claimq[redis]'", name=error.name
            ) from error
        raise
