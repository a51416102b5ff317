"""Lists of items, and samples of a dry run, that are bounded in bytes."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

import pytest

import claimq
from claimq import NewItem
from claimq.model import State
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.reads.queue_reads import MOST_BYTES, items_within_bytes
from claimq_admin.selection.item_filter import ItemFilter
from claimq_admin.selection.selected_items import SelectedItems
from claimq_web.queues.queue_pages import failed
from testkit.servers.patient import open_queue
from testkit.servers.server import Server

MEGABYTE = 1_000_000


@pytest.fixture
async def queue(valkey: Server) -> AsyncIterator[claimq.ReliableQueue]:
    """An empty queue."""
    async with open_queue(valkey.url) as queue:
        yield queue


async def fill(queue: claimq.ReliableQueue, count: int, size: int) -> None:
    """Adds failed items whose ids are their positions."""
    await queue.enqueue_many([NewItem(b"x" * size, id=f"{n:04}") for n in range(count)])
    while claims := await queue.claim(100, wait=0):
        await queue.fail(claims, "no", permanent=True)


async def test_a_list_of_large_items_ends_early(queue: claimq.ReliableQueue) -> None:
    await fill(queue, 20, MEGABYTE)
    items = await items_within_bytes(queue, State.FAILED, 0, 20)
    assert MOST_BYTES <= len(items) * MEGABYTE <= MOST_BYTES + MEGABYTE
    assert items[0].item.id == "0000"


async def test_a_list_of_small_items_is_whole_and_in_order(queue: claimq.ReliableQueue) -> None:
    await fill(queue, 1100, 1)
    items = await items_within_bytes(queue, State.FAILED, 50, 1050)
    assert [located.item.id for located in items] == [f"{n:04}" for n in range(50, 1050)]


async def test_each_page_of_large_items_links_to_its_rest(queue: claimq.ReliableQueue) -> None:
    await fill(queue, 20, 2**20)
    query: dict[str, str] = {}
    shown: list[list[str]] = []
    while query or not shown:
        page = await failed(queue, query)
        shown.append([row.item.id for row in page["items"]])
        assert {row.payload_size for row in page["items"]} == {2**20}
        query = dict(parse_qsl(page["rest"].removeprefix("?")))
    assert [len(rows) for rows in shown] == [3] * 6 + [2]
    assert [row for rows in shown for row in rows] == [f"{n:04}" for n in range(19, -1, -1)]


async def test_failed_items_are_shown_newest_first_behind_the_grouped_ones(
    queue: claimq.ReliableQueue,
) -> None:
    await fill(queue, 1100, 1)
    page = await failed(queue, {"page": "22"})
    assert [row.item.id for row in page["items"]] == [f"{n:04}" for n in range(49, -1, -1)]
    assert not page["rest"]
    page = await failed(queue, {"reason": "no", "page": "20"})
    assert [row.item.id for row in page["items"]] == [f"{n:04}" for n in range(149, 99, -1)]


@pytest.mark.parametrize(("size", "samples"), [(MEGABYTE, 5), (10, 10)])
async def test_the_samples_of_a_dry_run_are_bounded_in_bytes(
    queue: claimq.ReliableQueue, size: int, samples: int
) -> None:
    await fill(queue, 20, size)
    items = SelectedItems(admin_of(queue, "ann"), ItemFilter())
    await items.count(asyncio.Event())
    assert (items.matched, len(items.samples)) == (20, samples)
