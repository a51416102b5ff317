"""Sorts names, and suggests some for misspelled ones. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_MOST = 3


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """``; did you mean A or B?``, or an empty text. ``NAME`` also matches ``NAMESPACE.NAME``."""
    other_names = [candidate for candidate in known_names if candidate != name]
    meant = [candidate for candidate in other_names if candidate.endswith(f".{name}")]
    meant += [
        candidate
        for candidate in difflib.get_close_matches(name, other_names, _MOST)
        if candidate not in meant
    ]
    return f"; did you mean {' or '.join(meant[:_MOST])}?" if meant else ""


def in_order(name: str) -> tuple[list[str | int], str]:
    """The key by which names are sorted: numbers in them by their value, so ``queue-2`` comes before ``queue-10``."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name
