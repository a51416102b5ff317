"""`claimq --web-api`: reads and changes of queues through a web page, by users who cannot reach their server."""

from __future__ import annotations

import http.client
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import claimq.blocking as claimq_library
from claimq import NewItem
from claimq.blocking import BlockingQueue as Queue
from testkit.processes import Process
from testkit.server import Server
from testkit.waiting import PATIENCE, eventually_sync

Claimq = Callable[..., Any]
TOKEN = "0123456789abcdef0123"
BINARY = b'\x00\xff{"a": 1}'


@pytest.fixture
def queue(valkey: Server) -> Any:
    """`q` with items in every state, and an empty queue `other`."""
    with claimq_library.connect(valkey.url) as server:
        queue = server.queue("q", worker="w1")
        queue.enqueue_many([NewItem("x" * 100, id=f"f{n:02}", client="ann") for n in range(12)])
        queue.fail(queue.claim(12, wait=0), "Timeout: 5 s", permanent=True)
        queue.enqueue("b", id="busy", client="bob")
        queue.claim(1, wait=0)
        queue.enqueue_many(
            [
                NewItem(BINARY, id="bytes"),
                NewItem(
                    {"a": [1]},
                    id="json",
                    client="ann",
                    headers={"h": "1"},
                    deadline=4e9,
                    max_requeues=2,
                    priority="low",
                ),
            ]
        )
        queue.enqueue("later", id="later", delay=3600)
        server.queue("other").pause()
        for one in (queue, server.queue("other")):
            one.add_to_index()
        yield queue


READS: tuple[tuple[str, ...], ...] = (
    ("peek", "q"), ("peek", "q", "--client", "ann"), ("items", "q", "delayed"), ("busy", "q"), ("clients", "q"),
    ("items", "q", "failed", "--limit", "3"), ("clients", "q", "ann"), ("workers", "q"), ("find", "q", "json"),
    ("failed", "list", "q", "--error", "timeout", "--offset", "2"), ("item", "show", "q", "f01"), ("audit", "q"),
    ("failed", "show", "q", "f03"), ("failed", "removed", "q"), ("find", "q", "bytes"), ("policy", "q"),
    ("failed", "export", "q", "--error", "timeout"), ("export", "q", "--state", "main", "--state", "delayed"),
)  # fmt: skip


def test_reads_through_a_page_print_what_reads_of_the_server_print(
    claimq: Claimq, through: Claimq, valkey: Server
) -> None:
    for words in READS:
        for form in ("json", "table"):
            here = claimq(*words, "-o", form, "--redis", valkey.url)
            there = through(*words, "-o", form)
            assert (there.code, there.err) == (here.code, here.err) == (0, ""), words
            if "busy for" not in here.out and '"now"' not in here.out:
                assert there.out == here.out, words
    live: tuple[tuple[str, ...], ...] = (("busy", "q"), ("status", "q"), ("status",), ("queues",))
    for words in live:
        found = [claimq(*words, "-o", "json", "--redis", valkey.url).json, through(*words, "-o", "json").json]
        for one in found:
            for queue in one.get("queues", [one]):
                for moving in ("now", "ages", "next_due_in"):
                    queue.pop(moving, None)
        assert found[0] == found[1], words
    checked = through("check", "q", "--crit-failed", "0")
    assert (checked.code, checked.out.partition(" | ")[2][:6]) == (2, "main=2")
    missing = through("find", "q", "nothing")
    assert (missing.code, missing.err.partition(":")[0]) == (1, "claimq")


def test_single_items_and_queues_are_changed_and_recorded_for_the_user_of_the_token(
    through: Claimq, queue: Queue
) -> None:
    assert through("item", "cancel", "q", "json", "--error", "no").out == (
        "q: json cancelled; it is in failed now\n"
    )
    assert through("item", "requeue", "q", "later").out == "q: later requeued\n"
    assert through("item", "move", "q", "other", "bytes").out == "q: bytes moved to other\n"
    gone = through("item", "remove", "q", "nothing", "later")
    assert (gone.code, gone.out) == (1, "q: later removed\n")
    assert "q has no item nothing" in gone.err
    failed = through("failed", "requeue", "q", "f00", "nothing", "-o", "json")
    assert (failed.code, failed.json["requeued"], failed.json["missing"]) == (1, 1, ["nothing"])
    assert through("pause", "q").out == "q: paused\n"
    assert queue.snapshot().paused
    assert through("resume", "q").out == "q: resumed\n"
    assert {one.actor for one in queue.audit_log(100)} == {"ann"}
    assert [item.id for item in queue.peek(9)] == ["f00"]


