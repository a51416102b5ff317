"""`claimq item`: what on-call engineers do with one item, in whatever state it is."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import claimq
from claimq import NewItem, Policy, Verdict
from claimq.blocking import BlockingQueue as Queue
from claimq_admin.by_hand import name_by_hand
from claimq_admin.changes.item_actions import ItemChange, change_item
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.errors import CommandError
from testkit.plugin import Claimq
from testkit.queues.looking import texts
from testkit.servers.patient import open_blocking_queue, open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

STATES = ("main", "delayed", "busy", "failed")


@pytest.fixture
def queue(valkey: Server) -> Any:
    """`q` with an item `x` that each test brings into a state, and two others in main."""
    with open_blocking_queue(valkey.url, worker="w1") as queue:
        queue.enqueue_many([NewItem("first", id="a"), NewItem("second", id="b")])
        yield queue


def bring(queue: Queue, state: str) -> claimq.Claim | None:
    """An item `x` in this state; its claim, if it is busy."""
    queue.enqueue("payload", id="x", client="ann", delay=3600 if state == "delayed" else None)
    if state not in {"busy", "failed"}:
        return None
    claim = queue.claim_item("x")
    assert claim is not None
    if state == "busy":
        return claim
    queue.fail(claim, "broken", permanent=True)
    return None


def state_of(queue: Queue) -> str | None:
    found = queue.find("x")
    return found.state.value if found else None


def verdict_of(queue: Queue, claim: claimq.Claim | None) -> Verdict | None:
    return (queue.done(claim))[0].verdict if claim else None


def test_a_command_is_a_worker_only_while_it_holds_an_item(on: Claimq, queue: Queue, valkey: Server) -> None:
    def workers(*command: str) -> list[tuple[str, int]]:
        return [(one["worker"], one["busy"]) for one in on(*command, "q", "-o", "json").json["workers"]]

    bring(queue, "delayed")
    assert on("item", "run-now", "q", "x").code == 0
    assert on("item", "cancel", "q", "a").code == 0
    # The test holds what it has run, and is a worker; of the names that have claimed, no other one is left.
    assert [one.item.id for one in queue.claim(1, wait=0)] == ["x"]
    assert workers("workers") == workers("status") == [("w1", 1)]
    assert len(queue.workers()) == 3
    with open_blocking_queue(valkey.url, worker=name_by_hand()) as by_hand:
        held = by_hand.claim(1, wait=0)
        assert workers("workers") == workers("status")
        name, own = workers("workers")
        assert own == ("w1", 1)
        assert name[0].startswith("by-hand.")
        by_hand.done(held)
    assert workers("workers") == [("w1", 1)]


def test_headers_are_set_shown_selected_and_moved(on: Claimq, queue: Queue) -> None:
    on("enqueue", "q", "payload", "--id", "x", "--header", "tenant=acme", "--header", "note=a = b")
    on(
        "enqueue",
        "q",
        "y",
        "--id",
        "l",
        "--deadline",
        "2100-01-01T00:00:00Z",
        "--max-requeues",
        "2",
        "--priority",
        "high",
        "--key",
        "k",
    )
    headers = {"tenant": "acme", "note": "a = b"}
    assert on("items", "q", "main", "-o", "json").json["items"][3]["item"]["headers"] == headers
    assert "headers:     tenant: acme\n             note: a = b\n" in on("item", "show", "q", "x").out
    on("enqueue", "other", "something", "--id", "y", "--expires-in", "1h")
    assert on("item", "move", "q", "other", "l").code == 0
    limited = on("item", "show", "other", "l", "-o", "json").json["item"]
    assert (limited["deadline"], limited["max_requeues"], limited["priority"]) == (4102444800, 2, "high")
    assert limited["key"] == "k"
    shown = on("item", "show", "other", "l").out
    assert "requeue limit: 2\npriority:      high\nkey:           k\n" in shown
    assert on("enqueue", "q", "x", "--expires-in", "1h", "--deadline", "1").code == 2
    assert on("item", "move", "q", "other", "x").code == 0
    on("item", "cancel", "other", "x", "y")
    for words, ids in (("tenant", "x\n"), ("note=a = b", "x\n"), ("tenant=acm", ""), ("none", "")):
        assert on("items", "other", "failed", "--header", words, "-o", "name").out == ids
    (row,) = on("items", "other", "failed", "--header", "tenant", "-o", "json").json["items"]
    assert row["item"]["headers"] == headers


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a"], '"a" has no value; write NAME=VALUE'),
        (["a=1", "a=2"], "a name is given twice"),
        (["A=1"], "a lower-case letter"),
        (["a=grün"], "percent-encode"),
    ],
)
def test_invalid_headers_are_usage_errors(on: Claimq, words: list[str], says: str) -> None:
    done = on("enqueue", "q", "x", *(word for one in words for word in ("--header", one)))
    assert (done.code, says in " ".join(done.err.split())) == (2, True)


@pytest.mark.parametrize("state", STATES)
def test_show_prints_an_item_in_any_state(on: Claimq, queue: Queue, state: str) -> None:
    bring(queue, state)
    document = on("item", "show", "q", "x", "-o", "json").json
    assert (document["item"]["id"], document["state"], document["item"]["client"]) == ("x", state, "ann")


def test_show_prints_each_line_of_the_detail_and_the_history(on: Claimq, queue: Queue) -> None:
    claim = bring(queue, "busy")
    assert claim is not None
    queue.fail(claim, "first")
    claim = queue.claim_item("x")
    assert claim is not None
    queue.fail(
        claim, "second\nline", detail="worker.py:8 in <module>\n\x1b[1mio.py:10 in open\n", permanent=True
    )
    lines = on("item", "show", "q", "x").out.splitlines()
    instants = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    assert [instants.sub("AT", line) for line in lines[-6:]] == [
        r"last error:  second\nline",
        "payload:     payload",
        "detail:      worker.py:8 in <module>",
        r"             \x1b[1mio.py:10 in open",
        "history:     AT  fail  w1  first",
        r"             AT  permanent  w1  second\nline",
    ]


@pytest.mark.parametrize("state", ["main", "delayed", "busy"])
def test_cancel_moves_an_item_to_failed_and_its_worker_loses_it(on: Claimq, queue: Queue, state: str) -> None:
    claim = bring(queue, state)
    answer = on("item", "cancel", "q", "x", "--error", "withdrawn")
    assert answer.out == "q: x cancelled; it is in failed now\n"
    found = queue.failed_item("x")
    assert found is not None
    assert found.item.last_error == "withdrawn"
    assert verdict_of(queue, claim) in {None, Verdict.LOST}


def test_cancel_leaves_a_failed_item_as_it_is(on: Claimq, queue: Queue) -> None:
    bring(queue, "failed")
    answer = on("item", "cancel", "q", "x")
    assert (answer.code, answer.err) == (1, "claimq: x has failed already; `claimq item show` shows why\n")
    found = queue.failed_item("x")
    assert found is not None
    assert found.item.last_error == "broken"


@pytest.mark.parametrize("state", STATES)
def test_remove_takes_an_item_out_of_any_state(on: Claimq, queue: Queue, state: str) -> None:
    claim = bring(queue, state)
    assert on("item", "remove", "q", "x").out == "q: x removed\n"
    assert state_of(queue) is None
    assert verdict_of(queue, claim) in {None, Verdict.LOST}
    assert [one.item.id for one in queue.removed_items()] == ([] if state == "failed" else ["x"])
    assert queue.length() == 2


@pytest.mark.parametrize("state", ["main", "delayed", "failed"])
def test_run_now_makes_an_item_the_next_of_its_client(on: Claimq, queue: Queue, state: str) -> None:
    queue.enqueue_many([NewItem(name, id=name, client="ann") for name in ("c", "d")])
    bring(queue, state)
    assert on("item", "run-now", "q", "x").out == "q: x is next\n"
    assert [item.id for item in queue.peek(9, client="ann")] == ["x", "c", "d"]


@pytest.mark.parametrize("action", ["run-now", "move"])
def test_an_item_that_a_worker_has_is_left_to_it(
    on: Claimq, queue: Queue, valkey: Server, action: str
) -> None:
    on("enqueue", "other", "something")
    claim = bring(queue, "busy")
    answer = on("item", action, "q", *(["other"] if action == "move" else []), "x")
    assert answer.code == 1
    assert answer.err == "claimq: the worker w1 has x; cancel or requeue it, or wait until it ends\n"
    assert verdict_of(queue, claim) is Verdict.DONE


@pytest.mark.parametrize("state", STATES)
def test_requeue_puts_an_item_of_any_state_at_the_tail(on: Claimq, queue: Queue, state: str) -> None:
    claim = bring(queue, state)
    queue.enqueue("c", id="c", client="ann")
    assert on("item", "requeue", "q", "x").out == "q: x requeued\n"
    assert [item.id for item in queue.peek(9, client="ann")] == ["c", "x"]
    assert verdict_of(queue, claim) in {None, Verdict.LOST}


@pytest.mark.parametrize("state", STATES)
def test_requeue_with_a_delay_delays_an_item_of_any_state(on: Claimq, queue: Queue, state: str) -> None:
    bring(queue, state)
    assert on("item", "requeue", "q", "x", "--delay", "2h").out == "q: x delayed\n"
    (located,) = queue.items("delayed")
    assert located.item.id == "x"
    assert located.due_at is not None
    assert located.due_at - (queue.snapshot()).now > 7000


@pytest.mark.parametrize("state", ["main", "delayed", "failed"])
def test_move_takes_an_item_to_another_queue_with_its_id_client_and_due_time(
    on: Claimq, queue: Queue, valkey: Server, state: str
) -> None:
    on("enqueue", "other", "something")
    bring(queue, state)
    before = queue.find("x")
    assert on("item", "move", "q", "other", "x").out == "q: x moved to other\n"
    assert state_of(queue) is None
    document = on("item", "show", "other", "x", "-o", "json").json
    moved = document["item"]
    assert (document["state"], moved["client"], moved["text"]) == (
        "delayed" if state == "delayed" else "main",
        "ann",
        "payload",
    )
    assert before is not None
    with open_blocking_queue(valkey.url, "other") as opened:
        found = opened.find("x")
    assert found is not None
    assert found.due_at == before.due_at


def test_move_changes_nothing_if_the_other_queue_knows_the_id(on: Claimq, queue: Queue) -> None:
    on("enqueue", "other", "something", "--id", "x")
    bring(queue, "main")
    answer = on("item", "move", "q", "other", "x")
    assert answer.code == 1
    assert "other has had an item x within its id window, so x was not moved" in answer.err
    assert state_of(queue) == "main"
    assert on("status", "other", "-o", "json").json["lengths"]["main"] == 1


def test_move_puts_an_item_back_that_is_too_large_for_the_other_queue(on: Claimq, queue: Queue) -> None:
    on("enqueue", "other", "s")
    on("policy", "other", "max_payload=3")
    bring(queue, "main")
    answer = on("item", "move", "q", "other", "x")
    assert answer.code == 1
    assert "the queue takes at most 3" in answer.err
    assert state_of(queue) == "main"


def test_several_items_are_changed_and_errors_leave_the_others(on: Claimq, queue: Queue) -> None:
    answer = on("item", "remove", "q", "a", "nothing", "b", "-o", "json")
    assert answer.code == 1
    assert answer.json == {"queue": "q", "changed": ["a", "b"], "unchanged": ["nothing"]}
    assert answer.err == "claimq: q has no item nothing: it is done, was removed, or never existed\n"
    assert queue.length() == 0


def test_the_names_that_a_list_prints_can_be_acted_on(on: Claimq, queue: Queue) -> None:
    names = on("items", "q", "main", "-o", "name").out
    assert names == "a\nb\n"
    assert on("item", "cancel", "q", *names.split(), "-o", "name").out == names
    assert on("items", "q", "failed", "-o", "name").out == names


def test_items_that_have_not_failed_are_listed_by_filters(on: Claimq, queue: Queue) -> None:
    (claim,) = queue.claim(1, wait=0)
    queue.enqueue("x", id="x", client="ann", headers={"tenant": "acme"})
    queue.enqueue("y", id="y", client="ann", headers={"tenant": "acme"}, delay=3600)
    assert on("items", "q", "main", "--header", "tenant", "--client", "ann", "-o", "name").out == "x\n"
    assert on("items", "q", "delayed", "--client", "ann", "-o", "name").out == "y\n"
    assert on("items", "q", "busy", "--min-age", "0s", "-o", "name").out == f"{claim.item.id}\n"
    assert on("items", "q", "main", "--min-age", "1h").out == "q: no item in main passes the filters\n"


def test_failed_items_are_listed_by_error_client_and_age(on: Claimq, queue: Queue) -> None:
    queue.update_policy(fairness_by="count")  # half of the items of each claim are those of ann
    queue.enqueue_many([NewItem("x", id=f"i{n}", client="ann" if n % 2 else None) for n in range(600)])
    for _ in range(3):
        queue.fail(queue.claim(100, wait=0), "Timeout: 5 s", permanent=True)
    while claims := queue.claim(100, wait=0):
        queue.fail(claims, "refused", permanent=True)
    lines = [
        on("items", "q", "failed", *words, "-o", "name").out.split()
        for words in (
            ["--error", "TIMEOUT", "--limit", "1000"],
            ["--error", "refused", "--limit", "5", "--offset", "1"],
            ["--error", "refused", "--client", "ann", "--limit", "1000"],
            ["--min-age", "1h"],
        )
    ]
    assert [len(one) for one in lines] == [300, 5, 150, 0]
    everything = [one.name for one in queue.failed_items(1000)]
    assert lines[1] == everything[301:306]
    assert set(lines[0]) == set(everything[:300])
    assert all(int(name[1:]) % 2 for name in lines[2])
    assert on("items", "q", "failed", "--min-age", "1h").out == "q: no item in failed passes the filters\n"


def test_an_item_of_a_paused_queue_can_be_removed(on: Claimq, queue: Queue) -> None:
    queue.pause()
    assert on("item", "remove", "q", "b").code == 0
    assert [item.id for item in queue.peek(9)] == ["a"]


def test_the_two_queues_of_a_move_differ_and_exist(on: Claimq, queue: Queue) -> None:
    assert on("item", "move", "q", "q", "a").err == "claimq: NAME and TARGET are the same queue\n"
    assert "there is no queue qq on this server" in on("item", "move", "q", "qq", "a").err
    assert queue.length() == 2


def test_a_claim_that_ends_at_the_same_time_is_reported(valkey: Server, queue: Queue) -> None:
    token = getattr(bring(queue, "busy"), "token", "")

    class Late(claimq.ReliableQueue):
        async def fail(self, *args: Any, **options: Any) -> Any:
            await self.done(token)
            return await super().fail(*args, **options)

    async def cancel() -> None:
        async with open_queue(valkey.url) as late:
            late.__class__ = Late
            await change_item(admin_of(late, "ann"), "x", ItemChange("cancel", "no"))

    with pytest.raises(CommandError, match="x changed its state at the same time; try again"):
        asyncio.run(cancel())


def test_a_move_keeps_another_item_of_the_same_id(valkey: Server, queue: Queue) -> None:
    queue.drop(queue.claim(2), "not needed")
    queue.set_policy(Policy(id_window=1))
    queue.enqueue("old", id="x")

    class Late(claimq.ReliableQueue):
        async def claim_item(self, *args: Any, **options: Any) -> Any:
            await self.done(await self.claim())  # a worker is faster, and a producer enqueues the same id
            async with asyncio.timeout(PATIENCE):
                while (await self.enqueue("new", id="x")).is_duplicate:  # noqa: ASYNC110 - the id window ends
                    await asyncio.sleep(0.1)
            return await super().claim_item(*args, **options)

    async def move() -> None:
        async with open_server(valkey.url) as server:
            late, other = server.queue("q", worker="w2"), server.queue("other")
            late.__class__ = Late
            await change_item(admin_of(late, "ann", admin_of(other, "ann")), "x", ItemChange("move"))
            assert texts(await other.peek(2)) == ["new"]

    asyncio.run(move())
