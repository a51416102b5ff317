"""Translates the client library's exceptions: into StoreUnavailable (try later) or StoreMisused (change something).

Messages are shown in conditions, events and logs that others read. They never repeat a server's reply or any part of an
address; the client library's text has both and stays in the exception's ``__cause__``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redis import exceptions as client

from claimq.errors import (
    ClaimqError,
    CrossSlot,
    NotReplicated,
    ReadTooLarge,
    RightMissing,
    ScriptsRefused,
    StoreFull,
    StoreMisused,
    StoreUnavailable,
    UnknownReply,
    WrongKeyType,
)
from claimq.redis_store.causes import refused_right, why
from claimq.redis_store.clients.parsers import ReplyTooLarge

# Beginning of an error reply of the server -> the message.
_LATER = {
    "LOADING": "the server is loading its data set; it will serve when that is done",
    "READONLY": "the server is a replica now (a failover); reconnecting",
    "MASTERDOWN": "the replica has lost its primary; a failover is under way",
    "CLUSTERDOWN": "the cluster cannot serve the queue's slot; repair or wait for its failover",
    "TRYAGAIN": "the queue's slot is being moved; trying again",
    "NOSCRIPT": "the server has forgotten the scripts; trying again",
    "BUSY ": "another client's script blocks the server; trying again",
    "MISCONF": "the server refuses writes since it cannot persist them (a snapshot or its append-only file failed); "
    "free its disk, or see its log",
    "NOREPLICAS": "the server has fewer healthy replicas than min-replicas-to-write requires",
    "max number of clients": "the server has its maximum of connections; close some, or raise its maxclients",
    "UNBLOCKED": "the server became a replica during a wait; reconnecting",
    "Slot": "no node of the cluster serves the slot",
}
NEEDS_CLUSTER = (
    "the server is a node of a Redis Cluster; write the address as redis+cluster://host:port, or set "
    "spec.redis.cluster: true"
)
_RIGHTS = "the user may not do this; grant its ACL ~cq:{NAME}:* and all the rights in docs/acl.md"
_UNKNOWN = (
    "the server does not know a command: it is too old, or its configuration renames the command; use Redis 7.0 or "
    "Valkey 7.2 or later"
)
_WRONG_TYPE = "a key of the queue is of another type"
_PERSON = {
    "WRONGTYPE": f"{_WRONG_TYPE}; see which with TYPE, and rename or delete it",
    "NOPERM": _RIGHTS,
    "ERR ACL failure in script": _RIGHTS,
    "ERR The user executing the script": _RIGHTS,
    "NOAUTH": "the server requires a password; give one in the URL or the settings",
    "ERR Protocol error: unauthenticated": "the server requires a password; give one in the URL or the settings",
    "WRONGPASS": "the server refuses this user and password; correct them",
    "ERR WAITAOF is no proof": "durability fsynced is refused: this server (Redis before 8.2, or Valkey) can confirm "
    "WAITAOF before its fsync; set appendfsync always on all its servers and declare that (appendfsync_always in the "
    "policy), or use durability replicated",
    "ERR WAITAOF cannot be used": "durability fsynced needs appendonly yes on the server; set it",
    "ERR unknown command": _UNKNOWN,
}
_CLASS_OF = {_RIGHTS: RightMissing, _PERSON["WRONGTYPE"]: WrongKeyType}
"""Message -> the class of its exception, if it has one of its own."""
_BEFORE_LOGIN = ("max number of clients", "NOAUTH", "ERR Protocol error: unauthenticated", "WRONGPASS")
_AFTER_LOGIN = (
    *(
        advice
        for start, advice in (_LATER | _PERSON).items()
        if start not in (*_BEFORE_LOGIN, "ERR unknown command")
    ),
    NEEDS_CLUSTER,
    _WRONG_TYPE,
    f"{_UNKNOWN} (the command",
)
"""Messages for error replies that a server sends only to a user whom it has accepted."""
NOT_DESCRIBED = (
    "no server answers there, or it refuses TLS or the user and password, or it is no Redis or Valkey server"
)
"""The text for every other error, where a tenant chose the address and claimq connects from its own place."""
_SCRIPTS = {
    "unknown command 'EVAL": "it does not know EVAL or EVALSHA; remove their rename-command from its configuration",
    "Error compiling script": "it is too old, or neither Redis nor Valkey; use Redis 7.0 or Valkey 7.2 or later",
    "Unexpected engine": "it is too old, or neither Redis nor Valkey; use Redis 7.0 or Valkey 7.2 or later",
    "nexpected flag": "it is neither Redis nor Valkey; `claimq doctor` names it",
    "acl_check_cmd": "`claimq doctor` names it, and docs/servers.md a server that can",
    "command called from script": "it does not know a command that they call; `claimq doctor` names the command",
    "attempt to call": "`claimq doctor` names it, and docs/servers.md a server that can",
}
"""Part of a reply to a script that the server cannot run -> what to do."""


# Part of the TLS library's message -> the message.
_TLS = {
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not signed by a trusted authority, or is for another "
    "host; give the right ca_file and host",
    "CERTIFICATE_REQUIRED": "the server requires a client certificate; give cert_file and key_file",
    "WRONG_VERSION_NUMBER": "the port of the server is without TLS; use redis://, or the port with TLS",
    "RECORD_LAYER_FAILURE": "the port of the server is without TLS; use redis://, or the port with TLS",
    "UNKNOWN_CA": "the server does not trust the client certificate; give another cert_file and key_file",
}


_EXPECTED = (client.RedisError, client.RedisClusterException, OSError, EOFError, TimeoutError)
"""What a client raises in an outage. Clients also raise errors of other classes then, such as AttributeError."""
_OWN_CODE = str(Path(__file__).parents[1])
_log = logging.getLogger("claimq.redis_store.connection")
_TYPES = ("string", "list", "set", "zset", "hash", "stream")


def is_unknown_script(error: BaseException) -> bool:
    """Whether the server does not have the script: it restarted, failed over, or its cache was flushed."""
    return isinstance(error, client.NoScriptError) or str(error).startswith("NOSCRIPT")


def is_wrong_type(error: BaseException | None) -> bool:
    """Whether a key has another type than the command needs."""
    return error is not None and "WRONGTYPE" in str(error)[:60]


def wrong_types(keys: Mapping[str, tuple[str, str]], *, doing: str) -> StoreMisused:
    """The error that names keys of a wrong type: key -> (its type, the type that it should have)."""
    named = ", ".join(
        f"{key} is a {kind if kind in _TYPES else 'value of another type'} and should be a {expected}"
        for key, (kind, expected) in keys.items()
    )
    return WrongKeyType(f"{doing}: {_WRONG_TYPE}: {named}; rename or delete it")


def of_client(error: Exception, *, doing: str, is_first: bool = True) -> ClaimqError:
    """The exception of this package for an error that a call of a client raised. Raises a defect of this package, such
    as a TypeError, as it is: each retry would meet it again. ``is_first``: whether an unexpected class is logged."""
    if not isinstance(error, _EXPECTED):
        if _is_own_defect(error):
            raise error
        if is_first:
            _log.warning("%s: unexpected %s in the client library", doing, type(error).__name__)
    return translate(error, doing=doing)


def _is_own_defect(error: Exception) -> bool:
    """Whether all frames of the error's traceback are in this package."""
    trace = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
            return False
        trace = trace.tb_next
    return True


