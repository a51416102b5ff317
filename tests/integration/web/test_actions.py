"""Changes on the web page: the login, what each action does, and what is refused."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from claimq import NewItem
from claimq.blocking import BlockingQueue
from claimq.waiting.texts import instant_text
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.web.page_user import FORM, PageUser

CHANGES = [
    ("/queues/media", {"action": "pause"}),
    ("/queues/media/item", {"action": "cancel", "id": "waits"}),
    ("/queues/media/item", {"action": "remove", "id": "waits"}),
    ("/queues/media/item", {"action": "move", "id": "waits", "target": "other"}),
    ("/queues/media/failed", {"action": "requeue"}),
    ("/queues/media/failed", {"action": "remove"}),
    ("/queues/media/waiting", {"action": "cancel"}),
]
WITHOUT_SENSE: list[tuple[str, dict[str, str], int]] = [
    ("/queues/media", {"action": "explode"}, 400),
    ("/queues/media", {"action": "drain", "worker": "w1"}, 403),
    ("/queues/media/item", {"action": "", "id": "waits"}, 400),
    ("/queues/media/item", {"action": "requeue", "id": "waits", "delay": "soon"}, 400),
    ("/queues/media/item", {"action": "move", "id": "waits", "target": "nothing"}, 404),
    ("/queues/media/item", {"action": "move", "id": "waits", "target": "media"}, 400),
    ("/queues/media/item", {"action": "move", "id": "waits", "target": "a b"}, 404),
    ("/queues/media/failed", {"action": "requeue", "rate": "nan"}, 400),
    ("/queues/media/failed", {"action": "requeue", "rate": "-1"}, 400),
    ("/queues/media/failed", {"action": "requeue", "min_age": "soon"}, 400),
    ("/queues/media/failed", {"action": "cancel"}, 400),
    ("/queues/media/failed", {"action": "requeue", "max_given_up_count": "1000000001"}, 400),
    ("/queues/media/item", {"action": "cancel", "id": "waits", "error": "no"}, 400),
    ("/queues/media/busy", {"action": "requeue"}, 404),
    ("/queues/media/runs/none", {}, 404),
]


def contents(queue: BlockingQueue) -> dict[str, int]:
    return {state.value: number for state, number in queue.lengths().items()} | {
        "paused": int(queue.snapshot().paused)
    }


@pytest.mark.parametrize(
    ("what", "headers"),
    [
        ("no session", {}),
        ("no form token", {}),
        ("a wrong form token", {}),
        ("another site", {"Sec-Fetch-Site": "cross-site"}),
        (
            "a link",
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        ),
        ("a foreign origin", {"Origin": "http://evil.example"}),
        ("an unknown origin", {"Origin": "null"}),
    ],
)
def test_a_change_without_session_token_or_origin_is_refused_and_nothing_changes(
    user: PageUser, queue: BlockingQueue, what: str, headers: dict[str, str]
) -> None:
    before = contents(queue)
    if what == "no session":
        user.cookie = user.cookie.partition("=")[0] + "=x"
    if what.endswith("form token"):
        user.form_token = user.form_token[::-1] if what.startswith("a wrong") else ""
    for path, form in CHANGES:
        assert user.post(path, form, headers).status == 403, form
    assert contents(queue) == before
    assert queue.audit_log() == []


def test_a_form_token_of_another_session_does_not_help(
    page_with_actions: Any, token: str, user: PageUser
) -> None:
    user.form_token = PageUser(page_with_actions, token).form_token
    assert user.post("/queues/media", {"action": "pause"}).status == 403


def test_without_the_switch_users_log_in_and_change_nothing(
    start_page: Any, queue: BlockingQueue, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("# for reading\nann 0123456789abcdef0123\n\nbob fedcba98765432100000\n")
    users.chmod(0o600)
    user = PageUser(start_page("--users", str(users)), "fedcba98765432100000")
    text = user.get("/queues/media")
    assert "bob" in text
    assert "Pause</button>" not in text
    for path, form in CHANGES:
        assert user.post(path, form).status == 405
    assert user.send("GET", "/queues/media/selected", None, {}).status == 404


def test_a_queue_is_paused_and_resumed(user: PageUser, queue: BlockingQueue) -> None:
    assert "media is paused" in user.act("/queues/media", action="pause")
    assert queue.snapshot().paused
    assert "Resume</button>" in user.get("/queues/media")
    assert "media is not paused any more" in user.act("/queues/media", action="resume")
    assert "the client ann is paused" in user.act(
        "/queues/media", action="pause", client="ann", reason="too fast"
    )
    assert [(pause.client, pause.reason) for pause in queue.snapshot().pauses] == [("ann", "too fast")]
    page = user.get("/queues/media")
    assert "The client ann is paused by" in page
    assert "Resume ann</button>" in page
    assert "ann is not paused any more" in user.act("/queues/media", action="resume", client="ann")
    assert "the key acme is paused" in user.act("/queues/media", action="pause", key="acme")
    assert "Resume acme</button>" in user.get("/queues/media")
    assert "acme is not paused any more" in user.act("/queues/media", action="resume", key="acme")
    assert not queue.snapshot().pauses
    assert not queue.snapshot().paused


def test_the_page_shows_who_paused_a_queue_why_and_until_when(user: PageUser, queue: BlockingQueue) -> None:
    user.act("/queues/media", action="pause", reason="new <schema> of Ann", **{"for": "1h"})
    pause = queue.snapshot().pause
    assert pause is not None
    assert pause.until is not None
    assert (pause.reason, round(pause.until - (pause.at or 0))) == ("new <schema> of Ann", 3600)
    text = user.get("/queues/media")
    assert f"Paused by {pause.by} since {instant_text(pause.at or 0)} until " in text
    assert "(new &lt;schema&gt; of Ann); to end it now" in text
    assert text.count('<p class="warn">Paused') == 1
    answer = user.post("/queues/media", {"action": "pause", "for": "10"})
    assert (answer.status, "has no unit" in answer.text) == (400, True)


def test_each_action_on_an_item_does_what_the_command_does(user: PageUser, queue: BlockingQueue) -> None:
    path = "/queues/media/item"
    assert "bytes is next" in user.act(path, id="bytes", action="run-now")
    assert queue.peek(1)[0].id == "bytes" or queue.peek(2)[1].id == "bytes"
    text = user.act(path, id="waits", action="cancel", because="withdrawn")
    assert "<strong>failed</strong>" in text
    assert "withdrawn" in text
    assert "later requeued" in user.act(path, id="later", action="requeue")
    assert "<strong>delayed</strong>" in user.act(path, id="later", action="requeue", delay="1h")
    assert "bytes moved to other" in user.act(path, id="bytes", action="move", target="other")
    assert "later removed" in user.act(path, id="later", action="remove")
    assert "not done: media has no item nothing" in user.act(
        "/queues/media/item", id="nothing", action="remove"
    )
    assert [one.item.id for one in queue.removed_items()] == ["later"]
    done = [(one.action, one.target) for one in reversed(queue.audit_log())]
    assert done == [
        ("run-now", "bytes"), ("cancel", "waits"), ("requeue", "later"), ("requeue", "later"),
        ("move", "bytes to other"), ("remove", "later"), ("remove", "nothing"), ("remove: not done", "nothing"),
    ]  # fmt: skip
    assert len({one.actor for one in queue.audit_log()}) == 1


def test_a_form_that_makes_no_sense_is_refused_and_changes_nothing(
    user: PageUser, queue: BlockingQueue
) -> None:
    before = contents(queue)
    for path, form, status in WITHOUT_SENSE:
        assert user.post(path, form).status == status, form
    twice = f"form_token={user.form_token}&action=remove&client=ann&client="
    answer = user.send("POST", "/queues/media/waiting", twice, {"Content-Type": FORM})
    assert (answer.status, "is given twice" in answer.text) == (400, True)
    twice = user.send("GET", "/queues/media/selected?state=waiting&client=ann&client=", None, {})
    assert (twice.status, "is given twice" in twice.text) == (400, True)
    assert contents(queue) == before
    assert queue.audit_log() == []
    assert user.post("/queues/nothing", {"action": "pause"}).status == 404


def test_bodies_that_are_no_small_form_are_refused(user: PageUser) -> None:
    assert user.post("/queues/media", {"action": "x" * 65_536}).status == 413
    assert user.post("/queues/media", {str(n): "x" for n in range(30)}).status == 400
    assert user.post("/queues/media", {}, {"Content-Type": "text/plain"}).status == 415
    assert user.send("POST", "/queues/media", b"\xff", {"Content-Type": FORM}).status == 400
    host, port = user.host.split(":")
    for length in ("", f"Content-Type: {FORM}\r\nContent-Length: 1\r\n"):
        with socket.create_connection((host, int(port))) as raw:
            head = f"POST /login HTTP/1.1\r\nHost: {user.host}\r\n{length}Transfer-Encoding: chunked\r\n\r\n"
            raw.sendall(head.encode() + b"1\r\nx\r\n0\r\n\r\n")
            assert b" 411 " in raw.recv(100)


def test_a_form_that_never_arrives_is_given_up(user: PageUser) -> None:
    host, port = user.host.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as raw:
        head = f"POST /login HTTP/1.1\r\nHost: {user.host}\r\nContent-Type: {FORM}\r\nContent-Length: 10\r\n\r\nab"
        raw.sendall(head.encode())
        assert b" 408 " in raw.recv(1000)


def test_failed_items_are_counted_before_they_are_changed(user: PageUser, queue: BlockingQueue) -> None:
    text = user.get("/queues/media/selected?error=byte+2")
    assert "<strong>1</strong> of 3 failed items pass" in text
    assert "fail2" in text
    assert queue.audit_log() == []
    assert "<strong>0</strong> of 3" in user.get("/queues/media/selected?client=ann")
    assert 'name="min_given_up_count"' in user.get("/queues/media/failed")
    assert 'name="min_given_up_count"' not in user.get("/queues/media/delayed")
    more = user.get("/queues/media/selected?min_given_up_count=1")
    assert "<strong>3</strong> of 3" in more
    assert 'type="hidden" name="min_given_up_count" value="1"' in more
    assert "<strong>0</strong> of 3" in user.get("/queues/media/selected?min_given_up_count=2")


def test_selected_failed_items_are_requeued_with_a_record(user: PageUser, queue: BlockingQueue) -> None:
    location = str(
        user.post("/queues/media/failed", {"action": "requeue", "error": "byte 2"}).headers.get("location")
    )

    def ended() -> str:
        text = user.get(location)
        assert "<dd>done</dd>" in text
        return text

    assert "<dt>changed</dt><dd>1</dd>" in eventually_sync(ended)
    assert [one.name for one in queue.failed_items()] == ["fail0", "fail1"]
    assert [(one.action, one.target, one.count) for one in queue.audit_log()] == [
        ("requeue failed: ended", "error contains 'byte 2'", 1),
        ("requeue failed", "error contains 'byte 2'", None),
    ]
    assert "requeue failed: ended" in user.get("/queues/media/audit")


def test_failed_items_are_moved_or_removed(user: PageUser, queue: BlockingQueue, valkey: Server) -> None:
    user.act("/queues/media/failed", action="move", target="other", error="byte 0")
    eventually_sync(lambda: queue.length("failed") == 2)
    with open_blocking_queue(valkey.url, "other") as other:
        assert [one.id for one in other.peek()] == ["fail0"]
    user.act("/queues/media/failed", action="remove")
    eventually_sync(lambda: queue.length("failed") == 0)


def test_an_item_that_waits_for_its_key_has_no_due_time(user: PageUser, queue: BlockingQueue) -> None:
    queue.enqueue_many([NewItem("x", key="acc/7", priority="high") for _ in range(2)])
    queue.claim(9, wait=0)
    assert ">when its key acc/7 is free</td>" in user.get("/queues/media/delayed")


def test_selected_waiting_and_delayed_items_are_changed(user: PageUser, queue: BlockingQueue) -> None:
    queue.enqueue_many([NewItem("x", id=f"ann{n}", client="ann", headers={"a": "b"}) for n in range(5)])
    text = user.get("/queues/media/selected?state=waiting&header=a%3Db")
    assert '<input type="hidden" name="header" value="a=b">' in text
    assert "<strong>5</strong> of 7 waiting items pass" in text
    assert f'action="{user.base}/queues/media/waiting"' in text
    user.act("/queues/media/waiting", action="cancel", client="ann", because="too late")
    eventually_sync(lambda: queue.length("failed") == 8)
    assert {one.item.last_error for one in queue.failed_items() if one.item.client} == {"too late"}
    assert "<strong>1</strong> of 1 delayed items pass" in user.get("/queues/media/selected?state=delayed")
    user.act("/queues/media/delayed", action="run-now")
    eventually_sync(lambda: queue.length("delayed") == 0)
    eventually_sync(lambda: len(queue.audit_log()) == 4)
    done = [(one.action, one.target, one.count) for one in reversed(queue.audit_log())]
    assert done == [
        ("cancel main", "client ann", None), ("cancel main: ended", "client ann", 5),
        ("run-now delayed", "all", None), ("run-now delayed: ended", "all", 1),
    ]  # fmt: skip
    assert user.send("GET", "/queues/media/selected?state=busy", None, {}).status == 404


def test_a_slow_change_shows_its_progress_and_is_stopped(user: PageUser, queue: BlockingQueue) -> None:
    queue.enqueue_many([NewItem("x", id=f"slow{n:03}", client="slow") for n in range(100)])
    while claims := queue.claim(100, wait=0):
        queue.fail(claims, "slow", permanent=True)
    form = {"action": "requeue", "client": "slow", "rate": "0.5"}
    location = user.post("/queues/media/failed", form).headers["location"]
    eventually_sync(lambda: queue.client_length("slow") >= 1)
    text = user.get(location)
    assert "<dd>running</dd>" in text
    assert "at most 0.5 items per second" in text
    user.act(location, action="stop")
    eventually_sync(lambda: "<dd>stopped</dd>" in user.get(location))
    requeued = queue.client_length("slow")
    assert 0 < requeued < 100
    assert queue.audit_log()[0].count == requeued
    assert user.send("GET", location.replace("media", "other"), None, {}).status == 404


def test_a_fourth_change_of_a_user_has_to_wait(user: PageUser, queue: BlockingQueue) -> None:
    form = {"action": "requeue", "client": "none", "rate": "0.1"}
    queue.enqueue_many([NewItem("x", client="none") for _ in range(20)])
    while claims := queue.claim(20, wait=0):
        queue.fail(claims, "no", permanent=True)
    locations = [user.post("/queues/media/failed", form).headers["location"] for _ in range(3)]
    refused = user.post("/queues/media/failed", form)
    assert refused.status == 503
    assert "too many changes are running" in refused.text
    for location in locations:
        user.act(location, action="stop")
    eventually_sync(lambda: user.post("/queues/media/failed", form).status == 303)


def test_what_outsiders_wrote_is_text_in_the_pages_of_actions(user: PageUser, queue: BlockingQueue) -> None:
    script = "<script>window.hit=1</script>"
    queue.record_action(script, script, script)
    for path in ("audit", f"selected?{urlencode({'error': script, 'client': script, 'reason': script})}"):
        text = user.get(f"/queues/media/{path}")
        assert "window.hit" in text
        assert script not in text
    answer = user.post("/queues/media/item", {"id": script, "action": "cancel"})
    text = user.send("GET", answer.headers["location"], None, {}).text
    assert "not done: media has no item" in text
    assert script not in text


def test_a_token_is_in_no_page_and_in_no_log(page_with_actions: Any, token: str, user: PageUser) -> None:
    for path in ("/", "/queues/media", "/queues/media/audit", "/login"):
        assert token not in user.get(path)
    assert page_with_actions.log.read_text().count(token) == 1


def test_a_limit_is_changed_for_a_time_and_shown_on_the_page(user: PageUser, queue: BlockingQueue) -> None:
    limits = {"action": "limits", "change": "set", "limit": "api:rate=1/d"}
    assert user.post("/queues/media", limits | {"limit": "api:rate=0/d"}).status == 400
    assert user.post("/queues/media", limits | {"change": "explode"}).status in (400, 409)
    assert "media has other limits now" in user.act(
        "/queues/media", **limits, **{"for": "1h", "reason": "down"}
    )
    (change,) = queue.snapshot().temporary_limits
    assert (str(change.limit), change.reason) == ("api:rate=1/d", "down")
    queue.claim(wait=0)
    assert "items wait for the limits of the queue: api:rate=1/d" in user.get("/queues/media").lower()
    assert queue.audit_log()[0].action == "limits"
    user.act("/queues/media", action="limits", change="reset")
    assert queue.snapshot().temporary_limits == ()
