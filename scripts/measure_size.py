"""Counts the size of the code: syntax nodes of Python and tokens of Lua, by folder, beside an earlier commit.

Lines depend on formatting, syntax nodes and tokens do not. Everything but tests counts as product, also benchmarks,
scripts, examples and clients: code that only moves there counts as if it had stayed. Comments and docstrings are free.

    scripts/measure_size.py [COMMIT]
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

_LUA_TOKEN = re.compile(
    r"(?P<skipped>\s+|--\[\[.*?\]\]|--[^\n]*)"
    r"|\[\[.*?\]\]|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    r"|\w+(?:\.\d+)?|\.\.\.?|[=~<>]=|.",
    re.DOTALL,
)


def main() -> None:
    """Prints a table of folders, and the ratios of product and tests to the earlier commit."""
    now = _sizes("HEAD")
    before = _sizes(sys.argv[1]) if len(sys.argv) > 1 else None
    for folder in sorted(now.keys() | (before or {}).keys()):
        print(_row(folder, now[folder], None if before is None else before[folder]))
    for name, is_product in (("product", True), ("tests", False)):
        earlier = None if before is None else _total(before, is_product=is_product)
        print(_row(name, _total(now, is_product=is_product), earlier))


def _total(sizes: Counter[str], *, is_product: bool) -> int:
    return sum(size for folder, size in sizes.items() if _is_product(folder) is is_product)


def _is_product(folder: str) -> bool:
    return not folder.startswith("tests")


def _row(name: str, now: int, before: int | None) -> str:
    ratio = "" if not before else f"{before:>10,} {now / before:>7.3f}"
    return f"{name:<24} {now:>10,} {ratio}"


def _sizes(commit: str) -> Counter[str]:
    """Nodes and tokens by folder at a commit."""
    sizes: Counter[str] = Counter()
    for path, text in _files(commit):
        folder, _, _ = path.partition("/")
        if path.endswith(".lua"):
            sizes[f"{folder} (Lua)"] += sum(match["skipped"] is None for match in _LUA_TOKEN.finditer(text))
        else:
            sizes[folder] += _nodes(text)
    return sizes


def _nodes(text: str) -> int:
    """Syntax nodes without docstrings."""
    count = 0
    for node in ast.walk(ast.parse(text)):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        count += -1 if is_docstring else 1
    return count


def _files(commit: str) -> Iterator[tuple[str, str]]:
    """(path, text) of each Python and Lua file of a commit."""
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", commit], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for path in listed:
        if path.endswith((".py", ".lua")):
            shown = subprocess.run(
                ["git", "show", f"{commit}:{path}"], check=True, capture_output=True, text=True
            )
            yield path, shown.stdout


if __name__ == "__main__":
    main()
