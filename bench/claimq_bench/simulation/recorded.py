"""Reads a trace from a file, for instance one that `make record` wrote.

A CSV file. Lines that begin with ``#`` are comments; the first other line names the columns: ``at`` (seconds, from any
beginning), and if known ``count`` (items that came then, else 1) and ``seconds`` (how long each of them took).
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from claimq_bench.simulation.traces import Service, Trace

_TAIL = 60.0
"""Seconds of the run after the last arrival."""
MOST_ITEMS = 5_000_000


@dataclass(frozen=True, slots=True)
class _Row:
    at: float
    count: int
    seconds: float | None


def read_trace(path: Path, *, service: Service | None = None, seed: int = 1) -> Trace:
    """The trace of a file. Service times that are missing are drawn from ``service``.

    Raises ValueError that names the line of the first error.
    """
    rows = sorted(_rows(path), key=lambda row: row.at)
    if not rows:
        raise ValueError(f"{path}: there is no item in this file")
    if sum(row.count for row in rows) > MOST_ITEMS:
        raise ValueError(f"{path}: more than {MOST_ITEMS:,} items; cut the file")
    start = rows[0].at
    seconds = rows[-1].at - start + _TAIL
    draw = (service or Service()).drawer(random.Random(seed), seconds)
    items = [(row.at - start, row.seconds) for row in rows for _ in range(row.count)]
    services = tuple(draw(at) if took is None else took for at, took in items)
    return Trace(path.stem, tuple(at for at, _ in items), services, seconds)


def _rows(path: Path) -> Iterator[_Row]:
    with path.open(newline="") as file:
        lines = [(number, line) for number, line in enumerate(file, start=1) if not line.startswith("#")]
    reader = csv.DictReader(line for _, line in lines)
    if "at" not in (reader.fieldnames or ()):
        raise ValueError(f"{path}: the first line names the columns: at, and optionally count and seconds")
    for (number, _), row in zip(lines[1:], reader, strict=False):
        count = _number(path, number, "count", row.get("count") or "1")
        if count != int(count):
            raise ValueError(f"{path}, line {number}: count is {row['count']!r}; write a whole number")
        took = row.get("seconds")
        seconds = _number(path, number, "seconds", took) if took else None
        yield _Row(_number(path, number, "at", row["at"]), int(count), seconds)


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        unit = "" if column == "count" else " of seconds"
        raise ValueError(f"{path}, line {line}: {column} is {text!r}; write a number{unit} of at least 0")
    return value
