"""Items that are larger than most reads of the page: they are shown and changed in a turn."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

import claimq
from claimq.errors import StoreMisused
from claimq.model import State
from claimq_admin.changes.item_actions import ItemChange, change_item
from claimq_admin.changes.queue_admin import QueueAdmin, admin_of
from claimq_admin.selection.item_filter import ItemFilter
from claimq_admin.selection.selected_items import SelectedItems
from claimq_control.large_reads import Turn
from claimq_web.queues.limited_reads import SMALL_READ, SMALL_REPLY, large_reads
from testkit.servers.patient import open_queue, open_server, patient
from testkit.servers.server import Server

PAYLOADS = [str(number) * 1_000_000 for number in range(3)]


@asynccontextmanager
async def large_items(valkey: Server, turn: Turn | None) -> AsyncGenerator[QueueAdmin]:
    """A queue with items of a megabyte and a connection with the bounds of the page. Items can be moved to `other`."""
    async with open_queue(valkey.url, "media") as media:
        for number, payload in enumerate(PAYLOADS):
            await media.enqueue(payload, id=f"i{number}")
    bounds = patient(valkey.url, largest_reply=SMALL_REPLY, read_bounds=SMALL_READ)
    async with claimq.connect(settings=bounds) as server:
        queue, other = server.queue("media"), server.queue("other")
        yield replace(admin_of(queue, "ann", admin_of(other, "ann")), turn=turn)


async def test_large_items_are_changed_in_a_turn(valkey: Server) -> None:
    async with large_items(valkey, partial(large_reads().turn, "media")) as admin:
        assert await change_item(admin, "i0", ItemChange("cancel")) == "i0 cancelled; it is in failed now"
        selected = SelectedItems(admin, ItemFilter(), state=State.MAIN)
        await selected.run(ItemChange("move"), asyncio.Event())
        assert (selected.changed, selected.problems) == (2, [])
    async with open_server(valkey.url) as server:
        moved = await server.queue("other").peek(9)
        assert [(item.id, item.payload.decode()) for item in moved] == [
            ("i1", PAYLOADS[1]),
            ("i2", PAYLOADS[2]),
        ]
        assert (await server.queue("media").lengths())[State.BUSY] == 0


async def test_without_turns_large_items_are_refused_before_anything_is_changed(valkey: Server) -> None:
    async with large_items(valkey, None) as admin:
        with pytest.raises(StoreMisused):
            await change_item(admin, "i0", ItemChange("cancel"))
        with pytest.raises(StoreMisused):
            await SelectedItems(admin, ItemFilter(), state=State.MAIN).run(
                ItemChange("move"), asyncio.Event()
            )
        assert (await admin.queue.lengths())[State.MAIN] == 3
