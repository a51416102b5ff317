"""Reads parts of a state's items that are bounded in number and in bytes, and groups failed items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import claimq
from claimq.model import Located, State
from claimq_cli.item_filter import reason_of
from claimq_cli.queue_reads import items_within_bytes


@dataclass(frozen=True, slots=True)
class Group:
    """Failed items with the same reason."""

    reason: str
    count: int


async def newest_failed(
    queue: claimq.ReliableQueue, total: int, skip: int, count: int
) -> tuple[list[Located], bool]:
    """Failed items, latest failure first, and whether the bytes cut them off. O(log failed + count)."""
    end = max(0, total - skip)
    return await items_within_bytes(queue, State.FAILED, max(0, end - count), end, backward=True)


def groups_of(items: Sequence[Located]) -> list[Group]:
    """The reasons with their numbers of items, most items first."""
    return [Group(*one) for one in Counter(map(reason_of, items)).most_common()]
