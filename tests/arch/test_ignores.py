"""A check that is switched off on a line says why on that line."""

import re
from pathlib import Path

import pytest

from testkit.repository.tree import python_files, shown

SWITCHED_OFF = re.compile(r"#\s*(?:type:\s*ignore|pyright:\s*ignore|noqa|pragma: no cover)\b")
CODES = r"(?:type|pyright):\s*ignore\[[\w\-, ]+\]|noqa: [A-Z]+\d+(?:,\s*[A-Z]+\d+)*|pragma: no cover"
WITH_CODES = re.compile(rf"#\s*(?:{CODES})")
REASON = re.compile(r"\s*(?:-+|–|:|#)?\s*\S+.*\S{2,}")


def unexplained(line: str) -> bool:
    """Whether a line switches a check off without naming it and saying why."""
    switched_off = SWITCHED_OFF.search(line)
    if not switched_off:
        return False
    rest = line[switched_off.start() :]
    has_code = False
    while codes := WITH_CODES.match(rest):
        rest, has_code = rest[codes.end() :].lstrip(), True
    return not has_code or not REASON.match(rest)


def test_every_ignore_carries_its_reason() -> None:
    lines = (
        (f"{shown(path)}:{number}: {line.strip()}", line)
        for path in python_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
    )
    assert [place for place, line in lines if unexplained(line)] == []


@pytest.mark.parametrize(
    "line", ["x  # noqa", "x  # noqa: S101", "x  # type: ignore", "x  # type: ignore[attr-defined]"]
)
def test_an_ignore_alone_is_unexplained(line: str) -> None:
    assert unexplained(line)


@pytest.mark.parametrize(
    "line",
    [
        "x = 1",
        "x  # noqa: BLE001 - the loop goes on whatever happens",
        "x  # type: ignore[attr-defined]  # redis has no types for this",
        "x  # type: ignore[misc]  # noqa: S101 - both, for one reason",
    ],
)
def test_an_ignore_with_its_reason_is_fine(line: str) -> None:
    assert not unexplained(line)
