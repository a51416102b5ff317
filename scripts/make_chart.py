"""Writes what the chart has from elsewhere: its copy of the CRD, and the table of values in its README."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "claimq"
CRD = ROOT / "crds" / "reliablequeues.claimq.dev.yaml"
CRD_COPY = CHART / "files" / CRD.name
README = CHART / "README.md"
BEGIN, END = "<!-- values: made by scripts/make_chart.py -->", "<!-- end of values -->"


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart."""

    path: str
    default: Any
    about: str

    def row(self) -> str:
        """Its row in the table."""
        about = re.sub(r"(?<!\\)\|", r"\\|", self.about)
        return f"| `{self.path}` | {about} | `{json.dumps(self.default)}` |"


def described_values(text: str) -> list[Value]:
    """The values that ``# --`` describes in values.yaml, in its order. What follows such a comment is one value."""
    whole = yaml.safe_load(text)
    found: list[Value] = []
    above: list[tuple[int, str]] = []
    about: list[str] = []
    for line in text.splitlines():
        comment = re.match(r" *# (-- )?(.*)", line)
        key = re.match(r"( *)([A-Za-z]+):", line)
        if comment:
            about = [comment[2]] if comment[1] else [*about, comment[2]] if about else []
        elif key:
            above = [(depth, name) for depth, name in above if depth < len(key[1])]
            above.append((len(key[1]), key[2]))
            if about:
                names = [name for _, name in above]
                found.append(Value(".".join(names), _at(whole, names), " ".join(about)))
            about = []
    return found


def _at(value: Any, names: list[str]) -> Any:
    for name in names:
        value = value[name]
    return value


def values_table() -> str:
    """The table, in Markdown."""
    rows = [value.row() for value in described_values((CHART / "values.yaml").read_text())]
    return "\n".join(["| value | what it is | default |", "|---|---|---|", *rows])


def readme_text(old: str) -> str:
    """The README with its table generated again."""
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail:
        sys.exit(f"{README} has lost its marks {BEGIN} and {END}: put them back")
    return f"{head}{BEGIN}\n\n{values_table()}\n\n{END}{tail}"


if __name__ == "__main__":
    CRD_COPY.write_text(CRD.read_text())
    README.write_text(readme_text(README.read_text()))