def test_failed_items_that_pass_are_counted_then_changed_by_the_page(through: Claimq, queue: Queue) -> None:
    dry = through("failed", "requeue", "q", "--all", "--error", "timeout", "--client", "ann", "--dry-run")
    assert dry.err == "claimq: q: 12 items would be changed; nothing was (--dry-run)\n"
    assert len(dry.out.splitlines()) == 12
    assert queue.audit_log() == []
    empty = through("failed", "remove", "q", "--all", "--yes", "--client", "")
    assert (empty.code, "'--client': it is empty" in empty.err) == (2, True), empty.err
    assert queue.length("failed") == 12
    asked = through("failed", "remove", "q", "--all")
    assert (asked.code, "confirm it with --yes" in asked.err) == (2, True)
    moved = through("failed", "move", "q", "--all", "--error", "timeout", "--to", "other", "--rate", "1000")
    assert (moved.code, moved.out) == (0, "q: 12 items moved\n")
    ended, begun = queue.audit_log()
    assert (begun.actor, begun.target, ended.count) == ("ann", "to other: error contains 'timeout'", 12)
    assert through("item", "cancel", "q", "--all", "--state", "main", "--client", "ann").out == (
        "q: 1 item cancelled\n"
    )


def test_new_items_go_through_the_page_and_are_recorded(
    through: Claimq, queue: Queue, tmp_path: Path
) -> None:
    own = ["--id", "n1", "--client", "eve", "--header", "h=1", "--expires-in", "1h", "--max-requeues", "2"]
    own += ["--priority", "high", "--exclusive-key", "k"]
    for duplicates in ([], ["n1"]):
        sent = through("enqueue", "q", "new", *own, "-o", "json")
        assert (sent.code, sent.json["ids"], sent.json["duplicates"]) == (0, ["n1"], duplicates), sent.err
    found = queue.find("n1")
    assert found
    assert (found.item.payload, found.item.client, found.item.headers) == (b"new", "eve", {"h": "1"})
    item = found.item
    assert (item.max_requeues, item.priority, item.exclusive_key) == (2, "high", "k")
    assert item.deadline is not None
    assert "1 item enqueued, delayed until" in through("enqueue", "q", "x", "--delay", "1h").out
    assert queue.length("delayed") == 2
    lines = tmp_path / "lines"
    lines.write_bytes(b"1\n\n\xff\n3\n")
    assert through("enqueue", "q", "--lines", str(lines), "--id-prefix", "l").out == (
        "q: 3 items enqueued, 6 in main\n"
    )
    assert [queue.find(f"l{n}").item.payload for n in (1, 3, 4)] == [b"1", b"\xff", b"3"]  # type: ignore[union-attr]  # they are there
    for size, why in ((1_100_000, "takes at most 1048576"), (4_000_000, "items of about 3 MB at most")):
        lines.write_bytes(b"x" * size)
        refused = through("enqueue", "q", "--file", str(lines))
        assert (refused.code, why in refused.err) == (4, True), refused.err
    lines.write_bytes(b"1\n")
    nowhere = through("enqueue", "nothing", "--lines", str(lines))
    assert (nowhere.code, "there is no queue nothing" in nowhere.err) == (1, True)
    assert nowhere.err.endswith("0 enqueued; continue with --from-line 1\n")
    records = [(one.actor, one.action, one.count) for one in queue.audit_log()]
    assert records == [("ann", "enqueue", count) for count in (1, 3, 1, 1, 1)]


