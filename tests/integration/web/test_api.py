"""The API of the page for programs: what it reads and changes for the user of a token, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import claimq.blocking as claimq_library
from claimq import NewItem
from claimq.blocking import BlockingQueue as Queue
from testkit.programs.forked import run_forked
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.web.page_user import FORM

TOKEN = "0123456789abcdef0123"
GOOD = {"Authorization": f"Bearer {TOKEN}"}
JSON = "application/json"


class Program:
    """A program with the token of ann."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def send(
        self, path: str, body: str | None = None, kind: str = FORM, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and document of an answer; with a body to a POST."""
        given = {**(GOOD if headers is None else headers), **({} if body is None else {"Content-Type": kind})}
        method = "GET" if body is None else "POST"
        answer = self.page.get(f"/api/v1/{path}", method=method, body=body, headers=given)
        return answer.status, json.loads(answer.text)

    def read(self, path: str) -> Any:
        status, document = self.send(path)
        assert status == 200, document
        return document

    def change(self, path: str, **form: str) -> Any:
        status, document = self.send(path, urlencode(form))
        assert status == 200, document
        return document

    def ended(self, run: str) -> Any:
        """The progress of a change when it has ended."""

        def progress() -> Any:
            found = self.read(f"queues/q/runs/{run}")
            return None if found["state"] in ("running", "stopping") else found

        return eventually_sync(progress)


@pytest.fixture
def queue(valkey: Server) -> Any:
    """`q` with items in every state, and an empty queue `other`."""
    with claimq_library.connect(settings=patient(valkey.url)) as server:
        queue = server.queue("q", worker="w1")
        queue.enqueue_many([NewItem("x" * 100, id=f"f{n:02}", client="ann") for n in range(12)])
        queue.fail(queue.claim(12, wait=0), "Timeout: 5 s", permanent=True)
        queue.enqueue("b", id="busy", client="bob")
        queue.claim(1, wait=0)
        options: Any = {"headers": {"h": "1"}, "deadline": 4e9, "max_requeues": 2, "priority": "low"}
        queue.enqueue_many(
            [
                NewItem(b'\x00\xff{"a": 1}', id="bytes"),
                NewItem({"a": [1]}, id="json", client="ann", **options),
            ]
        )
        queue.enqueue("later", id="later", delay=3600)
        server.queue("other").pause()
        for one in (queue, server.queue("other")):
            one.add_to_index()
        yield queue


@pytest.fixture
def start_program(start_page: Any, queue: Queue, tmp_path: Path) -> Callable[..., Program]:
    """Starts a page of the user ann with these arguments."""
    users = tmp_path / "users"
    users.write_text(f"ann {TOKEN}\n")
    users.chmod(0o600)
    return lambda *arguments: Program(start_page("--users", str(users), *arguments))


@pytest.fixture
def program(start_program: Callable[..., Program]) -> Program:
    """A program that uses a page with actions."""
    return start_program("--actions")


def test_reads_have_the_documents_that_the_commands_print(program: Program, valkey: Server) -> None:
    program.change("queues/other", action="resume")
    for path, field, words in (
        ("queues/q/items?state=delayed", "items", ("items", "q", "delayed")),
        ("queues/q/items?state=failed&limit=3&offset=2", "items", ("items", "q", "failed", "--limit=3", "--offset=2")),
        ("queues/q/clients", "clients", ("clients", "q")),
        ("queues/q/workers", "workers", ("workers", "q")),
        ("queues/q/removed", "items", ("failed", "removed", "q")),
        ("queues/other/audit", "records", ("audit", "other")),
        ("queues/q/policy", "policy", ("policy", "q")),
        ("queues/q/status", "lengths", ("status", "q")),
    ):  # fmt: skip
        printed = run_forked("claimq_cli", *words, "-o", "json", "--redis", valkey.url).stdout
        assert program.read(path)[field] == json.loads(printed)[field], path
    waiting = program.read("queues/q/items?client=ann")["items"]
    assert [(one["item"]["id"], one["item"]["payload"]) for one in waiting] == [("json", {"a": [1]})]
    found = program.read("queues/q/item?id=bytes")["found"]
    assert (found["state"], found["item"]["payload_base64"]) == ("main", "AP97ImEiOiAxfQ==")
    assert (found["waits"]["reason"], found["waits"]["ahead"]) == ("no_worker", {"least": 0, "most": 0})
    assert program.read("queues/q/item?id=nothing")["found"] is None
    assert program.read("queues") == {"queues": ["other", "q"]}


def test_single_items_and_queues_are_changed_and_recorded_for_the_user_of_the_token(
    program: Program, queue: Queue
) -> None:
    for form, message in (
        ({"id": "json", "action": "cancel", "because": "no"}, "json cancelled; it is in failed now"),
        ({"id": "later", "action": "requeue"}, "later requeued"),
        ({"id": "bytes", "action": "move", "target": "other"}, "bytes moved to other"),
        ({"id": "later", "action": "remove"}, "later removed"),
        ({"id": "f00", "action": "requeue"}, "f00 requeued"),
    ):
        assert program.change("queues/q/item", **form)["message"] == message
    status, refused = program.send("queues/q/item", "id=nothing&action=remove")
    assert (status, "q has no item nothing" in refused["message"]) == (409, True)
    program.change("queues/q", action="pause")
    assert queue.snapshot().paused
    program.change("queues/q", action="resume")
    assert {one.actor for one in queue.audit_log(100)} == {"ann"}
    assert [item.id for item in queue.peek(9)] == ["f00"]


def test_failed_items_that_pass_are_counted_then_changed(program: Program, queue: Queue) -> None:
    dry = program.read("queues/q/selected?state=failed&error=timeout&client=ann")
    assert (dry["matching"], dry["looked_at"], dry["total"], len(dry["samples"])) == (12, 12, 12, 10)
    assert queue.audit_log() == []
    run = program.change("queues/q/failed", action="move", error="timeout", target="other", rate="1000")[
        "run"
    ]
    ended = program.ended(run)
    assert (ended["state"], ended["changed"], ended["problems"]) == ("done", 12, [])
    end, begin = queue.audit_log()
    assert (begin.actor, begin.target, end.count) == ("ann", "to other: error contains 'timeout'", 12)


def test_a_change_of_many_items_stops_on_request(program: Program, queue: Queue) -> None:
    run = program.change("queues/q/failed", action="requeue", rate="0.1")["run"]
    eventually_sync(lambda: len(queue.failed_items(100)) < 12)
    program.change(f"queues/q/runs/{run}", action="stop")
    ended = program.ended(run)
    assert (ended["state"], ended["changed"]) == ("stopped", 12 - len(queue.failed_items(100)))
    assert 0 < ended["changed"] < 12


def test_new_items_are_stored_with_their_options_and_recorded(program: Program, queue: Queue) -> None:
    new = {"payload": "new", "id": "n1", "client": "eve", "headers": {"h": "1"}, "expires_in": 3600}
    new |= {"max_requeues": 2, "priority": "high", "key": "k"}
    for duplicates in ([], ["n1"]):
        status, sent = program.send("queues/q/enqueue", json.dumps({"items": [new]}), JSON)
        assert (status, sent["ids"], sent["duplicates"]) == (200, ["n1"], duplicates), sent
    located = queue.find("n1")
    assert located
    item = located.item
    assert (item.payload, item.client, item.headers) == (b"new", "eve", {"h": "1"})
    assert (item.max_requeues, item.priority, item.key) == (2, "high", "k")
    assert item.deadline is not None
    body = json.dumps({"items": [{"payload": "x", "delay": 3600}, {"payload": "y" * 1_100_000}]})
    status, refused = program.send("queues/q/enqueue", body, JSON)
    assert (status, refused["index"], "takes at most 1048576" in refused["message"]) == (422, 1, True)
    assert queue.length("delayed") == 1
    assert program.send("queues/nothing/enqueue", json.dumps({"items": [new]}), JSON)[0] == 404
    records = [(one.actor, one.action, one.count) for one in reversed(queue.audit_log())]
    assert records == [("ann", "enqueue", count) for count in (1, 1, 2)]


def test_items_for_a_full_queue_are_refused_with_the_numbers(program: Program, queue: Queue) -> None:
    waiting = queue.length() + queue.length("delayed")
    queue.update_policy(max_waiting_items=waiting + 1)
    body = json.dumps({"items": [{"payload": "x"}, {"payload": "y"}]})
    status, refused = program.send("queues/q/enqueue", body, JSON)
    assert (status, refused["waiting"], refused["limit"]) == (429, waiting, waiting + 1)
    assert (refused["adding"], refused["stored_count"], refused["client"]) == (2, 0, None)
    assert "the queue q is full" in refused["message"]


def test_a_policy_is_changed_claims_are_released_and_items_flushed(program: Program, queue: Queue) -> None:
    changed = program.change("queues/q", action="policy", changes="requeue_limit=3 failed_max_items=100")
    assert (changed["changed"], changed["owner"]) == (["failed_max_items", "requeue_limit"], None)
    assert (queue.policy().requeue_limit, queue.policy().failed.max_items) == (3, 100)
    assert program.change("queues/q", action="release", worker="w1", interrupted="true")["unclaimed"] == 1
    for form in (
        "action=flush&state=failed",
        "action=flush&client=",
        "action=release&worker=",
        "action=policy",
        "action=policy&changes=failed_remove_min_given_up_count%3D3",
    ):
        assert program.send("queues/q", form)[0] == 400, form
    assert program.change("queues/q", action="flush", client="bob")["removed"]["main"] == 1
    flushed = program.change("queues/q", action="flush")["removed"]
    assert flushed == {"main": 2, "busy": 0, "delayed": 1, "failed": 12}
    records = [(one.actor, one.action, one.target) for one in reversed(queue.audit_log())]
    assert records == [
        ("ann", "policy", "requeue_limit=3 failed_max_items=100"),
        ("ann", "release", "worker w1, interrupted"),
        ("ann", "policy", "failed_remove_min_given_up_count=3"),
        ("ann", "flush", "client bob"),
        ("ann", "flush", ""),
    ]


def test_the_api_knows_tokens_only_and_a_foreign_site_gets_nothing(program: Program, queue: Queue) -> None:
    refused: tuple[dict[str, str], ...] = (
        {}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}, {"Cookie": f"claimq_session={TOKEN}"},
    )  # fmt: skip
    for headers in refused:
        for path, body in (("queues", None), ("queues/q/items", None), ("queues/q", "action=pause")):
            assert program.send(path, body, headers=headers)[0] == 401, headers
    assert program.send("queues", headers={**GOOD, "Origin": "http://evil.example"})[0] == 403
    assert program.send("queues/q", "action=pause", headers={**GOOD, "Origin": "null"})[0] == 403
    assert not queue.snapshot().paused
    for path, status in (
        ("queues/nothing/status", 404), ("queues/q/nothing", 404), ("queues/q/items?limit=-1", 400),
        ("queues/q/items?state=x", 400), ("queues/q/runs/x", 404), ("queues/q/items?offset=1000000001", 400),
    ):  # fmt: skip
        answered, document = program.send(path)
        assert (answered, "message" in document) == (status, True), path
    why = program.send("queues/q/items?state=x")[1]["message"]
    assert why == "state is 'x'; give one of: main, busy, delayed, failed"


def test_a_change_whose_filter_the_page_cannot_apply_changes_nothing(program: Program, queue: Queue) -> None:
    before = queue.lengths()
    for page, fields, why in (
        ("failed", "worker=w1", "this page does not know 'worker'"),
        ("failed", f"error={'x' * 2001}", "error has 2001 characters; give at most 2000"),
        ("failed", "id=f00", "this page does not know 'id'"),
        ("waiting", "id=json", "this page does not know 'id'"),
    ):
        status, refused = program.send(f"queues/q/{page}", f"action=remove&{fields}")
        assert (status, why in refused["message"]) == (400, True), refused
    assert program.send("queues/q/selected?worker=w1")[0] == 400
    status, refused = program.send("queues/q/selected?min_given_up_count=-1")
    assert (status, "min_given_up_count: '-1' is no count; give a whole number" in refused["message"]) == (
        400,
        True,
    )
    assert queue.lengths() == before
    assert queue.audit_log() == []


def test_a_page_that_only_reads_names_the_option_for_changes(
    start_program: Callable[..., Program], queue: Queue
) -> None:
    status, refused = start_program().send("queues/q", "action=pause")
    assert (status, "this page changes nothing; start it with --actions" in refused["message"]) == (403, True)
    assert not queue.snapshot().paused
