"""Turns request bodies into calls on the sidecar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import msgspec

from claimq.consuming.engine.endings import Ending
from claimq.model import NewItem
from claimq_sidecar.claims.calls import ClaimRequest, VerdictRequest
from claimq_sidecar.http.bodies import (
    VERDICT_BODIES,
    Body,
    ClaimBody,
    ClaimEnding,
    DoneClaim,
    DoneClaimsBody,
    DoneWithItemsBody,
    EnqueueBody,
    FailBody,
    FailClaim,
    FailClaimsBody,
    ItemBody,
    NextBody,
    RequeueBody,
    RequeueClaim,
    RequeueClaimsBody,
    SessionBody,
    StreamBody,
    VerdictsBody,
    WindowBody,
)
from claimq_sidecar.http.body_problems import read_or_explain
from claimq_sidecar.http.json_size import MAX_VALUES, has_too_many_values
from claimq_sidecar.http.problems import nested_too_deeply, too_many_values

_B = TypeVar("_B", bound=Body)


def claim_request(raw: bytes) -> tuple[ClaimRequest, str]:
    """The claim, and the encoding of its payloads."""
    body = _read(raw, ClaimBody)
    return ClaimRequest(int(body.max), body.wait, body.session), body.encoding


def verdict_requests(raw: bytes) -> dict[str, VerdictRequest]:
    """Verdicts of several kinds, by verb."""
    return _by_verb(_read(raw, VerdictsBody))


def next_request(raw: bytes) -> tuple[dict[str, VerdictRequest], ClaimRequest, str]:
    """Verdicts by verb, the claim after them, and the encoding of its payloads."""
    body = _read(raw, NextBody)
    return _by_verb(body), ClaimRequest(int(body.max), body.wait, body.session), body.encoding


def session_tokens(raw: bytes) -> tuple[str, ...]:
    """The claims that a new session takes over, without duplicates."""
    return tuple(dict.fromkeys(_read(raw, SessionBody).tokens))


def stream_request(raw: bytes) -> tuple[tuple[str, ...], int | None, str]:
    """The claims that a new stream takes over, its window, and the encoding of payloads."""
    body = _read(raw, StreamBody)
    window = None if body.window is None else int(body.window)
    return tuple(dict.fromkeys(body.tokens)), window, body.encoding


def window_request(raw: bytes) -> tuple[str, int]:
    """A stream's session and its new window."""
    body = _read(raw, WindowBody)
    return body.session, int(body.window)


def enqueue_request(raw: bytes) -> tuple[NewItem, ...]:
    """The items to enqueue."""
    return _new_items(_read(raw, EnqueueBody).items)


def verdict_request(verb: str, raw: bytes) -> VerdictRequest:
    """The claims of a verdict and how they end: ``tokens`` in one way, or each of ``claims`` in its own."""
    body = _read(raw, *VERDICT_BODIES[verb])
    if isinstance(body, (DoneClaimsBody, FailClaimsBody, RequeueClaimsBody)):
        return _of_claims(body.claims)
    tokens = tuple(dict.fromkeys(body.tokens))
    return VerdictRequest(tokens, (_ending(tokens, body),))


def _by_verb(body: VerdictsBody) -> dict[str, VerdictRequest]:
    return {verb: _of_claims(claims) for verb, claims in body.by_verb().items()}


def _of_claims(claims: Sequence[ClaimEnding]) -> VerdictRequest:
    """One ending for all claims that end in the same way, so that they cost one round trip."""
    plain: list[str] = []  # most claims: nothing has to be compared to find their ending
    tokens: dict[Ending[str], list[str]] = {}
    for claim in claims:
        if isinstance(claim, DoneClaim) and not claim.enqueue:
            plain.append(claim.token)
        else:
            tokens.setdefault(_ending((), claim), []).append(claim.token)
    endings = [replace(ending, claims=tuple(own)) for ending, own in tokens.items()]
    if plain:
        endings.append(Ending(tuple(plain)))
    return VerdictRequest(tuple(claim.token for claim in claims), tuple(endings))


def _read(raw: bytes, *forms: type[_B]) -> _B:
    """The body in the first of these forms that fits; an empty body is an empty object.

    Raises a :class:`Refusal` with status 400 or 413. msgspec stops at the first problem, so a body that it refuses is
    read a second time to report all of them.
    """
    if has_too_many_values(raw):
        raise too_many_values(MAX_VALUES)
    raw = raw or b"{}"
    for form in forms:
        try:
            raw.decode()  # msgspec does not look into the texts of a payload
            body: _B = _decoder(form).decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return body
    return read_or_explain(raw, forms)


@cache
def _decoder(form: type[Body]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form)


def _ending(tokens: tuple[str, ...], words: Body) -> Ending[str]:
    match words:
        case DoneWithItemsBody() | DoneClaim():
            return Ending(tokens, enqueue=_new_items(words.enqueue))
        case FailBody() | FailClaim():
            return Ending(tokens, words.error, words.permanent, words.detail, words.delay)
        case RequeueBody() | RequeueClaim():
            return Ending(tokens, delay=words.delay)
        case _:
            return Ending(tokens)


def _new_items(items: Iterable[ItemBody]) -> tuple[NewItem, ...]:
    try:
        return tuple(item.new_item() for item in items)
    except RecursionError:
        raise nested_too_deeply() from None
