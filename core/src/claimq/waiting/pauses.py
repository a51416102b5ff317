"""Reads the pauses of a queue, of its clients and of keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from claimq.limits import Pause

_NEVER_MS: Final = 8 * 10**12
"""The stored end of a pause that has none."""


def read_pauses(reply: Sequence[Any], now: int) -> Iterator[Pause]:
    """The pauses in a reply: a name, the stored text and a number of items for each. Those that another client has
    written in another form are left out. ``now``: in ms."""
    for part, stored, items in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
        kind, _, name = part.decode("utf-8", "replace").partition(" ")
        words = stored.split(b" ", 4)
        if len(words) == 5 and all(word.isdigit() and len(word) < 17 for word in words[:4]):
            at, until, by_hand, size = map(int, words[:4])
            is_over = 0 < by_hand <= now
            yield Pause(
                (by_hand if is_over else at) / 1000,
                None if until >= _NEVER_MS else until / 1000,
                "" if is_over else words[4][:size].decode("utf-8", "replace"),
                "" if is_over else words[4][size + 1 :].decode("utf-8", "replace"),
                by_hand <= now,
                client=name if kind == "client" else None,
                items=items,
                key=name if kind == "key" else None,
                closed_from=by_hand / 1000 if now < by_hand < until else None,
            )
