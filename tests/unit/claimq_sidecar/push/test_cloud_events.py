"""Requests with items: CloudEvents 1.0 in three modes."""

import json
from typing import Any

import pytest

from claimq.model import Claim, Item, Priority
from claimq_process.push import PushMode
from claimq_sidecar.push.cloud_events import Events


def claim(payload: bytes = b'{"url": "cat.png"}', **fields: Any) -> Claim:
    item = Item(id="order-17", payload=payload, enqueued_at=2.0, first_enqueued_at=1.25, **fields)
    return Claim("w/7.abc", item, "w", 3.0, 33.5)


def sent(mode: PushMode, *claims: Claim) -> tuple[str, dict[str, str], bytes]:
    """The request line, the headers and the body."""
    head, _, body = Events("/items", mode, "media.thumbs").request(claims).partition(b"\r\n\r\n")
    line, *fields = head.decode("ascii").split("\r\n")
    headers = dict(field.split(": ", 1) for field in fields)
    assert len(headers) == len(fields)
    assert headers.pop("host") == "localhost"
    assert int(headers.pop("content-length")) == len(body)
    return line, headers, body


ATTRIBUTES = {
    "specversion": "1.0",
    "type": "dev.claimq.item",
    "source": "urn:claimq:queue:media.thumbs",
    "id": "order-17",
    "time": "1970-01-01T00:00:01.250Z",
    "attempt": 3,
    "requeuecount": 2,
    "failcount": 1,
    "crashcount": 1,
    "interruptedcount": 4,
    "enqueuedat": "1970-01-01T00:00:02.000Z",
    "leaseuntil": "1970-01-01T00:00:33.500Z",
    "claimtoken": "w/7.abc",
    "client": "ann",
}
TRIED = claim(requeue_count=2, fail_count=1, crash_count=1, interrupted_count=4, client="ann")


def test_in_binary_mode_headers_hold_the_attributes_and_the_body_is_the_payload() -> None:
    line, headers, body = sent(PushMode.BINARY, TRIED)
    assert line == "POST /items HTTP/1.1"
    assert headers.pop("content-type") == "application/json"
    assert headers == {f"ce-{name}": str(value) for name, value in ATTRIBUTES.items()}
    assert body == b'{"url": "cat.png"}'


def test_in_structured_mode_the_body_holds_both() -> None:
    _, headers, body = sent(PushMode.STRUCTURED, TRIED)
    assert headers == {"content-type": "application/cloudevents+json; charset=utf-8"}
    data = {"datacontenttype": "application/json", "data": {"url": "cat.png"}}
    assert json.loads(body) == {**ATTRIBUTES, **data}
    assert b'"data":{"url": "cat.png"}' in body  # byte for byte


def test_in_batched_mode_the_body_is_an_array() -> None:
    _, headers, body = sent(PushMode.BATCHED, claim(b"1"), claim(b"2"))
    assert headers == {"content-type": "application/cloudevents-batch+json; charset=utf-8"}
    assert [one["data"] for one in json.loads(body)] == [1, 2]
    assert len(json.loads(sent(PushMode.BATCHED, claim())[2])) == 1


@pytest.mark.parametrize(
    ("payload", "kind", "data"),
    [
        (b"cat.png \xc3\xbc", "text/plain; charset=utf-8", {"data": "cat.png \u00fc"}),
        (b"\xff\x00", "application/octet-stream", {"data_base64": "/wA="}),
        (b"", "text/plain; charset=utf-8", {"data": ""}),
        (b"12", "application/json", {"data": 12}),
    ],
)
def test_the_media_type_follows_from_the_payload(payload: bytes, kind: str, data: dict[str, str]) -> None:
    _, headers, body = sent(PushMode.BINARY, claim(payload))
    assert (headers["content-type"], body) == (kind, payload)
    event = json.loads(sent(PushMode.STRUCTURED, claim(payload))[2])
    assert {name: event[name] for name in ("datacontenttype", *data)} == {"datacontenttype": kind, **data}


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_headers_of_an_item_are_attributes_and_trace_context_is_a_header_too() -> None:
    pairs = (("traceparent", TRACE), ("tracestate", "a=1"), ("origin-id", "x y"), ("type", "t"))
    attributes = {"traceparent": TRACE, "tracestate": "a=1", "originid": "x y", "headertype": "t"}
    item = claim(header_pairs=pairs)
    _, headers, _ = sent(PushMode.BINARY, item)
    assert (headers["traceparent"], headers["tracestate"]) == (TRACE, "a=1")
    encoded = {**attributes, "originid": "x%20y"}
    assert {name: headers[f"ce-{name}"] for name in encoded} == encoded
    assert headers["ce-type"] == "dev.claimq.item"
    _, headers, body = sent(PushMode.STRUCTURED, item)
    assert (headers["traceparent"], "origin-id" in headers) == (TRACE, False)
    assert json.loads(body).items() >= attributes.items()
    _, headers, body = sent(PushMode.BATCHED, item)
    assert "traceparent" not in headers
    assert json.loads(body)[0].items() >= attributes.items()


