"""What is wrong, broken, huge, slow or too much: refused with a reason, without effect on others."""

import json
import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.faults.raw_requests import sent
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar

PROBLEM = "urn:claimq:problem:"


def _bare(sidecar: Sidecar, raw: bytes) -> bytes:
    """Sends bytes and reads until the sidecar closes the connection."""
    return sent(sidecar.connect(), raw)


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "says"),
    [
        ("/v1/claim", b"{", 400, "not-json", "send a JSON object"),
        ("/v1/claim", b"[]", 400, "invalid-field", "the body: is not valid; give an object"),
        ("/v1/claim", b"\xff\xfe", 400, "not-json", "not UTF-8"),
        ("/v1/claim", b'{"max": NaN}', 400, "not-json", "NaN is not JSON"),
        ("/v1/enqueue", b'{"items": [{"payload": ' + b"[" * 200_000, 400, "not-json", "nested too deeply"),
        ("/v1/claim", b'{"max": 0}', 400, "invalid-field", "whole number from 1 to 1000"),
        ("/v1/claim", b'{"max": true}', 400, "invalid-field", "whole number from 1 to 1000"),
        ("/v1/claim", b'{"wait": -1}', 400, "invalid-field", "seconds from 0 to 300"),
        ("/v1/claim", b'{"wait": 1e999}', 400, "invalid-field", "seconds from 0 to 300"),
        ("/v1/claim", b'{"maximum": 1}', 400, "invalid-field", "/maximum: is unknown here; omit it"),
        ("/v1/claim", b'{"encoding": "rot13"}', 400, "invalid-field", "auto, base64, text"),
        ("/v1/claim", b'{"session": "gone"}', 409, "session-not-open", "POST /v1/session"),
        ("/v1/done", b"{}", 400, "invalid-field", "/tokens: is missing"),
        ("/v1/done", b'{"tokens": "w/1.aaaaaaaa"}', 400, "invalid-field", "/tokens: is not valid; give a list"),
        ("/v1/done", b'{"tokens": [1]}', 400, "invalid-field", "/tokens/0: is not valid; give an object, or in tokens"),
        ("/v1/done", b'{"tokens": []}', 400, "invalid-field", "/tokens: is not valid; give a list"),
        (
            "/v1/done", b'{"tokens": ["w/1.aaaaaaaa"], "enqueue": [{"text": "x"}]}',
            400, "invalid-field", "/enqueue: is unknown here",
        ),
        ("/v1/done", b'{"tokens": ["TOKEN"]}', 400, "invalid-field", "the body: a token is not that of a claim"),
        ("/v1/verdicts", b'{"done": [{"token": "TOKEN"}]}', 400, "invalid-field", "a token is not that of a claim"),
        ("/v1/fail", b'{"tokens": ["w/1.aaaaaaaa"]}', 400, "invalid-field", "/error: is missing; say why"),
        (
            "/v1/verdicts", b'{"fail": [{"token": "w/1.aaaaaaaa"}, 3]}',
            400, "invalid-field", "/fail/0/error: is missing",
        ),
        (
            "/v1/fail", b'{"tokens": ["w/1.aaaaaaaa"], "error": "x", "permanent": 1}',
            400, "invalid-field", "true or false",
        ),
        ("/v1/enqueue", b'{"items": [{}]}', 400, "invalid-field", "/items/0: give exactly one"),
        ("/v1/enqueue", b'{"items": [{"text": "a", "payload": 1}]}', 400, "invalid-field", "exactly one of payload"),
        ("/v1/enqueue", b'{"items": [{"payload_base64": "%"}]}', 400, "invalid-field", "give the bytes as a base64"),
        ("/v1/enqueue", b'{"items": [{"text": "\\ud800"}]}', 400, "invalid-field", "lone surrogates"),
        ("/v1/enqueue", b'{"items": [{"payload": [1e999, "\\ud800"]}]}', 400, "invalid-field", "use payload_base64"),
        ("/v1/enqueue", b'{"items": [{"text": "a", "id": "a b"}]}', 400, "invalid-field", "/items/0/id: is not"),
        ("/v1/enqueue", b'{"items": [{"text": "a", "client": "-"}]}', 400, "invalid-field", "but not '-' alone"),
        ("/v1/enqueue", b'{"items": {"a": 1}}', 400, "invalid-field", "/items: is not valid; give a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_body_is_reported(
    shared_sidecar: Sidecar, path: str, body: bytes, status: int, kind: str, says: str
) -> None:
    answer = shared_sidecar.ask("POST", path, body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.json["status"], answer.json["type"]) == (status, status, PROBLEM + kind)
    assert says in answer.json["detail"]


def test_a_payload_over_the_limit_of_the_queue_is_named(sidecar: Sidecar, queue: BlockingQueue) -> None:
    answer = sidecar.ask("POST", "/v1/enqueue", {"items": [{"text": "a"}, {"text": "x" * 1_100_000}]})
    assert (answer.status, answer.json["type"]) == (413, PROBLEM + "item-too-large")
    assert answer.json["errors"][0]["pointer"] == "/items/1"
    assert queue.length(State.MAIN) == 0


def test_unknown_paths_and_methods_say_what_there_is(shared_sidecar: Sidecar) -> None:
    missing = shared_sidecar.ask("GET", "/v2/claim")
    assert (missing.status, missing.json["type"]) == (404, PROBLEM + "not-found")
    assert "/v1/claim, /v1/done" in missing.json["detail"]
    wrong = shared_sidecar.ask("GET", "/v1/claim")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert shared_sidecar.ask("HEAD", "/v1/info").status == 200


def test_a_huge_body_is_refused_unread(sidecar: Sidecar) -> None:
    head = b"POST /v1/enqueue HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n"
    answer = _bare(sidecar, head + b"x" * 100_000)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"CLAIMQ_MAX_BODY" in answer


def test_a_body_that_grows_beyond_the_limit_is_refused_in_the_middle(sidecar: Sidecar) -> None:
    head = b"POST /v1/enqueue HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    before = sidecar.rss_mb
    assert _bare(sidecar, head + chunk * 40).startswith(b"HTTP/1.1 413 ")
    assert sidecar.rss_mb - before < 60


def test_a_head_without_end_is_refused(sidecar: Sidecar) -> None:
    answer = _bare(sidecar, b"GET /v1/info HTTP/1.1\r\nx: " + b"y" * 5_000_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert sidecar.info["ready"]


@pytest.mark.parametrize(
    "raw", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 100]
)
def test_what_is_not_http_gets_a_problem(shared_sidecar: Sidecar, raw: bytes) -> None:
    answer = _bare(shared_sidecar, raw)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"not-http" in answer


def test_a_thousand_connections_wait_and_others_are_served(sidecar: Sidecar, queue: BlockingQueue) -> None:
    body = b'{"wait": 300}'
    raw = b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    waiting: list[socket.socket] = []
    try:
        for _ in range(1000):
            waiting.append(sidecar.connect())
            waiting[-1].sendall(raw)
        assert sidecar.info["ready"]
        sidecar.claim(1, wait=0.5)  # when this has waited, those before it wait too
        assert len(_clients(queue)) < 40
        queue.enqueue("a")
        eventually_sync(lambda: queue.length(State.BUSY) == 1)
        assert sidecar.rss_mb < 100
    finally:
        for connection in waiting:
            connection.close()
    eventually_sync(lambda: sidecar.metric("process_open_fds") < 100)


def _clients(queue: BlockingQueue) -> list[str]:
    report: Any = queue.wrapped._connection
    listed = queue.loop.run(lambda: report.command("CLIENT", "LIST"))
    return [line for line in listed.decode().splitlines() if "name=claimq" in line]


def test_a_slow_reader_holds_up_no_other(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many([b"x" * 500_000] * 8)
    body = b'{"max": 8, "wait": 0}'
    slow = sidecar.connect()
    slow.sendall(b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    eventually_sync(lambda: queue.length(State.BUSY) == 8)
    eventually_sync(lambda: sidecar.info["in_flight"] == 8)
    queue.enqueue("y")
    assert len(sidecar.claim(1)) == 1
    slow.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 8, why="what it had not read goes back")


def test_a_client_that_breaks_off_in_its_body_is_forgotten(sidecar: Sidecar) -> None:
    connection = sidecar.connect()
    connection.sendall(b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    connection.close()
    assert sidecar.info["in_flight"] == 0
    assert "defect" not in sidecar.log_text


def test_requests_in_one_piece_are_answered_in_order(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    body = b'{"wait": 0}'
    claim = b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    last = b"GET /v1/info HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = _bare(sidecar, claim + claim + last)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert (
        answer.index(b'"payload_base64":"YQ=="') < answer.index(b'"claims":[]') < answer.index(b'"queue":"q"')
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "max",
        "wait",
        "session",
        "encoding",
        "tokens",
        "claims",
        "error",
        "permanent",
        "delay",
        "enqueue",
        "items",
        "token",
    ]
)
BODIES = st.dictionaries(FIELDS, JSON | st.lists(st.dictionaries(FIELDS | st.just("payload"), JSON)))
PATHS = st.sampled_from(
    ["/v1/claim", "/v1/done", "/v1/fail", "/v1/requeue", "/v1/unclaim", "/v1/renew", "/v1/enqueue"]
)


@settings(max_examples=150)
@given(path=PATHS, body=BODIES.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=200))
def test_no_body_makes_the_sidecar_stumble(shared_sidecar: Sidecar, path: str, body: bytes) -> None:
    if path == "/v1/claim" and b'"wait"' not in body:
        body = b'{"wait": 0, ' + body[1:]
    answer = shared_sidecar.ask("POST", path, body)
    assert answer.status in {200, 400, 409, 413}, (path, body, answer.body)
    assert answer.status == 200 or answer.json["detail"]


def test_nothing_above_was_a_defect(shared_sidecar: Sidecar, valkey: Server) -> None:
    assert "event=defect" not in shared_sidecar.log_text
