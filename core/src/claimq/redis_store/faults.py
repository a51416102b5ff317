"""The client library's exceptions to ours: which mean *later*, which mean *change something*, and what.

Messages go into conditions, events and logs that others read. So they never repeat what a server replied, nor any part
of an address: the client library's own text has both. It stays in the exception's ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis import exceptions as client

from claimq.errors import ClaimqError, CrossSlot, StoreFull, StoreMisused, StoreUnavailable
from claimq.redis_store.causes import refused_right, why

# The beginning of an error reply of the server -> what to do. Any other reply is told as it is.
_LATER = {
    "LOADING": "the server is loading its data set; it will serve when that is done",
    "READONLY": "the server is a replica now (a failover); the connection is made anew",
    "MASTERDOWN": "the replica has lost its primary; a failover is under way",
    "CLUSTERDOWN": "the cluster cannot serve the queue's slot; repair or wait for its failover",
    "TRYAGAIN": "the queue's slot is being moved; it is asked again",
    "BUSY ": "another client's script blocks the server; it goes on when that ends",
    "MISCONF": "the server refuses writes since it cannot persist them; free its disk",
    "NOREPLICAS": "the server has fewer good replicas than min-replicas-to-write asks for",
    "UNBLOCKED": "the server became a replica during a wait; the connection is made anew",
    "Slot": "a slot of the cluster is served by no node",
}
_RIGHTS = "the user may not do this; grant its ACL ~cq:{NAME}:* and all the rights in docs/acl.md"
_PERSON = {
    "WRONGTYPE": "a key of the queue is of another type; see which with TYPE, and rename or delete it",
    "NOPERM": _RIGHTS,
    "ERR ACL failure in script": _RIGHTS,
    "ERR The user executing the script": _RIGHTS,
    "NOAUTH": "the server asks for a password; give one in the URL or the settings",
    "ERR Protocol error: unauthenticated": "the server asks for a password; give one in the URL or the settings",
    "WRONGPASS": "the server refuses this user and password; correct them",
    "ERR WAITAOF cannot be used": "durability fsynced needs appendonly yes on the server; set it",
    "ERR unknown command": "the server is too old or a command was renamed; use Redis 7.0 or Valkey 7.2 or later",
    "ERR Error compiling script": "the server is too old for these scripts; use Redis 7.0 or Valkey 7.2 or later",
    "ERR Unexpected engine": "the server is too old for these scripts; use Redis 7.0 or Valkey 7.2 or later",
}


# A part of what the TLS library says -> what to do.
_TLS = {
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is of no authority trusted here, or for another name; "
    "give the right ca_file and host",
    "CERTIFICATE_REQUIRED": "the server asks for a client certificate; give cert_file and key_file",
    "UNKNOWN_CA": "the server does not trust the client certificate; give another cert_file and key_file",
}


_TYPES = ("string", "list", "set", "zset", "hash", "stream")


def is_unknown_script(error: BaseException) -> bool:
    """The server has no script of that hash: it restarted, failed over, or its cache was flushed."""
    return isinstance(error, client.NoScriptError) or str(error).startswith("NOSCRIPT")


def is_wrong_type(error: BaseException | None) -> bool:
    """A key is of another type than the command needs."""
    return error is not None and "WRONGTYPE" in str(error)[:60]


def wrong_types(found: Mapping[str, tuple[str, str]], *, doing: str) -> StoreMisused:
    """The error that names the keys in the way: key -> (its type, the type it should have)."""
    told = ", ".join(
        f"{key} is a {kind if kind in _TYPES else 'value of another type'} and should be a {expected}"
        for key, (kind, expected) in found.items()
    )
    return StoreMisused(f"{doing}: a key of the queue is of another type: {told}; rename or delete it")


def translate(error: Exception, *, doing: str) -> ClaimqError:
    """Our exception for one of the client library's, or of the socket's. ``doing`` names the call for the reader."""
    error = _unwrapped(error)
    text = str(error) or type(error).__name__
    if isinstance(error, client.OutOfMemoryError) or text.startswith("OOM") or "OOM" in text[:60]:
        return StoreFull(
            f"{doing}: the server is at its maxmemory and takes no new items; slow the producers or give it more memory"
        )
    if (
        isinstance(error, client.ClusterCrossSlotError | client.CrossSlotTransactionError)
        or "CROSSSLOT" in text[:40]
        or "same key slot" in text
    ):
        return CrossSlot(
            f"{doing}: the queues live in different slots of the cluster; make one call for each queue"
        )
    for start, advice in _LATER.items():
        if text.startswith(start) or f" {start}" in text[:40] or _is_named(error, start):
            return StoreUnavailable(f"{doing}: {advice}")
    if to_change := _advice(error, text):
        about = refused_right(text) if to_change == _RIGHTS else ""
        return StoreMisused(f"{doing}: {to_change}{about}")
    if isinstance(error, client.MaxConnectionsError):
        return StoreUnavailable(
            f"{doing}: all connections are in use; make fewer calls at once or raise max_connections"
        )
    if isinstance(
        error,
        client.ConnectionError
        | client.TimeoutError
        | client.ClusterError
        | client.RedisClusterException
        | OSError
        | EOFError,
    ):
        return StoreUnavailable(f"{doing}: no answer from the server ({why(error)})")
    return StoreMisused(f"{doing}: the server answers with an error that is not known here ({why(error)})")


def _unwrapped(error: Exception) -> Exception:
    """What the opening of a connection met (a wrong password, for instance) comes wrapped in a ConnectionError."""
    cause = error.__cause__
    return cause if type(error) is client.ConnectionError and isinstance(cause, client.RedisError) else error


def _advice(error: Exception, text: str) -> str | None:
    """What a person has to change, where it is known. The client library leaves out some codes before the words."""
    for start, advice in _PERSON.items():
        if text.startswith((start, start.removeprefix("ERR "))):
            return advice
    if isinstance(error, client.NoPermissionError):
        return _RIGHTS
    if isinstance(error, client.AuthenticationError | client.AuthorizationError):
        return _PERSON["NOAUTH" if "required" in text else "WRONGPASS"]
    shown = text.upper().replace(" ", "_")
    return next((advice for word, advice in _TLS.items() if word in shown), None)


_CLASSES = {
    "LOADING": client.BusyLoadingError,
    "READONLY": client.ReadOnlyError,
    "MASTERDOWN": client.MasterDownError,
    "CLUSTERDOWN": client.ClusterDownError,
    "TRYAGAIN": client.TryAgainError,
    "NOPERM": client.NoPermissionError,
}


def _is_named(error: Exception, start: str) -> bool:
    """The client library drops the first word of some errors and makes a class of it."""
    if start == "NOAUTH":  # of the same class as a wrong password
        return isinstance(error, client.AuthenticationError) and "required" in str(error)
    kind = _CLASSES.get(start)
    return kind is not None and isinstance(error, kind)


def not_stale(reply: Any, name: str) -> Any:
    """The reply, unless a later call of the same lane has run: then StoreUnavailable."""
    if reply and reply[0] == b"STALE":
        raise StoreUnavailable(f"{name}: a later call on the same lane has run; make the call anew")
    return reply
