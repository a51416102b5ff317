"""What a server holds, to the last byte: to see that a refused call has changed nothing."""

from typing import TypeAlias

from testkit.resp import Connection, Reply
from testkit.server import Server

Contents: TypeAlias = dict[str, tuple[str, bool, tuple[bytes, ...]]]
"""Key -> its type, whether it expires, and its members in their order (those of a hash sorted by field)."""


def contents(server: Server) -> Contents:
    """All keys of a server. For tests: it reads everything."""
    connection = Connection(server.unix_path, 5.0)
    try:
        return {key.decode(): _read(connection, key) for key in sorted(_many(connection.call("KEYS", "*")))}
    finally:
        connection.close()


def _read(connection: Connection, key: bytes) -> tuple[str, bool, tuple[bytes, ...]]:
    kind = str(_one(connection.call("TYPE", key)), "ascii")
    expires = connection.call("PTTL", key) != -1
    if kind == "list":
        return kind, expires, tuple(_many(connection.call("LRANGE", key, 0, -1)))
    if kind == "zset":
        return kind, expires, tuple(_many(connection.call("ZRANGE", key, 0, -1, "WITHSCORES")))
    if kind == "hash":
        flat = _many(connection.call("HGETALL", key))
        pairs = sorted(zip(flat[::2], flat[1::2], strict=True))
        return kind, expires, tuple(word for pair in pairs for word in pair)
    return kind, expires, (_one(connection.call("DUMP", key)),)


def changes(before: Contents, after: Contents) -> dict[str, tuple[object, object]]:
    """Keys that differ: key -> (before, after)."""
    return {
        key: (before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    }


def _one(reply: Reply) -> bytes:
    assert isinstance(reply, bytes), reply
    return reply


def _many(reply: Reply) -> list[bytes]:
    assert isinstance(reply, list), reply
    return [_one(part) for part in reply]