def translate(error: Exception, *, doing: str) -> ClaimqError:
    """The exception of this package for one of the client library or a socket. ``doing`` names the call."""
    error = _unwrapped(error)
    text = str(error) or type(error).__name__
    if isinstance(error, ReplyTooLarge):
        return StoreMisused(f"{doing}: {text}")
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
            f"{doing}: the queues are in different slots of the cluster; make one call per queue"
        )
    if isinstance(error, client.MovedError) or text.startswith("MOVED "):
        return StoreMisused(f"{doing}: {NEEDS_CLUSTER}")
    for start, advice in _LATER.items():
        if text.startswith(start) or f" {start}" in text[:40] or _is_named(error, start):
            return StoreUnavailable(f"{doing}: {advice}")
    if misuse := _misuse(error, text, doing):
        return misuse
    return _by_class(error, text, doing)


def _by_class(error: Exception, text: str, doing: str) -> ClaimqError:
    """The exception for an error whose text says nothing."""
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
    if isinstance(error, UnicodeError):
        return StoreMisused(f"{doing}: the name of the host is not valid; correct it in the server's address")
    if isinstance(error, RuntimeError) and "loop" in text:
        return StoreMisused(f"{doing}: the connection belongs to another event loop; connect in this one")
    if not isinstance(error, client.RedisError):
        return StoreUnavailable(f"{doing}: the client library failed ({type(error).__name__})")
    return UnknownReply(f"{doing}: the server returned an unknown error ({why(error)})")


