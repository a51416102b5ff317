"""Claims and outcomes as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from claimq.model import Claim, Enqueued, Outcome
from claimq_sidecar.json_size import has_too_many_values

_quote = json.encoder.encode_basestring_ascii


def claims_body(claims: Iterable[Claim], encoding: str, *, draining: bool) -> bytes:
    """The reply to a claim. With encoding ``auto`` a payload that is JSON stands in it as it is, byte for byte."""
    parts = [_claim(claim, encoding) for claim in claims]
    return b'{"claims":[%s],"draining":%s}\n' % (b",".join(parts), b"true" if draining else b"false")


def _claim(claim: Claim, encoding: str) -> bytes:
    item = claim.item
    head = (
        f'{{"token":{_quote(claim.token)},"id":{_quote(item.id)}'
        f',"client":{"null" if item.client is None else _quote(item.client)}'
        f',"requeue_count":{item.requeue_count},"fail_count":{item.fail_count}'
        f',"crash_count":{item.crash_count},"interrupted_count":{item.interrupted_count}'
        f',"enqueued_at":{item.enqueued_at!r},"first_enqueued_at":{item.first_enqueued_at!r}'
        f',"claimed_at":{claim.claimed_at!r},"lease_until":{claim.lease_until!r},'
    )
    return head.encode("ascii") + _payload(item.payload, encoding) + b"}"


def _payload(payload: bytes, encoding: str) -> bytes:
    if encoding == "auto" and is_json(payload):
        return b'"payload":' + payload
    if encoding == "text":
        try:
            return b'"text":' + _quote(payload.decode()).encode("ascii")
        except UnicodeDecodeError:
            pass
    return b'"payload_base64":"' + base64.b64encode(payload) + b'"'


def is_json(payload: bytes) -> bool:
    """Whether the bytes are one JSON value in UTF-8 that any parser will read, and not one of very many values."""
    if has_too_many_values(payload):
        return False
    try:
        json.loads(payload.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> object:
    raise ValueError(name)


def outcome_of(outcome: Outcome) -> dict[str, object]:
    """One outcome; fields that say nothing are left out."""
    whole: dict[str, object] = {"token": outcome.token, "outcome": outcome.verdict.value}
    if outcome.id is not None:
        whole["id"] = outcome.id
    if outcome.delay is not None:
        whole["delay"] = outcome.delay
    if outcome.lease_until is not None:
        whole["lease_until"] = outcome.lease_until
    return whole


def already(token: str, earlier: str) -> dict[str, object]:
    """The same verdict was given before and had its effect then."""
    return {"token": token, "outcome": "already_done", "earlier": earlier}


def enqueued_of(done: Enqueued) -> dict[str, object]:
    """The reply to an enqueue."""
    return {"ids": list(done.ids), "length": done.length, "duplicates": list(done.duplicates)}
