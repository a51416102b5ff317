"""Patterns in which ``*`` matches any text and ``?`` one character. Pure."""

from __future__ import annotations

import re


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches the whole text. Only ``*`` and ``?`` are special."""
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(regex, text) is not None
