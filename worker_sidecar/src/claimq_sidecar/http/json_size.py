"""Limits the number of values in a JSON text before it is parsed. Pure."""

from __future__ import annotations

from typing import Final

MAX_VALUES: Final = 300_000
"""Values and fields in one JSON text. As Python objects they need up to 30 MB."""
_MARKS: Final = b"[{,:"
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in _MARKS + b'"')


def has_too_many_values(raw: bytes) -> bool:
    """Whether the text has more than :data:`MAX_VALUES` values and fields. The text need not be valid.

    Each value follows a bracket, a brace, a comma or a colon outside of a string. Those are counted by functions of C
    without building anything large: `[],[],...` of 15 MiB would become 440 MB of lists.
    """
    if len(raw) <= MAX_VALUES or sum(raw.count(mark) for mark in _MARKS) <= MAX_VALUES:
        return False
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    if bare.count(b'"') > 2 * MAX_VALUES + 2:  # each string is a value or a name too
        return True
    return sum(map(len, bare.split(b'"')[::2])) > MAX_VALUES
