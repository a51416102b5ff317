"""A payload in the forms in which the page shows it: text, JSON to unfold, and hexadecimal. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from claimq_admin.escaping import safe
from claimq_admin.reads import documents

MOST_TEXT = 64 * 1024
MOST_HEX = 4 * 1024
_PLURALS = {"field": "fields", "entry": "entries"}
_MOST_NODES, _MOST_DEPTH, _MOST_LETTERS = 2000, 24, 2000


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value: its name in the value around it, its text, and the values in it."""

    name: str
    text: str
    children: tuple[Node, ...] = ()
    omitted_count: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """A payload. ``tree`` is None for one that is not JSON, ``text`` for one that is not UTF-8."""

    size: int
    text: str | None
    is_text_cut: bool
    tree: Node | None
    dump: str
    is_dump_cut: bool


def shown_payload(raw: bytes) -> Shown:
    """All forms of a payload, each of bounded size."""
    fields = documents.payload_of(raw) if len(raw) <= 1024 * 1024 else {"payload_base64": ""}
    text = None
    if "payload_base64" not in fields:
        text = visible(raw[:MOST_TEXT].decode("utf-8", "ignore"))
    tree = _node("", fields["payload"], _Budget(), 0) if "payload" in fields else None
    return Shown(
        len(raw), text, len(raw) > MOST_TEXT, tree, "\n".join(_dump(raw[:MOST_HEX])), len(raw) > MOST_HEX
    )


def visible(text: str) -> str:
    """The text with its line ends and tabs, and every other unprintable character escaped."""
    return "\n".join("\t".join(map(safe, line.split("\t"))) for line in text.split("\n"))


def _dump(raw: bytes) -> Iterator[str]:
    for begin in range(0, len(raw), 16):
        row = raw[begin : begin + 16]
        letters = "".join(chr(code) if 32 <= code < 127 else "." for code in row)
        yield f"{begin:06x}  {row.hex(' '):<47}  {letters}"


class _Budget:
    """How many nodes may still be made."""

    def __init__(self) -> None:
        self.left = _MOST_NODES

    def is_over(self) -> bool:
        self.left -= 1
        return self.left < 0


def _node(name: str, value: object, budget: _Budget, depth: int) -> Node:
    pairs = _pairs(value)
    if pairs is None:
        text = json.dumps(value, ensure_ascii=False)
        return Node(name, safe(text[:_MOST_LETTERS]) + ("…" if len(text) > _MOST_LETTERS else ""))
    children: list[Node] = []
    for key, element in pairs:
        if depth >= _MOST_DEPTH or budget.is_over():
            break
        children.append(_node(safe(key[:_MOST_LETTERS]), element, budget, depth + 1))
    noun = "field" if isinstance(value, dict) else "entry"
    text = f"1 {noun}" if len(pairs) == 1 else f"{len(pairs):,} {_PLURALS[noun]}"
    return Node(name, text, tuple(children), len(pairs) - len(children))


def _pairs(value: object) -> list[tuple[str, object]] | None:
    if isinstance(value, dict):
        return [(str(key), element) for key, element in cast("dict[object, object]", value).items()]
    if isinstance(value, list):
        return [(str(n), element) for n, element in enumerate(cast("list[object]", value))]
    return None
