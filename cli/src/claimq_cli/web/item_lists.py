"""Reads parts of a state's items that are bounded in number and in bytes, and groups failed items."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import claimq
from claimq.model import Item, Located

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of items after which a list ends early. The last call may exceed it by one item of the largest size."""
_FIRST, _LARGEST = 8, 250
_LONGEST_REASON = 200
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Group:
    """Failed items with the same reason."""

    reason: str
    count: int


async def within_bytes(
    read: Callable[[int, int], Awaitable[Sequence[Located]]], begin: int, end: int, *, backward: bool = False
) -> tuple[list[Located], bool]:
    """The items from ``begin`` to before ``end``, or from the end to the beginning, and whether the bytes cut them off.

    ``read(count, offset)`` is asked for few items first, and for more if these are small.
    """
    found: list[Located] = []
    used, size = 0, _FIRST
    while begin < end:
        size = min(size, end - begin)
        page = await read(size, end - size if backward else begin)
        found += reversed(page) if backward else page
        used += sum(_bytes_of(one.item) for one in page)
        begin, end = (begin, end - size) if backward else (begin + size, end)
        if len(page) < size and not backward:
            break
        if used >= MOST_BYTES:
            return found, begin < end
        size = max(1, min(_LARGEST, (MOST_BYTES - used) * len(found) // max(1, used)))
    return found, False


async def newest_failed(
    queue: claimq.ReliableQueue, total: int, skip: int, count: int
) -> tuple[list[Located], bool]:
    """Failed items, latest failure first, and whether the bytes cut them off. O(log failed + count)."""

    async def read(number: int, offset: int) -> list[Located]:
        return await queue.failed_items(number, offset=offset)

    end = max(0, total - skip)
    return await within_bytes(read, max(0, end - count), end, backward=True)


def reason_of(one: Located) -> str:
    """The first line of the error, with ``#`` for numbers, so that equal failures have equal reasons."""
    first = (one.item.last_error or "no error was given").strip().partition("\n")[0]
    return _DIGITS.sub("#", first[:_LONGEST_REASON])


def groups_of(items: Sequence[Located]) -> list[Group]:
    """The reasons with their numbers of items, most items first."""
    return [Group(*one) for one in Counter(map(reason_of, items)).most_common()]


def _bytes_of(item: Item) -> int:
    texts = [item.last_error, item.error_detail, *(entry.error for entry in item.history)]
    return len(item.payload) + sum(len(text) for text in texts if text) + 200
