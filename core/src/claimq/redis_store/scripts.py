"""The Lua scripts: one file per transition in ``lua/``, combined with the library parts that its ``use:`` line names.

Of each part (``lua/lib/``) only the functions that the script calls are included. A script is called by the hash of its
text, so two releases with different scripts can share one server.

The writing commands are found in the text and listed in ``WRITES`` at its top; ``open()`` checks the permission for
each of them before the script writes anything (docs/decisions/0014).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Arg = str | bytes | int | float
"""An argument of a script or command."""
Call = tuple[str, int, int]
"""Identity of a mutating call: (instance, lane, number). The server runs it once, however often it is sent."""

READS = frozenset({
    "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "LINDEX", "LLEN", "LRANGE", "TIME",
    "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCORE",
})  # fmt: skip
"""Commands that only read. A script runs them before its first write."""

_COMMAND = re.compile(r"redis\.p?call\('([A-Z]+)'")
_FUNCTION = re.compile(
    r"^(?:--[^\n]*\n)*local function (\w+)\((?:[^\n]* end\n|[^\n]*\n(?:(?!end\n)[^\n]*\n)*end\n)",
    re.MULTILINE,
)
_NO_CODE = re.compile(r"--[^\n]*|'[^'\n]*'")
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text and its hash for EVALSHA. ``writes`` is False for a script that a replica may run."""

    name: str
    text: str
    sha: str
    writes: bool


@cache
def script(name: str) -> Script:
    """The script of that name, with the library parts that it uses; composed and hashed once."""
    folder = files("claimq.redis_store") / "lua"
    shebang, _, body = (folder / f"{name}.lua").read_text("ascii").partition("\n")
    used = next(line for line in body.splitlines() if line.startswith("-- use: ")).split()[2:]
    parts = [(folder / "lib" / f"{part}.lua").read_text("ascii") for part in used]
    body = "\n".join([*_reached(parts, body), body])
    listed = ", ".join(f"'{command}'" for command in writes_of(body))
    text = f"{shebang}\nlocal WRITES = {{{listed}}}\n{body}"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, writes="no-writes" not in shebang)


def writes_of(text: str) -> list[str]:
    """The writing commands in a script's text, sorted."""
    return sorted(set(_COMMAND.findall(text)) - READS)


def _reached(parts: Iterable[str], body: str) -> Iterator[str]:
    """The parts without the functions that the body does not reach."""
    listed = list(parts)
    functions = {found[1]: found[0] for part in listed for found in _FUNCTION.finditer(part)}
    rest = "".join(_FUNCTION.sub("", part) for part in listed)
    reached: set[str] = set()
    new = _names_in(rest + body) & functions.keys()
    while new:
        reached |= new
        new = set().union(*(_names_in(functions[name]) for name in new)) & functions.keys() - reached
    for part in listed:
        yield _FUNCTION.sub(lambda found: found[0] if found[1] in reached else "", part)


def _names_in(text: str) -> set[str]:
    return set(_NAME.findall(_NO_CODE.sub("", text)))
