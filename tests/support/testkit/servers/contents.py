"""What a server holds, to the last byte: to see that a refused call has changed nothing."""

from typing import TypeAlias

from testkit.servers.resp import Reply
from testkit.servers.server import Server

Contents: TypeAlias = dict[str, tuple[str, int, tuple[bytes, ...]]]
"""Key -> its type, when it expires (ms, or -1), and its members in their order (those of a hash sorted by field)."""

_READ = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, members = redis.call('TYPE', key).ok, nil
  if kind == 'list' then members = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then members = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then members = redis.call('HGETALL', key)
  else members = {redis.call('DUMP', key)} end
  found[#found + 1] = {key, kind, redis.call('PEXPIRETIME', key), members}
end
return found
"""


def contents(server: Server) -> Contents:
    """All keys of a server. For tests: it reads everything."""
    found: Contents = {}
    for row in _many(server.call("EVAL", _READ, 0)):
        key, kind, ends_at, members = _many(row)
        assert isinstance(ends_at, int)
        listed = [_one(member) for member in _many(members)]
        if kind == b"hash":
            pairs = sorted(zip(listed[::2], listed[1::2], strict=True))
            listed = [word for pair in pairs for word in pair]
        found[_one(key).decode()] = (_one(kind).decode(), ends_at, tuple(listed))
    return found


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


def _many(reply: Reply) -> list[Reply]:
    assert isinstance(reply, list), reply
    return reply


def reads_of(server: Server) -> int:
    """How often the server has read from its clients."""
    return _number_in(server, "stats", "total_reads_processed")


def blocked_clients(server: Server) -> int:
    """How many clients wait for an element of a list."""
    return _number_in(server, "clients", "blocked_clients")


def _number_in(server: Server, section: str, field: str) -> int:
    info = server.call("INFO", section)
    assert isinstance(info, bytes)
    return int(info.decode().split(f"{field}:")[1].split()[0])
