"""The bytes between the worker's client and the sidecar."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.worker import NewItem, Refused, StoreUnavailable
from claimq.worker.wire import (
    BrokenReply,
    ChunkedLines,
    cannot_connect,
    enqueue_bodies,
    fail_fields,
    read_outcomes,
    refusal,
    split_head,
    verdict_requests,
)


def test_a_head_is_read_when_it_is_complete() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    assert split_head(raw[:-7]) is None
    head, rest = split_head(raw) or (None, b"")
    assert head is not None
    assert (head.status, head.length, head.closes, rest) == (200, 3, False, b"abc")


def test_an_interim_reply_is_skipped() -> None:
    found = split_head(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )
    assert found is not None
    assert (found[0].status, found[0].closes) == (413, True)


@pytest.mark.parametrize("raw", [b"-ERR unknown\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 70_000])
def test_a_reply_that_is_not_from_a_sidecar_is_refused(raw: bytes) -> None:
    with pytest.raises(BrokenReply, match="is this socket the sidecar's"):
        split_head(raw)


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_come_out_of_chunks_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    size = data.draw(st.integers(1, 9))
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    raw = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    step = data.draw(st.integers(1, 7))
    chunked = ChunkedLines()
    got = [line for start in range(0, len(raw), step) for line in chunked.feed(raw[start : start + step])]
    assert got == [line for line in lines if line.strip()]
    assert chunked.ended


def test_many_tokens_go_in_several_requests() -> None:
    requests = verdict_requests("fail", [str(n) for n in range(2500)], {"error": "x"})
    bodies = [json.loads(body) for path, body in requests if path == "/v1/fail"]
    assert [len(body["tokens"]) for body in bodies] == [1000, 1000, 500]
    assert all(body["error"] == "x" for body in bodies)


def test_many_or_large_items_go_in_several_requests() -> None:
    assert [len(json.loads(body)["items"]) for body in enqueue_bodies(["x"] * 2500)] == [1000, 1000, 500]
    assert len(list(enqueue_bodies([b"x" * 4_000_000] * 4))) == 4
    assert list(enqueue_bodies([])) == []


def test_payloads_are_written_by_their_type() -> None:
    (body,) = enqueue_bodies([b"\xff", "t", {"a": 1}, [1], NewItem(b"", id="i", client="c", delay=2)])
    assert json.loads(body)["items"] == [
        {"payload_base64": "/w=="},
        {"text": "t"},
        {"payload": {"a": 1}},
        {"payload": [1]},
        {"payload_base64": "", "id": "i", "client": "c", "delay": 2},
    ]


def test_a_reason_is_text_that_can_be_sent() -> None:
    assert fail_fields(ValueError("no"), permanent=True) == {
        "error": "ValueError: no",
        "delay": None,
        "permanent": True,
    }
    assert fail_fields("\ud800", permanent=False)["error"] == "?"
    assert fail_fields("", permanent=False)["error"] == "no reason given"
    assert len(str(fail_fields("x" * 9000, permanent=False)["error"])) == 1000


def test_an_exception_brings_its_last_frames() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        detail = str(fail_fields(error)["detail"])
    assert detail.startswith(__file__)
    assert detail.endswith("in test_an_exception_brings_its_last_frames")
    assert "detail" not in fail_fields("no")


def test_a_delay_may_be_a_timedelta_and_an_instant_is_refused() -> None:
    (body,) = enqueue_bodies([NewItem("a", delay=timedelta(minutes=1))])
    assert json.loads(body)["items"] == [{"text": "a", "delay": 60.0}]
    with pytest.raises(TypeError, match="give delay="):
        list(enqueue_bodies([NewItem("a", at=1.0)]))


def test_a_repetition_of_our_own_returns_the_first_outcome() -> None:
    reply = {"outcomes": [{"token": "w/1", "outcome": "already_done", "earlier": "requeued"}]}
    assert read_outcomes(reply, repeated=True)[0].verdict == "requeued"
    (outcome,) = read_outcomes(reply, repeated=False)
    assert (outcome.verdict, outcome.earlier) == ("already_done", "requeued")


def test_refusals_differ_by_what_to_do() -> None:
    problem = {
        "type": "urn:claimq:problem:invalid-field",
        "detail": "d",
        "errors": [{"pointer": "/a", "detail": "b"}],
    }
    refused = refusal(400, json.dumps(problem).encode())
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.errors) == ("invalid-field", (("/a", "b"),))
    assert isinstance(refusal(503, b"{}"), StoreUnavailable)
    assert isinstance(refusal(500, b"<html>"), Refused)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (FileNotFoundError(2, "x"), "there is no socket at /s"),
        (ConnectionRefusedError(111, "x"), "no process answers on the socket /s"),
        (PermissionError(13, "x"), "in the group of the sidecar"),
        (OSError(5, "strange"), "strange"),
    ],
)
def test_an_error_says_why_no_sidecar_answers(error: OSError, says: str) -> None:
    assert says in cannot_connect("/s", error)
