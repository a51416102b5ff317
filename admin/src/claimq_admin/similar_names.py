"""Suggests names for misspelled ones. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean A or B?``, or an empty text. ``NAME`` also matches ``NAMESPACE.NAME``."""
    others = [one for one in known if one != name]
    meant = [one for one in others if one.endswith(f".{name}")]
    meant += [one for one in difflib.get_close_matches(name, others, _MOST) if one not in meant]
    return f"; did you mean {' or '.join(meant[:_MOST])}?" if meant else ""
