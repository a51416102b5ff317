"""Parses quantities of Kubernetes such as ``1Gi``, ``500m`` and ``1e3``, exactly."""

from __future__ import annotations

import re
from fractions import Fraction

QUANTITY_PATTERN = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$"
"""The form of a Kubernetes quantity."""

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


def parse_quantity(text: str | float) -> Fraction:
    """The exact number of a Kubernetes quantity: ``500m`` is 1/2, ``1Gi`` is 1073741824, 0.5 is 1/2.

    Raises :class:`ValueError` with a message that says what to write instead.
    """
    match = _QUANTITY.fullmatch(str(text))
    if isinstance(text, bool) or match is None:
        raise ValueError(f'{_shown(text)} is not a quantity; write for instance "500m", "2" or "256Mi"')
    return Fraction(match[1]) * _SCALE[match[2] or ""] * Fraction(10) ** int(match[3] or 0)


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
