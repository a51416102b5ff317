"""Dictionaries of a limited size, which forget their oldest entries."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(found: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Sets an entry, which is the newest one then. Drops the oldest ones beyond ``most``."""
    found[key] = value
    found.move_to_end(key)
    while len(found) > most:
        found.popitem(last=False)
