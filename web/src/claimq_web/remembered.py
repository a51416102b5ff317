"""Dictionaries of a limited size, which forget their oldest entries."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(entries: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Sets an entry, which is the newest one then. Drops the oldest ones beyond ``most``."""
    entries[key] = value
    entries.move_to_end(key)
    while len(entries) > most:
        entries.popitem(last=False)