def is_too_large(error: Exception) -> bool:
    """Whether a reply, or all replies of a read, were larger than the bounds of this program."""
    return isinstance(error, ReadTooLarge) or isinstance(error.__cause__, ReplyTooLarge)


def shows_login(error: Exception) -> bool:
    """Whether the error shows that the address is a server of Redis' protocol that has accepted the user. Any other
    error may come from a port of any kind, or from none."""
    if isinstance(error, ScriptsRefused | ReadTooLarge | StoreFull | NotReplicated):
        return True
    if isinstance(error, StoreMisused) and not isinstance(error.__cause__, _EXPECTED):
        return True  # found by claimq itself, in replies to its scripts
    return any(advice in str(error) for advice in _AFTER_LOGIN)


def _misuse(error: Exception, text: str, doing: str) -> StoreMisused | None:
    """The exception for an error that lasts until someone changes something, if it is known."""
    scripts = _SCRIPTS.items() if isinstance(error, client.ResponseError) else ()
    for part, advice in scripts:
        if part in text:
            return ScriptsRefused(f"{doing}: the server cannot run claimq's scripts: {advice}")
    to_change = _advice(error, text)
    if not to_change:
        return None
    about = refused_right(text) if to_change in (_RIGHTS, _UNKNOWN) else ""
    return _CLASS_OF.get(to_change, StoreMisused)(f"{doing}: {to_change}{about}")


_WRAPPERS = (client.ConnectionError, client.RedisClusterException)


def _unwrapped(error: Exception) -> Exception:
    """The cause of an error while connecting, such as a wrong password: the client library wraps it in another one, and
    for a cluster in a third."""
    while type(error) in _WRAPPERS and isinstance(error.__cause__, client.RedisError):
        error = error.__cause__
    return error


def _advice(error: Exception, text: str) -> str | None:
    """What to change, if it is known. The client library removes some codes from the beginning of the text."""
    for start, advice in _PERSON.items():
        if text.startswith((start, start.removeprefix("ERR "))):
            return advice
    if is_wrong_type(error):
        return _PERSON["WRONGTYPE"]
    if isinstance(error, client.NoPermissionError):
        return _RIGHTS
    if isinstance(error, client.AuthenticationError | client.AuthorizationError):
        return _PERSON["NOAUTH" if "required" in text else "WRONGPASS"]
    code = text.upper().replace(" ", "_")
    return next((advice for word, advice in _TLS.items() if word in code), None)


_CLASSES = {
    "LOADING": client.BusyLoadingError,
    "READONLY": client.ReadOnlyError,
    "MASTERDOWN": client.MasterDownError,
    "CLUSTERDOWN": client.ClusterDownError,
    "TRYAGAIN": client.TryAgainError,
    "NOSCRIPT": client.NoScriptError,
    "NOPERM": client.NoPermissionError,
}


def _is_named(error: Exception, start: str) -> bool:
    """Whether the error is of the class that the client library uses instead of the first word of some replies."""
    if start == "NOAUTH":  # of the same class as a wrong password
        return isinstance(error, client.AuthenticationError) and "required" in str(error)
    kind = _CLASSES.get(start)
    return kind is not None and isinstance(error, kind)


def not_stale(reply: Any, name: str) -> Any:
    """Returns the reply. Raises StoreUnavailable if a later call of the same lane has run."""
    if isinstance(reply, list) and reply[:1] == [b"STALE"]:
        raise StoreUnavailable(f"{name}: a later call on the same lane has run; make the call again")
    return reply
