"""Turns request bodies into calls on the sidecar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import msgspec

from claimq.consuming.engine.endings import Ending
from claimq.handler_verdicts import Closing
from claimq.model import NewItem
from claimq_sidecar.claims.calls import ClaimRequest, VerdictRequest
from claimq_sidecar.http.bodies import (
    VERDICT_BODIES,
    Body,
    ClaimBody,
    ClaimEnding,
    DoneClaim,
    EnqueueBody,
    FailBody,
    FailClaim,
    ItemBody,
    LaterBody,
    LaterClaim,
    NextBody,
    RequeueBody,
    RequeueClaim,
    SessionBody,
    StreamBody,
    VerdictsBody,
    WindowBody,
)
from claimq_sidecar.http.body_problems import problem_of, read_in_python
from claimq_sidecar.http.json_text import MAX_VALUES, has_too_many_values
from claimq_sidecar.http.problems import Refusal, invalid_field, nested_too_deeply

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
    request = ClaimRequest(int(body.max), body.wait, body.session, int(body.ahead))
    return _by_verb(body), request, body.encoding


def session_request(raw: bytes) -> tuple[tuple[str, ...], bool]:
    """The claims that a new session takes over, without duplicates, and whether it needs permits."""
    body = _read(raw, SessionBody)
    return tuple(dict.fromkeys(body.tokens)), body.ahead


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
    """The claims of a verdict, which all end in one way."""
    body = _read(raw, VERDICT_BODIES[verb])
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
    endings = [replace(ending, claims=tuple(group)) for ending, group in tokens.items()]
    if plain:
        endings.append(Ending(tuple(plain)))
    return VerdictRequest(tuple(claim.token for claim in claims), tuple(endings))


def _read(raw: bytes, form: type[_B]) -> _B:
    """The body in this form; an empty body is an empty object.

    Raises a :class:`Refusal` with status 400 or 413.
    """
    if has_too_many_values(raw):
        detail = f"a body has at most {MAX_VALUES} JSON values and fields; send less, or payloads as payload_base64"
        raise Refusal("too-many-values", detail)
    raw = raw or b"{}"
    try:
        raw.decode()  # msgspec does not look into the texts of a payload
        body: _B = _decoder(form).decode(raw)
    except msgspec.ValidationError as error:
        raise problem_of(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_in_python(raw, form)
    return body


@cache
def _decoder(form: type[Body]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form)


def _ending(tokens: tuple[str, ...], words: Body) -> Ending[str]:
    match words:
        case DoneClaim():
            return Ending(tokens, enqueue=_new_items(words.enqueue))
        case FailBody() | FailClaim():
            return Ending(tokens, words.error, words.permanent, words.detail, words.delay)
        case LaterBody() | LaterClaim():
            return Ending(
                tokens, delay=words.delay, close=None if words.close is None else Closing(words.close)
            )
        case RequeueBody() | RequeueClaim():
            return Ending(tokens, delay=words.delay)
        case _:
            return Ending(tokens)


def _new_items(items: Iterable[ItemBody]) -> tuple[NewItem, ...]:
    try:
        return tuple(item.new_item() for item in items)
    except RecursionError:
        raise nested_too_deeply() from None
    except UnicodeEncodeError:
        raise invalid_field("", "the text of an item has lone surrogates; give it without") from None
