"""claimq: reliable work queues on Redis and Valkey.

Start with ``claimq.connect(url)``. ``claimq.blocking`` has the same operations for synchronous programs,
and ``claimq.worker`` is the client of the sidecar's socket, which needs nothing but the standard library.
Names are loaded when they are first used, so that importing ``claimq.worker`` does not need the Redis client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from claimq.consuming.observing import ConsumeObserver
    from claimq.consuming.options import Consumed, OnFailure
    from claimq.errors import (
        ClaimqError,
        CrossSlot,
        InvalidName,
        InvalidSpec,
        ItemOutOfReach,
        ItemRefused,
        ItemTooCostly,
        ItemTooLarge,
        NoServer,
        NotReplicated,
        PayloadError,
        Problem,
        QueueFull,
        ReadTooLarge,
        RightMissing,
        ScriptsRefused,
        StoreFull,
        StoreMisused,
        StoreUnavailable,
        UnknownReply,
        WrongKeyType,
    )
    from claimq.handler_verdicts import Fail, Later, Requeue
    from claimq.item_options import ItemOptions
    from claimq.limits import Limit, Pause
    from claimq.model import (
        COUNTERS,
        Claim,
        ClientInfo,
        Enqueued,
        EnqueuedItem,
        Item,
        Located,
        NewItem,
        Outcome,
        Priority,
        Reaped,
        Reason,
        Released,
        ServerReport,
        ServerWarning,
        Snapshot,
        State,
        Verdict,
        WorkerInfo,
    )
    from claimq.policy import (
        Durability,
        FailedPolicy,
        KeyOrder,
        Match,
        MaxWaiting,
        OnExpiry,
        Policy,
        RetryDelay,
    )
    from claimq.queue.audit_log import AuditRecord
    from claimq.queue.claiming import DEFAULT
    from claimq.queue.failed.removed import FailedPass, RemovalReason, Removed, RemovedItem
    from claimq.queue.reading.inspecting import MemoryUsage
    from claimq.queue.settling import Done
    from claimq.redis_store.bounded_read import ReadBounds
    from claimq.redis_store.settings import RedisSettings
    from claimq.reliable_queue import Reaper, ReliableQueue
    from claimq.server import Server, connect
    from claimq.waiting.fairness import Fairness, Turns
    from claimq.waiting.reasons import Between, WaitReason, Where

_HOMES = {
    "claimq.queue.claiming": ("DEFAULT",),
    "claimq.queue.reading.inspecting": ("MemoryUsage",),
    "claimq.consuming.options": ("Consumed", "OnFailure"),
    "claimq.handler_verdicts": ("Fail", "Later", "Requeue"),
    "claimq.queue.settling": ("Done",),
    "claimq.errors": (
        "ClaimqError",
        "CrossSlot",
        "InvalidName",
        "InvalidSpec",
        "ItemOutOfReach",
        "ItemRefused",
        "ItemTooCostly",
        "ItemTooLarge",
        "NoServer",
        "NotReplicated",
        "PayloadError",
        "Problem",
        "QueueFull",
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
    "claimq.limits": ("Limit", "Pause"),
    "claimq.model": (
        "COUNTERS",
        "Claim",
        "ClientInfo",
        "Enqueued",
        "EnqueuedItem",
        "Item",
        "Located",
        "NewItem",
        "Outcome",
        "Priority",
        "Reaped",
        "Reason",
        "Released",
        "ServerReport",
        "ServerWarning",
        "Snapshot",
        "State",
        "Verdict",
        "WorkerInfo",
    ),
    "claimq.waiting.fairness": (
        "Fairness",
        "Turns",
    ),
    "claimq.policy": (
        "Durability",
        "FailedPolicy",
        "KeyOrder",
        "Match",
        "MaxWaiting",
        "OnExpiry",
        "Policy",
        "RetryDelay",
    ),
    "claimq.queue.audit_log": ("AuditRecord",),
    "claimq.queue.failed.removed": ("FailedPass", "RemovalReason", "Removed", "RemovedItem"),
    "claimq.consuming.observing": ("ConsumeObserver",),
    "claimq.redis_store.bounded_read": ("ReadBounds",),
    "claimq.redis_store.settings": ("RedisSettings",),
    "claimq.reliable_queue": ("Reaper", "ReliableQueue"),
    "claimq.server": ("Server", "connect"),
    "claimq.waiting.reasons": ("Between", "WaitReason", "Where"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "COUNTERS",
    "DEFAULT",
    "AuditRecord",
    "Between",
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
    "Fairness",
    "InvalidName",
    "InvalidSpec",
    "Item",
    "ItemOptions",
    "ItemOutOfReach",
    "ItemRefused",
    "ItemTooCostly",
    "ItemTooLarge",
    "KeyOrder",
    "Later",
    "Limit",
    "Located",
    "Match",
    "MaxWaiting",
    "MemoryUsage",
    "NewItem",
    "NoServer",
    "NotReplicated",
    "OnExpiry",
    "OnFailure",
    "Outcome",
    "Pause",
    "PayloadError",
    "Policy",
    "Priority",
    "Problem",
    "QueueFull",
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
    "Turns",
    "UnknownReply",
    "Verdict",
    "WaitReason",
    "Where",
    "WorkerInfo",
    "WrongKeyType",
    "connect",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if name == "__version__":
        return import_module("importlib.metadata").version("claimq")
    if home is None:
        raise AttributeError(f"module 'claimq' has no attribute {name!r}")
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "redis":
            raise ImportError(
                f"claimq.{name} needs the Redis client: in a clone, pip install './core[redis]'",
                name=error.name,
            ) from error
        raise