def test_a_policy_is_changed_claims_are_released_and_items_flushed_through_the_page(
    through: Any, queue: Queue
) -> None:
    changed = through("policy", "q", "requeue_limit=3", "failed_max_items=100", "-o", "json")
    assert (changed.json["changed"], changed.json["owner"]) == (["failed_max_items", "requeue_limit"], None)
    assert (queue.policy().requeue_limit, queue.policy().failed.max_items) == (3, 100)
    wrong = through("policy", "q", "failed_remove_min_given_up_count=3")
    assert (wrong.code, "set both in one call" in wrong.err) == (2, True), wrong.err
    assert through("release", "q", "w1", "--interrupted").out == "q: 1 item given back (1 unclaimed)\n"
    assert "w1 holds no claim" in through("release", "q", "w1").err
    good = {"Authorization": f"Bearer {TOKEN}"}
    for form in (
        "action=flush&state=failed",
        "action=flush&client=",
        "action=release&worker=",
        "action=policy",
    ):
        assert request(through.address, "queues/q", "POST", form, **good)[0] == 400, form
    assert through("flush", "q").code == 2
    assert len(queue.audit_log()) == 4
    assert through("flush", "q", "--client", "bob", "--yes").out == "q: 1 item removed\n"
    flushed = through("flush", "q", "--yes", "-o", "json").json["removed"]
    assert flushed == {"main": 2, "busy": 0, "delayed": 1, "failed": 12}
    records = [(one.actor, one.action, one.target) for one in reversed(queue.audit_log())]
    assert records == [
        ("ann", "policy", "requeue_limit=3 failed_max_items=100"),
        ("ann", "policy", "failed_remove_min_given_up_count=3"),
        ("ann", "release", "worker w1, interrupted"),
        ("ann", "release", "worker w1"),
        ("ann", "flush", "client bob"),
        ("ann", "flush", ""),
    ]


def test_a_signal_stops_the_change_on_the_page(through: Any, queue: Queue, tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ["failed", "requeue", "q", "--all", "--rate", "0.1", "--web-api", through.address]
    env = {"CLAIMQ_WEB_TOKEN": TOKEN}
    process = Process([sys.executable, "-m", "claimq_cli", *words], log=log, env=env)
    eventually_sync(lambda: len(queue.failed_items(100)) < 12)
    process.send(signal.SIGINT)
    assert process.wait() == 130
    assert 0 < len(queue.failed_items(100)) < 12
    assert "interrupted after" in log.read_text()
    ended, _ = queue.audit_log()
    assert ended.count == 12 - len(queue.failed_items(100))


def request(
    address: str, path: str, method: str = "GET", form: str = "action=pause", **headers: str
) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
    body = form if method == "POST" else None
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
    connection.request(method, f"/api/v1/{path}", body, {**kind, **headers})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_the_api_knows_tokens_only_and_a_foreign_site_gets_nothing(through: Any, queue: Queue) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    assert json.loads(request(through.address, "queues", **good)[1]) == {"queues": ["other", "q"]}
    refused: tuple[dict[str, str], ...] = (
        {}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}, {"Cookie": f"claimq_session={TOKEN}"},
    )  # fmt: skip
    for headers in refused:
        for path, method in (("queues", "GET"), ("queues/q/items", "GET"), ("queues/q", "POST")):
            assert request(through.address, path, method, **headers)[0] == 401, headers
    assert request(through.address, "queues", **good, Origin="http://evil.example")[0] == 403
    assert request(through.address, "queues/q", "POST", **good, Origin="null")[0] == 403
    assert not queue.snapshot().paused
    for path, status in (
        ("queues/nothing/status", 404), ("queues/q/nothing", 404), ("queues/q/items?limit=-1", 400),
        ("queues/q/items?state=x", 400), ("queues/q/runs/x", 404), ("queues/q/items?offset=1000000001", 400),
    ):  # fmt: skip
        status_found, text = request(through.address, path, **good)
        assert (status_found, "message" in json.loads(text)) == (status, True), path
    said = json.loads(request(through.address, "queues/q/items?state=x", **good)[1])["message"]
    assert said == "state is 'x'; give one of: main, busy, delayed, failed"


def test_a_change_whose_filter_the_page_cannot_apply_changes_nothing(through: Any, queue: Queue) -> None:
    good, before = {"Authorization": f"Bearer {TOKEN}"}, queue.lengths()
    for page, fields, why in (
        ("failed", "worker=w1", "this page does not know 'worker'"),
        ("failed", f"error={'x' * 2001}", "error has 2001 characters; give at most 2000"),
        ("failed", "id=", "an id names a failed item here"),
        ("waiting", "id=json", "an id names a failed item here"),
    ):
        status, text = request(through.address, f"queues/q/{page}", "POST", f"action=remove&{fields}", **good)
        assert (status, why in text) == (400, True), text
    assert request(through.address, "queues/q/selected?worker=w1", **good)[0] == 400
    status, text = request(through.address, "queues/q/selected?min_given_up_count=-1", **good)
    assert (status, "min_given_up_count: '-1' is no count; give a whole number" in text) == (400, True), text
    assert queue.lengths() == before
    assert queue.audit_log() == []


