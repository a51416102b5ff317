"""`claimq item cancel`, `remove`, `run-now`, `requeue` and `move` on all items in main or delayed that pass filters."""

from __future__ import annotations

from typing import Any

import pytest

from claimq import NewItem, State
from claimq.blocking import BlockingQueue as Queue
from testkit.plugin import Claimq
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server

STATES = ("main", "delayed")


@pytest.fixture
def queue(valkey: Server) -> Any:
    """`q` with ten items each of ann and bob and ten of no client in main, and the same in delayed; paused."""
    with open_blocking_queue(valkey.url, worker="w1") as queue:
        for state, delay in (("main", None), ("delayed", 3600)):
            queue.enqueue_many(
                [
                    NewItem({"n": n}, id=f"{state}{n:02}", client=(None, "ann", "bob")[n % 3], delay=delay)
                    for n in range(30)
                ]
            )
        queue.pause()
        yield queue


def ids(queue: Queue, state: str) -> list[str]:
    return sorted(one.name or one.item.id for one in queue.items(state, 1000))


def of_ann(state: str) -> list[str]:
    return [f"{state}{n:02}" for n in range(1, 30, 3)]


@pytest.mark.parametrize("state", STATES)
def test_a_dry_run_of_waiting_items_counts_and_changes_nothing(on: Claimq, queue: Queue, state: str) -> None:
    selected = ["q", "--all", "--state", state, "--client", "ann", "--dry-run"]
    for verb in ("cancel", "remove", "run-now", "requeue"):
        answer = on("item", verb, *selected)
        assert answer.code == 0
        assert sorted(line.split()[0] for line in answer.out.splitlines()[2:]) == of_ann(state)
        assert answer.err == "claimq: q: 10 items would be changed; nothing was (--dry-run)\n"
    assert (len(ids(queue, "main")), len(ids(queue, "delayed"))) == (30, 30)
    assert queue.audit_log() == []


@pytest.mark.parametrize("state", STATES)
def test_waiting_items_that_pass_are_cancelled_and_recorded(on: Claimq, queue: Queue, state: str) -> None:
    answer = on("item", "cancel", "q", "--all", "--state", state, "--json", "$[?@ >= 20]", "--error", "no")
    assert answer.out == "q: 10 items cancelled\n"
    assert ids(queue, "failed") == [f"{state}{n:02}" for n in range(20, 30)]
    assert {one.item.last_error for one in queue.failed_items(100)} == {"no"}
    ended, begun = queue.audit_log()
    assert (begun.action, begun.target, begun.count) == (f"cancel {state}", "payload has $[?@ >= 20]", None)
    assert (ended.action, ended.count) == (f"cancel {state}: ended", 10)


@pytest.mark.parametrize("state", STATES)
def test_waiting_items_are_removed_after_a_confirmation_and_logged(
    on: Claimq, queue: Queue, state: str
) -> None:
    asked = on("item", "remove", "q", "--all", "--state", state)
    assert (asked.code, f"this removes every item in {state} of q permanently" in asked.err) == (2, True)
    removed = on("item", "remove", "q", "--all", "--state", state, "--limit", "12", "--yes", "-o", "json")
    assert removed.json == {"queue": "q", "removed": 12, "missing": [], "problems": []}
    assert len(ids(queue, state)) == 18
    assert len(queue.removed_items(100)) == 12


@pytest.mark.parametrize("state", STATES)
def test_waiting_items_run_now_in_their_order(on: Claimq, queue: Queue, state: str) -> None:
    before = [one.item.id for one in queue.items(state, 100) if one.item.client == "bob"]
    wanted = {"$[?@ >= 15]": 5, "$.n": 10}
    for path, count in wanted.items():
        answer = on("item", "run-now", "q", "--all", "--state", state, "--client", "bob", "--json", path)
        assert answer.out == f"q: {count if state == 'main' or count == 5 else 5} items run now\n"
    found = [item.id for item in queue.peek(100, client="bob") if item.id.startswith(state)]
    assert found == before[5:] + before[:5]


def test_every_item_of_main_is_requeued_once(on: Claimq, queue: Queue) -> None:
    order = [item.id for item in queue.peek(100, client="ann")]
    assert on("item", "requeue", "q", "--all", "--state", "main").out == "q: 30 items requeued\n"
    assert [item.id for item in queue.peek(100, client="ann")] == order
    assert {item.requeue_count for item in queue.peek(100)} == {1}


def test_no_item_is_missed_or_changed_twice_where_the_state_has_many_pages(
    on: Claimq, valkey: Server
) -> None:
    with open_blocking_queue(valkey.url, "long") as queue:
        large = "x" * 600_000  # a page ends after 4 MiB
        queue.enqueue_many([NewItem({"odd": n % 2, "": large}, id=f"{n:02}") for n in range(20)])
        queue.pause()
        even = {f"{n:02}" for n in range(0, 20, 2)}
        selected = ["long", "--all", "--state", "main", "--json"]
        assert on("item", "run-now", *selected, "$.odd=0").out == "long: 10 items run now\n"
        order = [item.id for item in queue.peek(20)]
        assert set(order[:10]) == even
        assert on("item", "requeue", *selected, "$.odd").out == "long: 20 items requeued\n"
        assert [item.id for item in queue.peek(20)] == order
        assert on("item", "cancel", *selected, "$.odd=1").out == "long: 10 items cancelled\n"
        assert [item.id for item in queue.peek(20)] == order[:10]


def test_delayed_items_move_with_their_due_times_and_refused_ones_stay(
    on: Claimq, queue: Queue, valkey: Server
) -> None:
    on("enqueue", "other", "something", "--id", "delayed01")
    due = {one.item.id: one.due_at for one in queue.items("delayed", 100)}
    answer = on("item", "move", "q", "other", "--all", "--state", "delayed", "--client", "ann")
    assert (answer.code, answer.out) == (1, "q: 9 items moved\n")
    assert "other has had an item delayed01 within its id window" in answer.err
    with open_blocking_queue(valkey.url, "other") as other:
        moved = other.items(State.DELAYED, 100)
    found = {one.item.id: one.due_at for one in moved}
    assert found == {one: pytest.approx(due[one], abs=0.002) for one in of_ann("delayed")[1:]}
    # An item that the other queue has refused is the next one here.
    assert "delayed01" in ids(queue, "main")


def test_bare_payloads_are_left_alone(on: Claimq, queue: Queue, valkey: Server) -> None:
    valkey.call("LPUSH", "cq:{q}:main", "bare")
    dry = on("item", "cancel", "q", "--all", "--state", "main", "--dry-run", "-o", "json").json
    assert dry["matching"] == 30
    assert on("item", "cancel", "q", "--all", "--state", "main").out == "q: 30 items cancelled\n"
    assert [item.payload for item in queue.peek(9)] == [b"bare"]
    assert on("items", "q", "main").out.splitlines()[2].split() == ["bare-", "-", "-", "0", "bare"]


def test_filters_of_waiting_items_need_a_state_and_no_ids(on: Claimq, queue: Queue) -> None:
    for words, why in (
        (["--all"], "--all and --state go together"),
        (["main01", "--state", "main"], "--all and --state go together"),
        (["main01", "--client", "ann"], "the filters, --dry-run and --rate need --all"),
        ([], "name the items by their ids, or give --all"),
        (["--all", "--state", "main", "--delay", "5s"], "--delay does not go with --all"),
    ):
        answer = on("item", "requeue", "q", *words)
        assert (answer.code, why in answer.err) == (2, True), words
    assert len(ids(queue, "main")) == 30
