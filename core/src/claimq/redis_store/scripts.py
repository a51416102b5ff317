"""The Lua scripts: one file per transition in ``lua/``. A line ``-- include NAME...`` stands for parts of ``lua/lib/``.

A script includes the parts that it needs, since each definition costs time in every call. What a function seldom
needs is included in its body, and so defined only when that function runs (docs/decisions/scripts.md). A script is
called by the hash of its text, so two releases with different scripts can share one server.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Arg = str | bytes | int | float
"""An argument of a script or command."""
Call = tuple[str, int, int]
"""Identity of a mutating call: (instance, lane, number). The server runs it once, however often it is sent."""

_INCLUDE = re.compile(r"^ *-- include (.+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text and its hash for EVALSHA. ``writes`` is False for a script that a replica may run."""

    name: str
    text: str
    sha: str
    writes: bool


@cache
def script(name: str) -> Script:
    """The script of that name, with the parts that it includes."""
    text = _with_parts(f"{name}.lua")
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, writes="no-writes" not in text.partition("\n")[0])


def _with_parts(path: str) -> str:
    text = (files("claimq.redis_store") / "lua" / path).read_text("ascii")
    return _INCLUDE.sub(
        lambda line: "".join(_with_parts(f"lib/{part}.lua") for part in line[1].split()), text
    )
