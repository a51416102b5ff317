"""The plugin of kubectl for krew: the manifest by the rules that krew documents, and what the plugin starts."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.tree import ROOT

URL = "https://example.com/claimq.tar.gz"
PLUGIN = ROOT / "cli" / "krew" / "kubectl-claimq"


def made(directory: Path) -> Path:
    script = ROOT / "scripts" / "make_krew.py"
    subprocess.run([sys.executable, str(script), URL, str(directory)], check=True)
    return directory


def test_the_manifest_has_what_krew_documents(tmp_path: Path) -> None:
    body: dict[str, Any] = yaml.safe_load((made(tmp_path) / "claimq.yaml").read_text())
    assert set(body) == {"apiVersion", "kind", "metadata", "spec"}
    assert (body["apiVersion"], body["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert body["metadata"] == {"name": "claimq"}  # the name of the file
    spec = body["spec"]
    assert set(spec) <= {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    version = tomllib.loads((ROOT / "cli" / "pyproject.toml").read_text())["project"]["version"]
    assert spec["version"] == f"v{version}"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert "\n" not in spec["shortDescription"]
    archive = tmp_path / "claimq.tar.gz"
    with tarfile.open(archive) as tar:
        modes = {one.name: one.mode for one in tar.getmembers()}
    assert modes == {"kubectl-claimq": 0o755, "LICENSE": 0o644}
    for platform in spec["platforms"]:
        assert set(platform) == {"selector", "uri", "sha256", "bin", "files"}
        assert platform["uri"] == URL
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert {one["from"] for one in platform["files"]} == set(modes)
        assert platform["bin"] in modes
        (rule,) = platform["selector"]["matchExpressions"]
        assert (rule["key"], rule["operator"]) == ("os", "In")
        assert set(rule["values"]) <= {"linux", "darwin", "windows"}


def test_the_same_sources_make_the_same_archive(tmp_path: Path) -> None:
    first, second = (made(tmp_path / name) / "claimq.tar.gz" for name in "ab")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_plugin_starts_that_of_the_package_or_says_what_is_missing(
    tmp_path: Path, is_installed: bool
) -> None:
    if is_installed:
        for name in ("claimq", "kubectl-claimq"):
            file = tmp_path / name
            file.write_text(f'#!/bin/sh\necho {name} "$@"\n')
            file.chmod(0o755)
    done = subprocess.run(
        [str(PLUGIN), "status", "a b"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    if is_installed:
        assert (done.returncode, done.stdout) == (0, "kubectl-claimq status a b\n")
    else:
        assert (done.returncode, "install the Python package claimq-cli first" in done.stderr) == (1, True)
