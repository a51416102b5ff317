"""The fields of a JSON object with the text of each value. So a value can be kept as it was written."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NamedTuple, cast

_BLANKS = re.compile(r"[ \t\n\r]*+")


class Value(NamedTuple):
    """A value, and its text."""

    value: Any
    text: str


class TwoValues(ValueError):
    """A JSON object has two values of one name."""


def fields_of(text: str, *, raw_field: str) -> dict[str, Value] | None:
    """The fields of a JSON object. None if the text is no such object; TwoValues if a name comes twice.

    Of the value of ``raw_field`` only the syntax is checked: a name may come twice in it, and numbers have any size.
    """
    try:
        return _fields(text, raw_field)
    except TwoValues:
        raise
    except (ValueError, RecursionError, IndexError):
        return None


def elements_of(text: str) -> list[str]:
    """The texts of the elements of a JSON list, which is one: :func:`fields_of` has checked it."""
    elements: list[str] = []
    at = _after(text, 0, "[")
    while text[at] != "]":
        _, end = _SYNTAX.raw_decode(text, at)
        elements.append(text[at:end])
        at = _behind_blanks(text, end)
        if text[at] == ",":
            at = _after(text, at, ",")
    return elements


def _fields(text: str, raw_field: str) -> dict[str, Value]:
    pairs: list[tuple[str, Value]] = []
    at = _after(text, 0, "{")
    while text[at] != "}":
        if text[at] != '"':
            raise ValueError(f"no name at {at}")
        name, at = cast("tuple[str, int]", _VALUES.raw_decode(text, at))
        begin = _after(text, at, ":")
        value, end = (_SYNTAX if name == raw_field else _VALUES).raw_decode(text, begin)
        pairs.append((name, Value(value, text[begin:end])))
        at = _behind_blanks(text, end)
        if text[at] != "}":
            at = _after(text, at, ",")
            if text[at] == "}":
                raise ValueError("a comma before the end")
    if text[at + 1 :].strip(" \t\n\r"):
        raise ValueError("text after the object")
    return dict(_once(pairs))


def _after(text: str, at: int, mark: str) -> int:
    """The position behind this character and the blanks that follow it. ValueError where another one stands."""
    at = _behind_blanks(text, at)
    if text[at] != mark:
        raise ValueError(f"no {mark} at {at}")
    return _behind_blanks(text, at + 1)


def _behind_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()


def _once(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    if len(dict(pairs)) < len(pairs):
        twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise TwoValues(f"the name {twice[:40]!r} comes twice in an object; give each value its own")
    return pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(_once(pairs))


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_VALUES = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
_SYNTAX = json.JSONDecoder(parse_constant=_no_number, parse_float=str, parse_int=str)