def test_no_header_of_an_item_takes_the_name_of_another() -> None:
    pairs = (("header-type", "1"), ("type", "2"), ("a-b", "3"), ("ab", "4"), ("a--b", "5"))
    event = json.loads(sent(PushMode.STRUCTURED, claim(header_pairs=pairs))[2])
    names = ("headertype", "headerheadertype", "ab", "headerab", "headerheaderab")
    assert [event[name] for name in names] == list("12345")
    assert event["type"] == "dev.claimq.item"


def test_a_deadline_is_an_attribute_if_there_is_one() -> None:
    _, headers, _ = sent(PushMode.BINARY, claim(deadline=12.5))
    assert headers["ce-deadline"] == "1970-01-01T00:00:12.500Z"
    assert (
        json.loads(sent(PushMode.STRUCTURED, claim(deadline=12.5))[2])["deadline"] == headers["ce-deadline"]
    )
    assert "ce-deadline" not in sent(PushMode.BINARY, claim())[1]


def test_a_priority_is_an_attribute_unless_it_is_normal() -> None:
    urgent = claim(priority=Priority.HIGH, header_pairs=(("priority", "a header"),))
    _, headers, _ = sent(PushMode.BINARY, urgent)
    assert (headers["ce-priority"], headers["ce-headerpriority"]) == ("high", "a%20header")
    event = json.loads(sent(PushMode.STRUCTURED, urgent)[2])
    assert (event["priority"], event["headerpriority"]) == ("high", "a header")
    assert "ce-priority" not in sent(PushMode.BINARY, claim())[1]


def test_an_key_is_an_attribute_if_there_is_one() -> None:
    item = claim(key="account/7", header_pairs=(("key", "a header"),))
    _, headers, _ = sent(PushMode.BINARY, item)
    assert (headers["ce-key"], headers["ce-headerkey"]) == ("account/7", "a%20header")
    assert json.loads(sent(PushMode.STRUCTURED, item)[2])["key"] == "account/7"
    assert "ce-key" not in sent(PushMode.BINARY, claim())[1]


@pytest.mark.parametrize(
    ("payload", "kind", "data"),
    [
        (b"12", "text/csv", {"data": "12"}),
        (b"12", "application/vnd.order+json", {"data": 12}),
        (b"no json", "application/json", {"data_base64": "bm8ganNvbg=="}),
        (b"\xff", "image/png", {"data_base64": "/w=="}),
    ],
)
def test_the_producer_may_set_the_media_type(payload: bytes, kind: str, data: dict[str, Any]) -> None:
    item = claim(payload, header_pairs=(("content-type", kind),))
    _, headers, body = sent(PushMode.BINARY, item)
    assert (headers["content-type"], body) == (kind, payload)
    event = json.loads(sent(PushMode.STRUCTURED, item)[2])
    assert {name: event[name] for name in ("datacontenttype", *data)} == {"datacontenttype": kind, **data}


def test_what_a_header_cannot_hold_is_percent_encoded() -> None:
    item = Item('a"b%c', b"1", 0.0, 0.0, client="x\r\ny: z \u20ac")
    _, headers, _ = sent(PushMode.BINARY, Claim("t", item, "w", 0.0, 0.0))
    assert headers["ce-id"] == "a%22b%25c"
    assert headers["ce-client"] == "x%0D%0Ay:%20z%20%E2%82%AC"
