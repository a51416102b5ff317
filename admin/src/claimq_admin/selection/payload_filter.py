"""Selects items by their payload: a JSONPath (RFC 9535) that finds something in it, or that finds a certain value."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

_MOST_ENDS = 50
"""Places at which a path may end: each is tried."""


class _Found(Protocol):
    @property
    def value(self) -> object: ...


class _Path(Protocol):
    def finditer(self, data: Any, /) -> Iterable[_Found]: ...


@dataclass(frozen=True, slots=True)
class PayloadFilter:
    """``text``: as the user wrote it. ``values``: of which the path must find one; empty: it must find anything."""

    text: str
    path: _Path
    values: tuple[object, ...]

    def passes(self, payload: bytes) -> bool:
        """Whether the payload is JSON in which the path finds what it should. False for other payloads."""
        from jsonpath import JSONPathError

        try:
            nodes = self.path.finditer(json.loads(payload))  # one after another: all could fill the memory
            return any(self._is_wanted(node.value) for node in nodes)
        except (ValueError, RecursionError, JSONPathError):
            return False

    def _is_wanted(self, actual: object) -> bool:
        return not self.values or any(_equals(actual, expected) for expected in self.values)


def parse_payload_filter(text: str) -> PayloadFilter:
    """Reads ``PATH`` or ``PATH=VALUE``, where VALUE is JSON or a text. Raises ValueError with the fix."""
    from jsonpath import JSONPathError, compile  # noqa: A004 - its import takes a tenth of a second

    # The path itself can contain "=", and so can the value: the longest text that is a path is the path.
    ends = [at for at in range(1, len(text)) if text[at] == "="][:_MOST_ENDS]
    for end in [len(text), *reversed(ends)]:
        try:
            path = compile(text[:end] or "-", strict=True)
        except (JSONPathError, ValueError, OverflowError):  # the last two for numbers such as 1e999
            continue
        return PayloadFilter(text, path, () if end == len(text) else _values(text[end + 1 :]))
    raise ValueError(f'"{text}" is not a JSONPath; write for instance $.order.id, or $.order.country=DE')


def _values(text: str) -> tuple[object, ...]:
    """The text, and the JSON value that it may be: 42 is found as a number and as a text."""
    try:
        return json.loads(text), text
    except (ValueError, RecursionError):
        return (text,)


def _equals(actual: object, expected: object) -> bool:
    """Whether two JSON values are equal. ``True`` is not 1."""
    return actual == expected and isinstance(actual, bool) == isinstance(expected, bool)
