"""The scripts: one file a transition in ``lua/``, each put together with the parts of ``lua/lib/`` that its
``use:`` line names.

A script is called by the hash of its whole text, so two releases with different scripts can share one server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


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
    parts = [shebang, *((folder / "lib" / f"{part}.lua").read_text("ascii") for part in used), body]
    text = "\n".join(parts)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, writes="no-writes" not in shebang)
