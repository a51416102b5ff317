"""Figures, their targets, and how they are shown: a table for people, one flat JSON object for comparing runs."""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from claimq_bench.meter import Cost, Spread


@dataclass(frozen=True)
class Figure:
    """One figure under its name in the JSON. `most` or `least` is its target; `limit` says what keeps it from there."""

    name: str
    says: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None
    spread: Spread | None = None
    limit: str = ""

    @property
    def target(self) -> str:
        if self.most is not None:
            return f"<= {shown(self.most, self.unit)}"
        return "" if self.least is None else f">= {shown(self.least, self.unit)}"

    @property
    def verdict(self) -> str:
        """What it says about the target: "reached", or by how much it falls short."""
        if self.most is not None:
            return "reached" if self.value <= self.most else f"short by {self.value / self.most - 1:.0%}"
        if self.least is not None:
            return "reached" if self.value >= self.least else f"short by {1 - self.value / self.least:.0%}"
        return ""


def shown(value: float, unit: str) -> str:
    """A number with as many digits as mean something."""
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{digits} {unit}".strip()


@dataclass
class Report:
    """Collects figures, and prints each as soon as it is there."""

    figures: list[Figure] = field(default_factory=list[Figure])
    write: Callable[[str], object] = sys.stdout.write

    def heading(self, text: str) -> None:
        self._line(f"\n{text}")

    def note(self, text: str) -> None:
        self._line(f"  {text}")

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)
        spread = figure.spread
        rounds = f"[{spread.low:.3g} .. {spread.high:.3g}]" if spread else ""
        line = f"  {figure.says:<50} {shown(figure.value, figure.unit):>15} {rounds:<20}"
        self._line(f"{line} {figure.target:<14} {figure.verdict}".rstrip())
        if figure.verdict.startswith("short"):
            self._line(f"      what limits it: {figure.limit or 'not known'}")

    def of_rounds(
        self,
        name: str,
        says: str,
        spread: Spread,
        *,
        unit: str = "",
        most: float | None = None,
        least: float | None = None,
        limit: str = "",
    ) -> None:
        """A figure of several rounds: the median counts; the ends go into the JSON as NAME_min and NAME_max."""
        self.add(Figure(name, says, spread.median, unit, most, least, spread, limit))

    def of_costs(self, name: str, costs: Sequence[Cost]) -> None:
        """The processor time of the server and of this process for an item, each a figure of several rounds."""
        server = Spread.of([cost.server_us for cost in costs])
        client = Spread.of([cost.client_us for cost in costs])
        self.of_rounds(
            f"{name}_server_us_per_item", f"{name}, processor time of the server", server, unit="us"
        )
        self.of_rounds(f"{name}_client_us_per_item", f"{name}, of this process", client, unit="us")

    def as_json(self) -> str:
        """NAME: number; null for what has none (a lag beyond all buckets, the mean of nothing)."""
        flat: dict[str, float | None] = {}
        for figure in self.figures:
            flat[figure.name] = _rounded(figure.value)
            if figure.spread:
                flat[f"{figure.name}_min"] = _rounded(figure.spread.low)
                flat[f"{figure.name}_max"] = _rounded(figure.spread.high)
        return json.dumps(flat, indent=2, allow_nan=False) + "\n"

    def save(self, path: Path) -> None:
        path.write_text(self.as_json())

    def _line(self, text: str) -> None:
        self.write(f"{text}\n")
        sys.stdout.flush()


def writable(word: str) -> Path:
    """A file that can be written, said before anything is measured and not minutes later."""
    path = Path(word)
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write {word!r}: name a file in a directory that is there")
    return path


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
