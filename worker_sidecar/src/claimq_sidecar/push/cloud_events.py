"""Items as CloudEvents 1.0 over HTTP: the bytes of a request for the app. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec

from claimq.item_options import ITEM_OPTIONS, Form, ItemOption, set_options
from claimq.model import Claim, Item
from claimq_process.push import PushMode
from claimq_sidecar.http.json_text import is_json, to_json

EVENT_TYPE: Final = "dev.claimq.item"
JSON: Final = "application/json"
_CONTENT_TYPE: Final = "content-type"
_TEXT: Final = "text/plain; charset=utf-8"
_BINARY: Final = "application/octet-stream"
_STRUCTURED: Final = "application/cloudevents+json; charset=utf-8"
_BATCHED: Final = "application/cloudevents-batch+json; charset=utf-8"
_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
"""Characters of a header that stand for themselves; the rest is percent-encoded (HTTP binding, 3.1.3.2)."""


def _attribute(option: ItemOption) -> str:
    return option.name.replace("_", "")


TRACING: Final = ("traceparent", "tracestate")
"""Headers of an item that are headers of its request too (W3C Trace Context)."""
_OWN: Final = frozenset(
    ("specversion", "type", "source", "id", "time", "datacontenttype", "data", "database64", "attempt", "client",
     "requeuecount", "failcount", "crashcount", "interruptedcount", "postponedcount", "enqueuedat",
     "leaseuntil", "claimtoken", *map(_attribute, ITEM_OPTIONS))
)  # fmt: skip
"""Names that a header of an item does not get as an attribute."""

Attributes = dict[str, str | int]


class Events:
    """The requests for the items of one queue."""

    def __init__(self, path: str, mode: PushMode, queue: str) -> None:
        self._mode = mode
        self._fixed: Attributes = {
            "specversion": "1.0", "type": EVENT_TYPE, "source": f"urn:claimq:queue:{quote(queue, safe='')}"
        }  # fmt: skip
        self._begin = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n"
        self._begin_binary = self._begin + _headers(self._fixed)

    def request(self, claims: Sequence[Claim]) -> bytes:
        """The whole request: one item, or in batched mode one or more."""
        item = claims[0].item
        if self._mode is PushMode.BATCHED:
            events = b"[" + b",".join(map(self._event, claims)) + b"]"
            return _request(self._begin, _BATCHED, events)
        begin = self._begin if self._mode is PushMode.STRUCTURED else self._begin_binary
        begin += "".join([f"{name}: {value}\r\n" for name, value in item.header_pairs if name in TRACING])
        if self._mode is PushMode.STRUCTURED:
            return _request(begin, _STRUCTURED, self._event(claims[0]))
        kind = _given_kind(item) or _kind(item.payload)
        return _request(begin + _headers(_attributes(claims[0])), kind, item.payload)

    def _event(self, claim: Claim) -> bytes:
        """One item in the JSON format, with the payload unchanged if it is JSON."""
        payload, own_kind = claim.item.payload, _given_kind(claim.item)
        kind = _kind(payload)
        event: dict[str, object] = {**self._fixed, **_attributes(claim), "datacontenttype": own_kind or kind}
        is_json_type = "json" in (own_kind or kind).lower()
        if is_json_type and kind == JSON:
            event["data"] = msgspec.Raw(payload)
        elif is_json_type or kind == _BINARY:
            event["data_base64"] = payload
        else:
            event["data"] = payload.decode()
        return to_json(event)


def _request(begin: str, kind: str, body: bytes) -> bytes:
    return f"{begin}content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _attributes(claim: Claim) -> Attributes:
    """The attributes that differ between items. Names of extensions are lower-case letters and digits."""
    item = claim.item
    attributes: Attributes = {
        "id": item.id,
        "time": _instant(item.first_enqueued_at),
        "attempt": item.requeue_count + 1,
        "requeuecount": item.requeue_count,
        "failcount": item.fail_count,
        "crashcount": item.crash_count,
        "interruptedcount": item.interrupted_count,
        "enqueuedat": _instant(item.enqueued_at),
        "leaseuntil": _instant(claim.lease_until),
        "claimtoken": claim.token,
    }
    if item.postponed_count:
        attributes["postponedcount"] = item.postponed_count
    if item.client is not None:
        attributes["client"] = item.client
    for option, value in set_options(item):
        if option.form is not Form.HEADERS:
            attributes[_attribute(option)] = _instant(value) if option.form is Form.INSTANT else value
    for name, value in item.header_pairs:
        if name != _CONTENT_TYPE:
            key = name.replace("-", "")
            while key in _OWN or key in attributes:
                key = f"header{key}"
            attributes[key] = value
    return attributes


def _headers(attributes: Attributes) -> str:
    """The attributes as headers."""
    return "".join([
        f"ce-{name}: {value if isinstance(value, int) else quote(value, safe=_PLAIN)}\r\n"
        for name, value in attributes.items()
    ])  # fmt: skip


def _instant(seconds: float) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _given_kind(item: Item) -> str | None:
    """The media type of the payload that the producer has given."""
    return next((value for name, value in item.header_pairs if name == _CONTENT_TYPE), None)


def _kind(payload: bytes) -> str:
    """The media type of a payload, by its content."""
    if is_json(payload):
        return JSON
    try:
        payload.decode()
    except UnicodeDecodeError:
        return _BINARY
    return _TEXT
