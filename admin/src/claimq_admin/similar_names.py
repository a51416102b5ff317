"""Suggests names for misspelled ones. Pure."""

from __future__ import annotations

import difflib
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
