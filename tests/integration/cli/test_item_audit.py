"""What the audit log holds about actions on single items: moves in both queues, and what was not carried out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import claimq
from claimq.blocking import BlockingQueue as Queue
from claimq.model import State
from claimq_admin.changes.item_actions import ItemChange, change_item
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.errors import CommandError
from testkit.plugin import Claimq
from testkit.servers.patient import open_blocking_queue, open_server
from testkit.servers.server import Server


@pytest.fixture
def queue(valkey: Server) -> Any:
    """`q` with the items `a` and `b`."""
    with open_blocking_queue(valkey.url, worker="w1") as queue:
        queue.enqueue("first", id="a")
        queue.enqueue("second", id="b")
        yield queue


def fail(queue: Queue) -> None:
    """A failed item `x`."""
    queue.enqueue("payload", id="x")
    claim = queue.claim_item("x")
    assert claim is not None
    queue.fail(claim, "no", permanent=True)


@pytest.fixture
def other(valkey: Server, queue: Queue) -> Any:
    """The queue `other`, with an item."""
    with open_blocking_queue(valkey.url, "other") as other:
        other.enqueue("theirs", id="b")
        yield other


def entries(queue: Queue) -> list[tuple[str, str, int | None]]:
    return [(one.action, one.target, one.count) for one in reversed(queue.audit_log())]


def test_a_move_is_recorded_in_both_queues(on: Claimq, queue: Queue, other: Queue) -> None:
    queue.enqueue("payload", id="x")
    assert on("item", "move", "q", "other", "x").code == 0
    assert entries(queue) == [("move", "x to other", 1)]
    assert entries(other) == [("move here", "x from q", 1)]
    assert other.audit_log()[0].actor == queue.audit_log()[0].actor
    assert on("item", "move", "q", "other", "--all", "--state", "delayed").code == 0
    assert entries(other)[1:] == [
        ("move here", "from q: all", None),
        ("move here: ended", "from q: all", 0),
    ]


def test_a_move_that_is_refused_is_not_counted_in_either_queue(
    on: Claimq, queue: Queue, other: Queue
) -> None:
    assert on("item", "move", "q", "other", "b").code == 1
    assert entries(queue) == [("move", "b to other", 1), ("move: not done", "b to other", 0)]
    assert entries(other) == [("move here", "b from q", 1), ("move here: not done", "b from q", 0)]


def test_a_failed_item_that_is_not_moved_is_not_counted(on: Claimq, queue: Queue, other: Queue) -> None:
    fail(queue)
    other.enqueue("theirs", id="x")
    assert on("failed", "move", "q", "--to", "other", "x").code == 1
    assert entries(queue) == [
        ("move failed", "x to other", 1),
        ("move failed: not done", "x to other", 0),
    ]
    assert entries(other) == [("move here", "x from q", 1), ("move here: not done", "x from q", 0)]


def test_a_failed_item_requeued_during_its_move_is_reported_in_both(
    valkey: Server, queue: Queue, other: Queue
) -> None:
    fail(queue)

    class Late(claimq.ReliableQueue):
        async def remove_failed_item(self, *args: Any, **options: Any) -> Any:
            await self.requeue_failed_item("x")
            return await super().remove_failed_item(*args, **options)

    async def move() -> None:
        async with open_server(valkey.url) as server:
            late, there = server.queue("q"), server.queue("other")
            late.__class__ = Late
            await change_item(admin_of(late, "ann", admin_of(there, "ann")), "x", ItemChange("move"))

    with pytest.raises(CommandError, match=r"x was enqueued in other, but .* so it may be in both"):
        asyncio.run(move())
    assert [one.count for one in (*queue.audit_log(), *other.audit_log())] == [1, 1]


def test_a_move_that_the_target_cannot_record_leaves_the_item(
    on: Claimq, queue: Queue, other: Queue, valkey: Server
) -> None:
    valkey.call("SET", "cq:{other}:added", "of another type")
    assert on("item", "move", "q", "other", "a").code == 4
    assert [item.id for item in queue.peek(9)] == ["a", "b"]
    assert queue.lengths()[State.BUSY] == 0


@pytest.mark.parametrize("action", ["cancel", "remove", "run-now", "requeue"])
def test_an_action_that_failed_is_recorded_as_not_done(on: Claimq, queue: Queue, action: str) -> None:
    assert on("item", action, "q", "absent", *(["--yes"] if action == "remove" else [])).code == 1
    assert entries(queue) == [(action, "absent", 1), (f"{action}: not done", "absent", 0)]
