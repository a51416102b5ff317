"""The levels of a parsed JSON value. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast


def levels_of(value: object) -> Iterator[list[object]]:
    """A list of values for each level: first the value itself, then the values in it, and so on."""
    level = [value]
    while level:
        yield level
        level = [inner for parent in level for inner in _values_in(parent)]


def _values_in(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()
