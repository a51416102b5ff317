"""The repository as data, for the tests that hold it to its own rules."""

import ast
import functools
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[4]


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """All files that belong to the repository, those not yet added too; without what is ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    paths = (ROOT / name.decode() for name in listed.split(b"\0") if name)
    return tuple(sorted(path for path in paths if path.is_file() and not path.is_symlink()))


def sources(*components: str) -> list[Path]:
    """The Python files of the distributions (all, or those of the components named)."""
    places = [ROOT / component / "src" for component in components or COMPONENTS]
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and any(path.is_relative_to(place) for place in places)
    ]


def python_files() -> list[Path]:
    """Every Python file of the repository."""
    return [path for path in tracked_files() if path.suffix == ".py"]


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The file's syntax tree."""
    return ast.parse(path.read_text(), str(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def loaded(path: Path, name: str = "") -> ModuleType:
    """A file that no package has, imported as a module of this name (default: that of the file)."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def script(name: str) -> ModuleType:
    """A file in scripts, without its ending."""
    return loaded(ROOT / "scripts" / f"{name}.py")


COMPONENTS: dict[str, str] = script("setup_environment").COMPONENTS
"""Component folder to the package in it."""


def shown(path: Path) -> str:
    """The path as people write it."""
    return str(path.relative_to(ROOT))
