"""Whether clusterkit's own tests have passed on this machine since any file of it changed."""

import hashlib
import os
import platform
import sys
from pathlib import Path

from clusterkit.layout import SOURCES, cache_folder, kubernetes_release

ALWAYS = "CLUSTERKIT_TESTS"
"""Set to `all`, this environment variable makes every test run."""


def is_proven() -> bool:
    """Whether all of its tests have passed with these files here, and the caller did not ask for all tests."""
    return os.environ.get(ALWAYS) != "all" and _record(SOURCES).exists()


def note_passed() -> None:
    """Record that all tests have passed with the files as they are."""
    record = _record(SOURCES)
    record.parent.mkdir(parents=True, exist_ok=True)
    for old in record.parent.iterdir():
        old.unlink(missing_ok=True)
    record.touch()


def _record(sources: Path) -> Path:
    return cache_folder() / "proven" / digest(sources)


def digest(sources: Path) -> str:
    """A hash of all files below `sources`, tests included, and of the kernel, the Python and the release of Kubernetes
    with which they run."""
    whole = hashlib.sha256(f"{platform.platform()} {sys.version} {kubernetes_release()}".encode())
    for path in sorted(sources.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            whole.update(f"\n{path.relative_to(sources)} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:20]
