"""Claims and outcomes as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from claimq.model import Claim, Enqueued, Outcome
from claimq_sidecar.http.json_size import has_too_many_values

_quote = json.encoder.encode_basestring_ascii
_SLICE = 64 * 1024
_LONGEST_TEXT = 3
"""Times the size of a payload that it may have as a JSON string; no text without control characters has more."""


def claims_body(claims: Iterable[Claim], encoding: str, *, draining: bool) -> bytes:
    """The reply to a claim. With encoding ``auto`` a payload that is JSON stands in it as it is, byte for byte."""
    parts = [b'{"claims":[']
    for claim in claims:
        parts += (b"," if len(parts) > 1 else b"", *_claim(claim, encoding))
    parts.append(b'],"draining":%s}\n' % (b"true" if draining else b"false"))
    return b"".join(parts)


def _claim(claim: Claim, encoding: str) -> tuple[bytes, ...]:
    item = claim.item
    head = (
        f'{{"token":{_quote(claim.token)},"id":{_quote(item.id)}'
        f',"client":{"null" if item.client is None else _quote(item.client)}'
        f',"requeue_count":{item.requeue_count},"fail_count":{item.fail_count}'
        f',"crash_count":{item.crash_count},"interrupted_count":{item.interrupted_count}'
        f',"enqueued_at":{item.enqueued_at!r},"first_enqueued_at":{item.first_enqueued_at!r}'
        f',"claimed_at":{claim.claimed_at!r},"lease_until":{claim.lease_until!r},'
    )
    return head.encode("ascii"), *_payload(item.payload, encoding), b"}"


def _payload(payload: bytes, encoding: str) -> tuple[bytes, ...]:
    if encoding == "auto" and is_json(payload):
        return b'"payload":', payload
    if encoding == "text":
        text = _as_text(payload)
        if text is not None:
            return b'"text":"', text, b'"'
    return b'"payload_base64":"', base64.b64encode(payload), b'"'


def _as_text(payload: bytes) -> bytes | None:
    """The inside of a JSON string; None for what is not UTF-8, or nearly all control characters: six bytes for one."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    parts: list[bytes] = []
    size = 0
    for start in range(0, len(text), _SLICE):
        part = _quote(text[start : start + _SLICE])[1:-1].encode("ascii")
        size += len(part)
        if size > _LONGEST_TEXT * len(payload) + _SLICE:
            return None
        parts.append(part)
    return b"".join(parts)


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


def outcome_of(outcome: Outcome, earlier: str | None = None) -> dict[str, object]:
    """One outcome, without fields that are None. ``earlier``: the verdict when the same verb ended the claim before."""
    if earlier is not None:
        return {"token": outcome.token, "outcome": "already_done", "earlier": earlier}
    whole: dict[str, object] = {"token": outcome.token, "outcome": outcome.verdict.value}
    if outcome.id is not None:
        whole["id"] = outcome.id
    if outcome.delay is not None:
        whole["delay"] = outcome.delay
    if outcome.lease_until is not None:
        whole["lease_until"] = outcome.lease_until
    return whole


def enqueued_of(done: Enqueued) -> dict[str, object]:
    """The reply to an enqueue."""
    return {"ids": list(done.ids), "length": done.length, "duplicates": list(done.duplicates)}
