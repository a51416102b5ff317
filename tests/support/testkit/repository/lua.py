"""The Lua scripts as data: which commands they run, and which of these they ask for before they write."""

import re
from importlib.resources import files

from claimq.redis_store.scripts import script

NAMES = sorted(
    path.name.removesuffix(".lua")
    for path in (files("claimq.redis_store") / "lua").iterdir()
    if path.name != "lib"
)
READS = frozenset({
    "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "LINDEX", "LLEN", "LRANGE", "PUBSUB",
    "TIME", "ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZSCORE",
})  # fmt: skip
"""Commands that only read. A script runs them before its first write."""


def code_of(text: str) -> str:
    """The text without comments."""
    return re.sub(r"--[^\n]*", "", text)


def writes_of(text: str) -> list[str]:
    """The writing commands in a script's text, sorted."""
    return sorted(set(re.findall(r"redis\.p?call\('([A-Z]+)'", text)) - READS)


def declared_writes(name: str) -> list[str]:
    """The commands for which a script checks the permission before it writes, sorted."""
    lists = re.findall(
        r"(?:open\(KEYS\[1\], |local WRITES = |check_writes\(q\.base, )\{([^}]*)\}",
        code_of(script(name).text),
    )
    return sorted(set(re.findall("'([A-Z]+)'", "".join(lists))))
