"""Lists of items that are bounded in bytes, and the reasons of failed items."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from claimq.model import Item, Located, State
from claimq_admin.reads.queue_reads import MOST_BYTES, items_within_bytes
from claimq_admin.selection.item_filter import ItemFilter, groups_of
from claimq_admin.selection.selected_items import SelectedItems


def failed(error: str | None, payload: bytes = b"") -> Located:
    return Located(Item("a", payload, 1.0, 1.0, last_error=error), State.FAILED)


def test_failures_that_differ_in_numbers_have_one_reason() -> None:
    found = groups_of([failed("timeout after 17 ms\nmore"), failed("timeout after 4 ms"), failed(None)])
    assert [(one.reason, one.count) for one in found] == [
        ("timeout after # ms", 2),
        ("no error was given", 1),
    ]


class EndlessQueue:
    """A queue whose items have their positions as errors."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    async def items(self, state: State, count: int, *, offset: int) -> list[Located]:
        del state
        return [failed(str(n), self._payload) for n in range(offset, offset + count)]

    async def snapshot(self) -> Any:
        """Of 20 failed items."""
        return SimpleNamespace(now=2.0, lengths={State.FAILED: 20})


@pytest.mark.parametrize("backward", [False, True])
async def test_a_list_of_large_items_ends_early(backward: bool) -> None:
    queue: Any = EndlessQueue(b"x" * 1_000_000)
    found, is_cut = await items_within_bytes(queue, State.FAILED, 0, 1_000_000, backward=backward)
    assert is_cut
    assert MOST_BYTES <= len(found) * 1_000_000 <= MOST_BYTES + 1_000_000
    assert found[0].item.last_error == ("999999" if backward else "0")


@pytest.mark.parametrize("backward", [False, True])
async def test_a_list_of_small_items_is_whole_and_in_order(backward: bool) -> None:
    queue: Any = EndlessQueue(b"")
    found, is_cut = await items_within_bytes(queue, State.FAILED, 50, 1050, backward=backward)
    expected = [str(n) for n in range(50, 1050)]
    assert not is_cut
    assert [one.item.last_error for one in found] == (expected[::-1] if backward else expected)


@pytest.mark.parametrize(("size", "samples"), [(1_000_000, 5), (10, 10)])
async def test_the_samples_of_a_dry_run_are_bounded_in_bytes(size: int, samples: int) -> None:
    queue: Any = EndlessQueue(b"x" * size)
    items = SelectedItems(queue, ItemFilter(), record=queue)
    await items.count(asyncio.Event())
    assert (items.matched, len(items.samples)) == (20, samples)
