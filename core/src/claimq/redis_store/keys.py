"""Every key of a queue. They share one hash tag, so that a queue lives in one slot of a Redis Cluster.

=====================  ======  =================================================================================
``cq:{NAME}:...``      type    holds
=====================  ======  =================================================================================
``main``               list    items without a client, newest left, oldest right; the key that names a queue to a script
``main:CLIENT``        list    items of one client
``high``, ``low``      list    the same for items with a priority
``high:CLIENT``, ...   list    the same for items of one client with a priority
``levels``             hash    client ("-": none) -> count of its items that were claimed before lower ones
``keys``               hash    key of items -> token of the claim that has taken it, or several
``held``               zset    "KEY PLACE" of each item of ``delayed`` that waits for its key (score 0)
``clients``            zset    client that has items ("-": ``main``) -> its tag; the lowest has the next turn
``heads``              zset    client -> when its oldest item was enqueued (ms)
``delayed``            zset    envelope -> due (ms; the fraction keeps the order of one call), or its place, a number
                               above every instant, while it waits for its key
``delayed:clients``    hash    client -> how many of its items are in ``delayed``
``shares``             hash    client -> its processing time and items in progress, where clients take turns by time
``turns``              hash    nonce of a claim call -> the clients of its items, for the same
``bytes``              hash    client -> items and bytes of it in main and in delayed, where bytes are bounded
``limited``            zset    key of items -> when the next of its items may start (ms), while a rate holds them back
``starts``             hash    client, or "key KEY" -> levels of the rates that it has of its own
``in_progress``        hash    client -> number of its items in progress, while a limit on these holds per client
``busy:WORKER``        hash    token -> envelope
``leases``             zset    token -> end of the lease (ms)
``claims``             zset    call that claimed, "FIRST COUNT NONCE WORKER" -> when (ms)
``workers``            zset    worker -> last seen (ms)
``present``            zset    process that consumes, "INSTANCE WORKER" -> when to look whether it is there (ms)
``failed``             zset    id -> failed at (ms)
``failed:items``       hash    id -> envelope
``failed:reasons``     hash    reason -> number of failed items with it, for at most 200 reasons and "(other)"
``removed``            list    log of items that were removed without having been done, newest left, at most 1,000
``audit``              list    audit log: what people did by hand, newest left, at most 10,000 entries
``added``              list    the same for items that they enqueued or moved here, at most 1,000 entries
``config``             hash    the policy
``pauses``             hash    what is paused -> since and until when, by whom and why
``stats``              hash    counters, sequence number, the queue's clock
``wake``               list    at most one token: there is work
``ids``                zset    id that a producer gave -> when it is forgotten (ms)
``calls:INSTANCE``     hash    lane -> number and reply of its last mutating call; expires after an hour
=====================  ======  =================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from claimq.codec import check_name, text_of
from claimq.errors import ClaimqError

_LISTED = 50
_NOT_A_LIST = re.compile(r"WRONGTYPE \S+:(?:main|high|low):([!-~]{1,128}) is not a list")
"""The error of length_of_list() in lib/levels.lua for a list of a client."""
TYPES = {
    "main": "list",
    "high": "list",
    "low": "list",
    "levels": "hash",
    "keys": "hash",
    "held": "zset",
    "clients": "zset",
    "heads": "zset",
    "delayed": "zset",
    "delayed:clients": "hash",
    "shares": "hash",
    "turns": "hash",
    "bytes": "hash",
    "limited": "zset",
    "starts": "hash",
    "in_progress": "hash",
    "leases": "zset",
    "claims": "zset",
    "workers": "zset",
    "present": "zset",
    "failed": "zset",
    "failed:items": "hash",
    "failed:reasons": "hash",
    "removed": "list",
    "audit": "list",
    "added": "list",
    "config": "hash",
    "pauses": "hash",
    "stats": "hash",
    "wake": "list",
    "ids": "zset",
}


def queue_of(main_key: str) -> str:
    """The name of the queue with that main key."""
    return main_key.removeprefix("cq:{").removesuffix("}:main")


def absent_key(main_key: str) -> str:
    """A key in the queue's slot that never exists. While the slot is moved key by key, naming it makes the cluster
    refuse the script (TRYAGAIN), which would see only half of the queue."""
    return main_key.removesuffix("main") + "absent"


async def keys_of_wrong_type(
    command: Callable[..., Awaitable[Any]],
    main_keys: Sequence[str],
    args: Sequence[object],
    reply: str,
    instance: str,
) -> dict[str, tuple[str, str]]:
    """Finds keys of the queues that have a wrong type: key -> (its type, the type that it should have).

    Checks a bounded number of keys: those of listed clients and workers, and of those that are named in a call's
    ``args`` or in the error ``reply`` to it.
    """
    wrong_keys: dict[str, tuple[str, str]] = {}
    names = [*_NOT_A_LIST.findall(reply[:1000]), *(arg for arg in args if isinstance(arg, str))]
    short = [name for name in dict.fromkeys(names) if 0 < len(name) <= 200][:_LISTED]
    for main in main_keys:
        base = main.removesuffix("main")
        clients, workers = [await _names_in(f"{base}{part}", command) for part in ("clients", "workers")]
        for key, expected in _types(base, [*clients, *short], [*workers, *short], instance).items():
            try:
                kind = text_of(await command("TYPE", key))
            except ClaimqError:  # not allowed or not reachable: the first error is the one to report
                return wrong_keys
            if kind not in (expected, "none"):
                wrong_keys[key] = (kind, expected)
    return wrong_keys


async def _names_in(key: str, command: Callable[..., Awaitable[Any]]) -> list[str]:
    try:
        return [text_of(name) for name in await command("ZRANGE", key, 0, _LISTED)]
    except ClaimqError:  # this key may have the wrong type itself
        return []


def _types(base: str, clients: Sequence[str], workers: Sequence[str], instance: str) -> dict[str, str]:
    """Keys of the queue whose keys begin with ``base``, and the type that each should have."""
    return {
        **{base + part: kind for part, kind in TYPES.items()},
        **{f"{base}{part}:{client}": "list" for client in clients for part in ("main", "high", "low")},
        **{f"{base}busy:{worker}": "hash" for worker in workers},
        f"{base}calls:{instance}": "hash",
    }


class Keys:
    """The keys of one queue."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.base = f"cq:{{{check_name('queue', queue)}}}:"
        self.main = self.base + "main"
        self.wake = self.base + "wake"
        self.config = self.base + "config"
        self.stats = self.base + "stats"

    def __getitem__(self, part: str) -> str:
        return self.base + part
