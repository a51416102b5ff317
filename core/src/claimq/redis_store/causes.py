"""Descriptions of an error's cause that repeat neither a server's text nor any part of an address."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator

from redis import exceptions as client

from claimq.address.redis_url import ONE_DOT

_DEPTH = 6
COMMANDS = frozenset(
    re.findall(
        "[a-z]+",
        "blpop client cluster config del eval evalsha hdel hello hexists hget hgetall hincrby hkeys hlen hmget hscan "
        "hset hstrlen info lindex llen lpush lrange lrem lset ltrim memory pexpire ping pubsub rpop rpush "
        "script select subscribe time type unlink wait waitaof "
        "zadd zcard zcount zlexcount zmscore zrange zrangebyscore zrem zscore",
    )
)
"""Commands that a message may name: those that claimq uses."""
_COMMAND = re.compile(r"'([a-z]+)(?:[|][a-z]+)?'|\b([A-Z]{3,})\b")
CLOSED = "the connection was closed"
_TEXTS = {
    "Connection closed by server": CLOSED,
    "Timeout": "timed out",
    "Too many connections": "all connections are in use",
    "No master found": "the sentinels know no master of this name, or it is down",
    "No slave found": "the sentinels know no replica of this name",
    "Invalid Database": "the server has no such database, or allows none",
    "Invalid RESP version": "the server does not speak the protocol of Redis 6",
    "Redis Cluster cannot be connected": "no node of the cluster can be reached",
    "Cluster mode is not enabled": "cluster mode is not enabled on this node",
    ONE_DOT: ONE_DOT,
}
"""Beginning of a message of the client library -> its description."""


def refused_right(text: str) -> str:
    """The command that a refusal names, if claimq uses it, in brackets; or "(the keys)"; or an empty text."""
    if named := named_commands(text):
        return f" (the command {named[0]})"
    return " (the keys)" if re.search(r"\bkeys?\b", text) else ""


def named_commands(text: str) -> list[str]:
    """The commands that a reply of the server names and that claimq uses."""
    words = (str(match[1] or match[2]).lower() for match in _COMMAND.finditer(text))
    return [word.upper() for word in words if word in COMMANDS]


def why(error: BaseException) -> str:
    """Why a call failed: the message of the operating system or the TLS library, or the kind of the exception."""
    chain = list(_chain(error))
    for cause in chain:
        if description := _of_the_system(cause):
            return description
    for cause in chain:
        for start, meaning in _TEXTS.items():
            if isinstance(cause, client.RedisError) and str(cause).startswith(start):
                return meaning
        if isinstance(cause, client.InvalidResponse):
            return "the server does not speak the protocol of Redis; correct the address, or use TLS"
    if any(isinstance(cause, client.TimeoutError | TimeoutError) for cause in chain):
        return "timed out"
    return type(error).__name__


def _of_the_system(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return "the name of the host cannot be resolved"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}" if re.fullmatch("[A-Z0-9_]{3,60}", error.reason or "") else "TLS failed"
    if isinstance(error, ConnectionError) and error.errno is None:
        return CLOSED
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        file = f": {error.filename}" if isinstance(error.filename, str) else ""
        return f"{os.strerror(error.errno)}{file}"
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_DEPTH):
        if error is None:
            return
        yield error
        if (
            isinstance(error, client.ConnectionError)
            and error.args
            and isinstance(error.args[0], BaseException)
        ):
            yield error.args[0]
        error = error.__cause__ or error.__context__
