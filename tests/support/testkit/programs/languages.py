"""Programs in Go and Node.js that use the clients of this repository, as programs of users do."""

import os
import shutil
import subprocess
from pathlib import Path

from testkit.repository.tree import ROOT

Command = list[str | Path]


def build_go(go: str | Path, source: Path, folder: Path) -> Command:
    """Builds a program of one file in a module of its own, which gets the client from this clone."""
    folder.mkdir(exist_ok=True)
    shutil.copy(source, folder)
    env = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=mod", "GO111MODULE": "on"}
    client = f"-replace=claimq.dev/go={ROOT / 'clients' / 'go'}"
    for step in (
        ["mod", "init", "example"],
        ["mod", "edit", "-require=claimq.dev/go@v0.0.0", client],
        ["build", "-o", "program", "."],
    ):
        done = subprocess.run([go, *step], cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return [folder / "program"]


def install_node(node: str | Path, npm: Path, source: Path, folder: Path) -> Command:
    """Copies a program of one file into a package that gets the client from this clone, by npm."""
    folder.mkdir(exist_ok=True)
    shutil.copy(source, folder)
    install: Command = [
        node,
        npm,
        "install",
        "--offline",
        "--no-audit",
        "--no-fund",
        ROOT / "clients" / "node",
    ]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [node, folder / source.name]
