"""JSON whose objects and lists are in each other more deeply than Python's decoder can follow.

An API server stores ten thousand levels, and a template of a ReliableQueue may have any fields. A list or a watch that
cannot be decoded has the objects of all tenants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

MOST_LEVELS = 200
"""Levels that are kept. Objects of Kubernetes have fewer than thirty."""
CUT = "(more levels than are read)"
"""What stands for an object or a list that is too deep."""
_BLANKS = re.compile(r"[ \t\n\r]*")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class DeepDecoder(json.JSONDecoder):
    """Decodes what is too deep with CUT in its place."""

    def decode(self, s: str, _w: Callable[..., Any] = _BLANKS.match) -> Any:
        """The value in the text. Raises ValueError for invalid JSON."""
        try:
            return super().decode(s, _w)
        except RecursionError:
            return super().decode(without_deep_levels(s), _w)


def accept_deep_json() -> None:
    """Makes ``json.loads`` use :class:`DeepDecoder` in this process, also where libraries call it."""
    json._default_decoder = DeepDecoder()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no setting for it


def without_deep_levels(text: str) -> str:
    """The text with CUT for each object and list on a level below :data:`MOST_LEVELS`. O(length), no recursion."""
    return "".join(_kept_parts(text))


def _kept_parts(text: str) -> Iterator[str]:
    level = begin = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        match match[0]:
            case "{" | "[":
                level += 1
                if level == MOST_LEVELS + 1:
                    yield text[begin : match.start()] + json.dumps(CUT)
            case "}" | "]":
                if level == MOST_LEVELS + 1:
                    begin = match.end()
                level -= 1
            case _:
                pass
    if level <= MOST_LEVELS:
        yield text[begin:]
