"""Sorts names. Pure."""

from __future__ import annotations

import re


def in_order(name: str) -> tuple[list[str | int], str]:
    """The key by which names are sorted: numbers in them by their value, so ``queue-2`` comes before ``queue-10``."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name
