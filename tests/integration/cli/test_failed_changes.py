"""`claimq failed requeue`, `remove` and `move` on all failed items that pass filters."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import claimq
from claimq import NewItem
from claimq.blocking import BlockingQueue as Queue
from claimq.model import Located
from claimq_admin.changes.item_actions import ItemChange, change_item
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.errors import CommandError
from claimq_admin.selection.item_filter import ItemFilter
from claimq_admin.selection.selected_items import Change, SelectedItems
from testkit.plugin import Claimq
from testkit.programs.forked import ForkedProcess, run_forked
from testkit.queues.clock import move_clock
from testkit.servers.patient import open_blocking_queue, open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import eventually_sync


@pytest.fixture
def queue(valkey: Server) -> Any:
    """`q` with 40 failed items: every fourth timed out, every second is of the client ann."""
    with open_blocking_queue(valkey.url, worker="w1") as queue:
        queue.enqueue_many(
            [NewItem(b"x" * 100, id=f"i{n:02}", client="ann" if n % 2 else None) for n in range(40)]
        )
        for claim in sorted(queue.claim(40, wait=0), key=lambda one: one.item.id):
            error = "Timeout: 5 s" if int(claim.item.id[1:]) % 4 == 1 else "refused"
            queue.fail(claim, error, permanent=True)
        yield queue


def ids(queue: Queue) -> list[str]:
    return [one.name for one in queue.failed_items(1000)]


def test_a_dry_run_counts_and_shows_items_and_changes_nothing(on: Claimq, queue: Queue) -> None:
    for verb, *more in (["requeue"], ["remove"], ["move", "--to", "q2"]):
        on("enqueue", "q2", "something")
        answer = on("failed", verb, "q", "--all", "--error", "TIMEOUT", "--dry-run", *more)
        assert answer.code == 0
        assert [line.split()[0] for line in answer.out.splitlines()[2:]] == [
            f"i{n:02}" for n in range(1, 40, 4)
        ]
        assert answer.err == "claimq: q: 10 items would be changed; nothing was (--dry-run)\n"
    assert len(ids(queue)) == 40
    assert queue.audit_log() == []
    found = on("failed", "remove", "q", "--all", "--client", "ann", "--dry-run", "-o", "json").json
    assert (found["matching"], len(found["samples"])) == (20, 10)


def test_only_the_items_that_pass_every_filter_are_requeued(on: Claimq, queue: Queue) -> None:
    answer = on("failed", "requeue", "q", "--all", "--error", "refused", "--client", "ann", "--limit", "3")
    assert answer.out == "q: 3 items requeued\n"
    assert [item.id for item in queue.peek(9)] == ["i03", "i07", "i11"]
    assert len(ids(queue)) == 37
    assert (
        on("failed", "requeue", "q", "--all", "--error", "refused", "--client", "ann").out
        == "q: 7 items requeued\n"
    )
    assert (
        on("failed", "requeue", "q", "--all", "--error", "refused", "--client", "ann").out
        == "q: 0 items requeued\n"
    )


@pytest.mark.parametrize("verb", ["requeue", "remove --yes"])
def test_a_selection_by_reason_takes_a_call_for_each_hundred_items(
    on: Claimq, queue: Queue, valkey: Server, verb: str
) -> None:
    queue.enqueue_many(["x"] * 470)
    queue.fail(queue.claim(470, wait=0), "refused", permanent=True)
    valkey.call("CONFIG", "RESETSTAT")
    answer = on("failed", *verb.split(), "q", "--all", "--reason", "refused")
    assert answer.out.startswith("q: 500 items re")
    calls = re.search(r"cmdstat_evalsha:calls=(\d+),", str(valkey.call("INFO", "commandstats")))
    assert calls
    assert int(calls[1]) < 40
    assert (len(ids(queue)), {one.item.last_error for one in queue.failed_items(100)}) == (
        10,
        {"Timeout: 5 s"},
    )


def test_items_are_chosen_by_their_reason_and_by_their_payload(on: Claimq, queue: Queue) -> None:
    queue.enqueue_many([NewItem(f'{{"order": {{"country": "{land}"}}}}', id=land) for land in ("DE", "FR")])
    queue.fail(queue.claim(2, wait=0), "Timeout: 17 s", permanent=True)
    by_reason = ["items", "q", "failed", "--reason", "Timeout: # s", "--limit", "100", "-o", "name"]
    assert len(on(*by_reason).out.split()) == 12
    assert on(*by_reason, "--json", "$.order").out.split() == ["DE", "FR"]
    assert on("failed", "export", "q", "--json", "$.order.country=FR", "--format", "raw").out.startswith(
        '{"order"'
    )
    assert on("failed", "requeue", "q", "--all", "--json", "$.order.country=DE").out == "q: 1 item requeued\n"
    assert [item.id for item in queue.peek(9)] == ["DE"]
    (entry,) = [one for one in queue.audit_log() if one.count]
    assert entry.target == "payload has $.order.country=DE"
    refused = on("items", "q", "failed", "--json", "order")
    assert (refused.code, "is not a JSONPath; write for instance $.order.id" in refused.err) == (2, True)


def test_both_bounds_of_the_given_up_count_hold_for_each_command(on: Claimq, queue: Queue) -> None:
    queue.requeue_failed(limit=10)
    queue.fail(queue.claim(10, wait=0), "again", permanent=True)
    for verb in ("requeue", "remove"):
        found = on("failed", verb, "q", "--all", "--min-given-up-count", "2", "--dry-run", "-o", "json").json
        assert found["matching"] == 10
        found = on("failed", verb, "q", "--all", "--max-given-up-count", "1", "--dry-run", "-o", "json").json
        assert found["matching"] == 30
    assert on("failed", "requeue", "q", "--all", "--min-given-up-count", "2").out == "q: 10 items requeued\n"
    answer = on("failed", "remove", "q", "--all", "--max-given-up-count", "1", "--yes")
    assert (answer.out, queue.length("failed")) == ("q: 30 items removed\n", 0)


def test_the_items_that_pass_are_removed_after_a_confirmation(on: Claimq, queue: Queue) -> None:
    asked = on("failed", "remove", "q", "--all", "--error", "timeout")
    assert (asked.code, len(ids(queue))) == (2, 40)
    assert "this removes all failed items that match the filters of q permanently" in asked.err
    assert on("failed", "remove", "q", "--all", "--error", "timeout", "--yes").out == "q: 10 items removed\n"
    assert {one.item.last_error for one in queue.failed_items(100)} == {"refused"}


def test_items_move_to_another_queue_and_those_that_it_refuses_stay(
    on: Claimq, queue: Queue, valkey: Server
) -> None:
    on("enqueue", "other", "something", "--id", "i05")
    answer = on("failed", "move", "q", "--all", "--error", "timeout", "--to", "other")
    assert (answer.code, answer.out) == (1, "q: 9 items moved\n")
    assert "other has had an item i05 within its id window, so i05 was not moved" in answer.err
    assert [name for name in ids(queue) if int(name[1:]) % 4 == 1] == ["i05"]
    with open_blocking_queue(valkey.url, "other") as opened:
        moved = opened.peek(100, client="ann")
    assert {(one.id, one.payload) for one in moved} == {
        (f"i{n:02}", b"x" * 100) for n in range(1, 40, 4) if n != 5
    }
    on("policy", "other", "max_payload=5")
    answer = on("failed", "move", "q", "i00", "nothing", "--to", "other")
    assert (answer.code, answer.out) == (1, "q: 0 items moved\n")
    assert "q has no failed item nothing" in answer.err
    assert "the queue takes at most 5" in answer.err
    assert "i00" in ids(queue)


def test_a_queue_is_not_its_own_target(on: Claimq, queue: Queue) -> None:
    answer = on("failed", "move", "q", "--all", "--to", "q")
    assert (answer.code, answer.err) == (2, "claimq: NAME and TARGET are the same queue\n")


def test_an_item_that_fails_during_the_action_is_left_alone(valkey: Server, queue: Queue) -> None:
    """A requeued item that fails at once would otherwise be requeued for as long as it fails."""

    async def act() -> SelectedItems:
        async with open_queue(valkey.url, worker="w2") as mine:
            action = SelectedItems(admin_of(mine, "ann"), ItemFilter(error="refused"))

            async def requeue(found: Located, _: int) -> bool:
                await mine.requeue_failed_item(found.name)
                await move_clock(mine, 0.01)
                await mine.fail(await mine.claim(1, wait=0), "refused", permanent=True)
                return True

            await action.carry_out(Change("requeue failed", requeue), asyncio.Event())
            return action

    action = asyncio.run(act())
    assert (action.matched, action.changed, len(ids(queue))) == (30, 30, 40)


def test_an_item_that_fails_again_before_its_turn_is_not_removed(queue: Queue, valkey: Server) -> None:
    """The page of which it is may have been read minutes ago, with --rate."""

    async def act() -> None:
        async with open_queue(valkey.url, worker="w2") as mine:
            action = SelectedItems(admin_of(mine, "ann"), ItemFilter(error="refused"))
            removing = action.steps_of(ItemChange("remove"))

            async def remove(found: Located, position: int) -> object:
                if found.name == "i00":
                    await mine.requeue_failed_item("i38")
                    await move_clock(mine, 1)
                    await mine.fail(await mine.claim(wait=0), "other", permanent=True)
                return await removing.one(found, position)

            change = Change(removing.action, remove)
            await action.carry_out(change, asyncio.Event())

    asyncio.run(act())
    assert [one.item.last_error for one in queue.failed_items(100) if one.name == "i38"] == ["other"]


def test_an_interrupted_action_says_how_far_it_came_and_is_recorded(
    queue: Queue, valkey: Server, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = [
        "failed",
        "requeue",
        "q",
        "--all",
        "--error",
        "refused",
        "--rate",
        "0.1",
        "--redis",
        valkey.url,
    ]
    process = ForkedProcess("claimq_cli", *command, log=log)
    eventually_sync(lambda: queue.length() > 0)
    process.send(signal.SIGINT)
    assert process.wait() == 130
    moved = queue.length()
    assert 0 < moved < 30
    assert f"interrupted after {moved} item" in log.read_text()
    ended, begun = queue.audit_log()
    assert (begun.action, begun.target, begun.count) == ("requeue failed", "error contains 'refused'", None)
    assert (ended.action, ended.count) == ("requeue failed: ended", moved)
    assert "@" in begun.actor


def test_every_change_by_hand_is_in_the_audit_log(on: Claimq, queue: Queue) -> None:
    on("pause", "q")
    on("resume", "q")
    on("policy", "q", "requeue_limit=3")
    on("release", "q", "w9", "--interrupted")
    on("failed", "requeue", "q", "i01", "i02")
    on("failed", "remove", "q", "--all", "--min-age", "1h", "--yes")
    on("item", "cancel", "q", "i01")
    on("item", "move", "q", "q", "i02")
    on("flush", "q", "--client", "ann", "--yes")
    found = on("audit", "q", "-o", "json").json["records"]
    assert [(one["action"], one["target"], one["count"]) for one in reversed(found)] == [
        ("pause", "", None),
        ("resume", "", None),
        ("policy", "requeue_limit=3", None),
        ("release", "worker w9, interrupted", None),
        ("requeue failed", "i01", 1),
        ("requeue failed", "i02", 1),
        ("remove failed", "60 min old or older", None),
        ("remove failed: ended", "60 min old or older", 0),
        ("cancel", "i01", 1),
        ("flush", "client ann", None),
    ]
    table = on("audit", "q", "--limit", "2").out
    assert table.splitlines()[0].split() == ["at", "who", "action", "target", "items"]
    assert "client ann" in table
    on("policy", "q")
    assert len(on("audit", "q", "-o", "json").json["records"]) == len(found)


def test_a_queue_that_no_person_changed_has_an_empty_audit_log(on: Claimq, queue: Queue) -> None:
    assert on("audit", "q").out == "q: no change by hand is recorded\n"


def test_what_is_not_recorded_is_not_done(on: Claimq, queue: Queue, valkey: Server) -> None:
    valkey.call("SET", "cq:{q}:audit", "of another type")
    for words in (
        ["pause", "q"],
        ["item", "remove", "q", "i00"],
        ["failed", "remove", "q", "--all", "--yes"],
    ):
        answer = on(*words)
        assert answer.code == 4
        assert "cq:{q}:audit" in answer.err
    assert len(ids(queue)) == 40
    assert not queue.snapshot().paused


def test_of_two_moves_at_once_each_counts_its_own_items(on: Claimq, queue: Queue, valkey: Server) -> None:
    on("enqueue", "other", "something")
    seen: list[str] = []

    async def first() -> SelectedItems:
        async with open_server(valkey.url) as server:
            queue, other = server.queue("q"), admin_of(server.queue("other"), "ann")
            items = SelectedItems(admin_of(queue, "ann", other), ItemFilter())

            def second() -> None:
                if not seen:
                    command = ["failed", "move", "q", "--all", "--to", "other", "--redis", valkey.url]
                    seen.append(run_forked("claimq_cli", *command).stdout.decode())

            items.note = second
            await items.run(ItemChange("move"), asyncio.Event())
            return items

    items = asyncio.run(first())
    assert seen == ["q: 39 items moved\n"]
    assert (items.changed, items.problems, ids(queue)) == (1, [], [])
    with open_blocking_queue(valkey.url, "other") as opened:
        assert opened.length() == 41


@pytest.mark.parametrize("act", ["move", "requeue", "remove", "run-now"])
def test_a_failed_item_that_another_call_has_taken_says_so(queue: Queue, valkey: Server, act: str) -> None:
    async def after_another_move() -> None:
        async with open_server(valkey.url) as server:
            late, there = server.queue("q"), admin_of(server.queue("other"), "ann")

            class Late(claimq.ReliableQueue):
                async def find(self, *args: Any, **options: Any) -> Any:
                    found = await super().find(*args, **options)
                    await change_item(admin_of(server.queue("q"), "bob", there), "i00", ItemChange("move"))
                    return found

            late.__class__ = Late
            await change_item(admin_of(late, "ann", there), "i00", ItemChange(act))

    why = "i00 is not in failed of q any more: another call has moved, requeued or removed it"
    with pytest.raises(CommandError, match=why):
        asyncio.run(after_another_move())
