"""Parses and formats quantities of Kubernetes such as ``1Mi``, ``500m`` and ``1e3``, exactly."""

from __future__ import annotations

import re
from fractions import Fraction

SIZE_PATTERN = "^[0-9]{1,12}(?:Ki|Mi|Gi|k|M|G)?$"
"""The form of a size in bytes as a regular expression (RE2 takes it too)."""

QUANTITY_PATTERN = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$"
"""The form of a Kubernetes quantity."""

_SIZE = re.compile(r"([0-9]{1,12})(Ki|Mi|Gi|k|M|G)?", re.ASCII)
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?", re.ASCII
)
_SCALE = {
    **{
        suffix: Fraction(1000) ** power
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{
        suffix: Fraction(1024) ** power
        for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
}


def parse_size(value: str | int) -> int:
    """The bytes of ``value``: ``1Mi`` is 1048576, ``1M`` is 1000000, 512 and ``"512"`` are 512.

    Raises :class:`ValueError` with a message that says what to write instead.
    """
    if isinstance(value, int):
        if isinstance(value, bool) or value < 0:
            raise ValueError(f'{value} is not a size; write bytes, for instance 65536, "64Ki" or "1Mi"')
        return value
    found = _SIZE.fullmatch(value)
    if found is None:
        raise ValueError(_advice(value))
    return int(found[1]) * int(_SCALE[found[2] or ""])


def format_size(size: int) -> str:
    """The shortest exact form in bytes: 1048576 is ``1Mi``, 1500 is ``1500``. Raises :class:`ValueError` below 0."""
    if size < 0:
        raise ValueError(f"{size} is not a size; give bytes, 0 or more")
    for suffix in ("Gi", "Mi", "Ki"):
        unit = int(_SCALE[suffix])
        if size and size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)


def parse_quantity(value: str | float) -> Fraction:
    """The exact number of a Kubernetes quantity: ``500m`` is 1/2, ``1Gi`` is 1073741824, 0.5 is 1/2.

    Raises :class:`ValueError` with a message that says what to write instead.
    """
    found = _QUANTITY.fullmatch(str(value))
    if isinstance(value, bool) or found is None:
        raise ValueError(f'{_shown(value)} is not a quantity; write for instance "500m", "2" or "256Mi"')
    return Fraction(found[1]) * _SCALE[found[2] or ""] * Fraction(10) ** int(found[3] or 0)


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _advice(text: str) -> str:
    if near := re.fullmatch(r"([0-9]{1,12}) ?([kmg])i?b?", text, re.ASCII | re.IGNORECASE):
        return f'"{text}" is not a size; write "{near[1]}{near[2].upper()}i" (powers of 1024)'
    return f'"{text}" is not a size; write bytes, for instance 65536, "64Ki" or "1Mi"'
