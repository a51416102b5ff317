"""Rounds numbers for people."""

from __future__ import annotations


def rounded(number: float) -> str:
    """The number with three significant digits and at most four decimals; from 1,000 on a whole one with separators."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{round(number, 4):.3g}"