def test_errors_of_a_page_say_what_to_do(
    claimq: Claimq, start_page: Callable[..., str], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = start_page()
    unknown = claimq("peek", "q", "--web-api", address)
    assert (unknown.code, "send a token that this page knows" in unknown.err) == (4, True)
    monkeypatch.setenv("CLAIMQ_WEB_TOKEN", TOKEN)
    assert claimq("peek", "q", "--web-api", address).code == 0
    read_only = claimq("pause", "q", "--web-api", address)
    assert (read_only.code, "this page changes nothing; start it with --actions" in read_only.err) == (
        4,
        True,
    )
    for words, why in (
        (("peek", "q", "--web-api", "http://queues.example.com"), "the token would be sent unencrypted"),
        (("peek", "q", "--web-api", "queues.example.com"), "not the address of a page"),
        (("peek", "q", "--web-api", "svc/x"), "write svc/NAMESPACE/NAME"),
        (("peek", "q", "--web-api", address, "--redis", "redis://x"), "does not go with --redis"),
        (("delete", "q", "--web-api", address), "kubectl delete reliablequeue NAME"),
        (("failed", "export", "q", "--to", "x", "--remove", "--web-api", address), "omit --remove"),
    ):
        answer = claimq(*words)
        assert (answer.code, why in answer.err) == (2, True), words
    for more in (("--web-api", "svc/x"), ("--web-api", address, "--warn-memory", "80")):
        answer = claimq("check", "q", *more)
        assert (answer.code, answer.out.partition(" - ")[0], answer.err) == (3, "UNKNOWN", ""), more
    monkeypatch.setenv("CLAIMQ_WEB_TOKEN", f"{TOKEN}\n")
    assert claimq("peek", "q", "--web-api", address).code == 0
    monkeypatch.setenv("CLAIMQ_WEB_TOKEN", f"{TOKEN}\nx")
    wrong = claimq("peek", "q", "--web-api", address)
    assert (wrong.code, TOKEN in wrong.err) == (2, False)
    assert "another character that no token has" in wrong.err
    monkeypatch.setenv("CLAIMQ_WEB_TOKEN", TOKEN)
    nowhere = claimq("peek", "q", "--web-api", "http://127.0.0.1:1")
    assert (nowhere.code, "does not answer" in nowhere.err) == (3, True)


KUBECTL = """#!{python}
import json, sys, time
if sys.argv[1] == "port-forward":
    assert "service/claimq-web" in sys.argv and "--namespace=claimq" in sys.argv, sys.argv
    print("Forwarding from 127.0.0.1:{port} -> 7380", flush=True)
    time.sleep(600)
assert sys.argv[1:3] == ["config", "view"], sys.argv
print(json.dumps({{"users": [{{"user": {user}}}], "contexts": [{{"context": {{"namespace": "shop"}}}}]}}))
"""
LOGINS: tuple[dict[str, Any], ...] = (
    {"token": TOKEN},
    {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", 'echo "{\\"status\\": {\\"token\\": \\"$MINE\\"}}"'],
            "env": [{"name": "MINE", "value": TOKEN}],
        }
    },
)


def test_the_page_of_a_service_gets_the_token_of_kubectl_through_a_forwarded_port(
    claimq: Claimq,
    start_page: Callable[..., str],
    valkey: Server,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with claimq_library.connect(valkey.url) as server:
        for name in ("shop.orders", "other.orders"):
            server.queue(name).pause()
            server.queue(name).add_to_index()
    port = urlsplit(start_page()).port
    kubectl = tmp_path / "kubectl"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def install(user: dict[str, Any]) -> None:
        kubectl.write_text(KUBECTL.format(python=sys.executable, port=port, user=repr(user)))
        kubectl.chmod(0o755)

    for user in LOGINS:
        install(user)
        shown = claimq("status", "--web-api", "svc/claimq/claimq-web", "-n", "", "-o", "name")
        assert (shown.code, shown.out) == (0, "orders\n"), shown.err
        assert claimq("status", "orders", "--web-api", "svc/claimq/claimq-web", "-n", "other").code == 0
    install({"client-certificate-data": "x"})
    refused = claimq("status", "--web-api", "svc/claimq/claimq-web")
    assert (refused.code, "the user of kubectl has no token" in refused.err) == (4, True)
