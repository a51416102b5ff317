"""The scripts: one file a transition in ``lua/``, each put together with the parts of ``lua/lib/`` that its
``use:`` line names. Of a part only the functions that the script reaches are taken.

A script is called by the hash of its whole text, so two releases with different scripts can share one server.

What a script writes is read from its text: ``WRITES`` at its top lists the commands, and ``open()`` asks for the
permission to run each of them before anything is written (docs/decisions/0014).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

READS = frozenset({
    "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "LINDEX", "LLEN", "LRANGE", "TIME", "ZCARD",
    "ZCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCORE",
})  # fmt: skip
"""Commands that change nothing. A script runs each of them before its first write, or not at all."""

_COMMAND = re.compile(r"redis\.p?call\('([A-Z]+)'")
_FUNCTION = re.compile(
    r"^(?:--[^\n]*\n)*local function (\w+)\((?:[^\n]* end\n|[^\n]*\n(?:(?!end\n)[^\n]*\n)*end\n)",
    re.MULTILINE,
)
_NO_CODE = re.compile(r"--[^\n]*|'[^'\n]*'")
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text and the hash that EVALSHA takes. ``writes`` is false for those a replica may run."""

    name: str
    text: str
    sha: str
    writes: bool


@cache
def script(name: str) -> Script:
    """The script of that name, composed and hashed once."""
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
    """The commands in a script's text that change something, sorted."""
    return sorted(set(_COMMAND.findall(text)) - READS)


def _reached(parts: Iterable[str], body: str) -> Iterator[str]:
    """The parts without the functions that nothing in the body leads to."""
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
