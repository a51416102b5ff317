"""claimq.worker runs in the app's image, which need not contain anything but the standard library."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT, parsed, shown, sources

WORKER = ROOT / "core/src/claimq/worker"
FILES = [path for path in sources("core") if path.is_relative_to(WORKER)]
TASKS = """
import sys
sys.path.insert(0, sys.argv[1])
import claimq.tasks.__main__
foreign = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__", "claimq"}
print(*sorted(foreign))
"""
WITHOUT_PACKAGES = """
import sys
sys.path.insert(0, sys.argv[1])
import claimq.worker
foreign = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__", "claimq"}
ours = {name for name in sys.modules if name.startswith("claimq.") and not name.startswith("claimq.worker")}
print(*sorted(foreign | ours))
"""
MODULES = (
    "arguments",
    "codec",
    "concurrency",
    "concurrency.backoff",
    "concurrency.green_threads",
    "concurrency.stop_signals",
    "concurrency.without_loop",
    "consuming",
    "consuming.engine",
    "consuming.engine.chunk_size",
    "errors",
    "handler_verdicts",
    "item_options",
    "model",
    "tokens",
    "tracing",
)
SHARED = {f"claimq.{name}" for name in MODULES}
"""Modules of the library that the client shares."""


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_the_client_is_there() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_it_imports_the_standard_library_itself_and_shared_types(path: Path) -> None:
    foreign = {
        name
        for name in _imported(path)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not f"{name}.".startswith("claimq.worker.")
    }
    assert foreign <= SHARED


def test_it_starts_without_any_package_installed() -> None:
    assert set(_printed(WITHOUT_PACKAGES).split()) == SHARED


def test_workers_of_tasks_start_without_any_package_installed() -> None:
    assert _printed(TASKS).split() == []


def _printed(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(ROOT / "core/src")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
