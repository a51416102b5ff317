"""Parses and formats sizes in bytes such as ``1Mi``."""

from __future__ import annotations

import re

SIZE_PATTERN = "^[0-9]{1,12}(?:Ki|Mi|Gi|k|M|G)?$"
"""The form of a size in bytes as a regular expression (RE2 takes it too)."""

_SIZE = re.compile(r"([0-9]{1,12})(Ki|Mi|Gi|k|M|G)?", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def parse_size(size: str | int) -> int:
    """The bytes of ``value``: ``1Mi`` is 1048576, ``1M`` is 1000000, 512 and ``"512"`` are 512.

    Raises :class:`ValueError` with a message that says what to write instead.
    """
    if isinstance(size, int):
        if isinstance(size, bool) or size < 0:
            raise ValueError(f'{size} is not a size; write bytes, for instance 65536, "64Ki" or "1Mi"')
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(_advice(size))
    return int(match[1]) * _UNITS[match[2] or ""]


def format_size(size: int) -> str:
    """The shortest exact form in bytes: 1048576 is ``1Mi``, 1500 is ``1500``. Raises :class:`ValueError` below 0."""
    if size < 0:
        raise ValueError(f"{size} is not a size; give bytes, 0 or more")
    for suffix in ("Gi", "Mi", "Ki"):
        unit = _UNITS[suffix]
        if size and size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)


def _advice(text: str) -> str:
    if near := re.fullmatch(r"([0-9]{1,12}) ?([kmg])i?b?", text, re.ASCII | re.IGNORECASE):
        return f'"{text}" is not a size; write "{near[1]}{near[2].upper()}i" (powers of 1024)'
    return f'"{text}" is not a size; write bytes, for instance 65536, "64Ki" or "1Mi"'
