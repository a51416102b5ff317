"""Patterns in which ``*`` matches any text and ``?`` one character. Pure."""

from __future__ import annotations

LONGEST_PATTERN = 512
"""Characters. A longer pattern matches nothing."""
LONGEST_TEXT = 4096
"""Characters. No pattern matches a longer text."""


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches the whole text. Only ``*`` and ``?`` are special.

    Texts come from tenants, and some patterns too. Without ``?`` the time grows with the length of the text alone; with
    it at most with the product of both lengths, which are bounded.
    """
    if len(pattern) > LONGEST_PATTERN or len(text) > LONGEST_TEXT:
        return False
    return _matches_questions(text, pattern) if "?" in pattern else _matches_stars(text, pattern)


def _matches_stars(text: str, pattern: str) -> bool:
    first, *middle = pattern.split("*")
    if not middle:
        return text == first
    last = middle.pop()
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:  # each at its first place: one further on leaves less for those after it
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _matches_questions(text: str, pattern: str) -> bool:
    at = place = 0
    star, retry = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            star, retry = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:  # the last star takes one character more; earlier ones need not change
            retry += 1
            at, place = retry, star + 1
        else:
            return False
    return not pattern[place:].strip("*")
