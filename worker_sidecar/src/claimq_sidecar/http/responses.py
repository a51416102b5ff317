"""The types of responses: msgspec writes them, and openapi.json describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from claimq import model
from claimq.item_options import ITEM_OPTIONS, set_options
from claimq_sidecar.claims.calls import NextAnswer
from claimq_sidecar.http.field_types import type_of_option
from claimq_sidecar.http.json_text import is_json, to_json

Count = Annotated[int, Meta(ge=0)]
_UNIT: Final = "Unix seconds by the store's clock."
Instant = Annotated[float, Meta(description=_UNIT)]
_CONTROL_CHARACTERS: Final = bytes(range(32))
_MAX_TEXT_FACTOR: Final = 3
"""How many times larger a payload may be as a JSON string. Only control characters exceed this."""
_SMALL: Final = 4096
_NO_OPTIONS: Final = [option.unset for option in ITEM_OPTIONS]


class Response(Struct, forbid_unknown_fields=True, gc=False):
    """The body of a response, or an object in one. These form no cycles, so the garbage collector skips them."""


_ClaimOptions: Final = msgspec.defstruct(
    "_ClaimOptions",
    [(option.name, type_of_option(option, float, f" {_UNIT}") | UnsetType, UNSET) for option in ITEM_OPTIONS],
    bases=(Response,),
    kw_only=True,
    gc=False,
)


class Claim(_ClaimOptions):  # type: ignore[misc,valid-type]  # made from the table of options
    """A claimed item, with exactly one of payload, payload_base64 and text."""

    token: Annotated[str, Meta(description="The right to end this claim.")]
    id: str
    client: str | None
    requeue_count: Count
    fail_count: Count
    crash_count: Count
    interrupted_count: Count
    enqueued_at: Instant
    first_enqueued_at: Instant
    claimed_at: Instant
    lease_until: Instant
    payload: Annotated[Raw, Meta(description="The payload, if it is JSON.")] | UnsetType = UNSET
    payload_base64: bytes | UnsetType = UNSET
    text: Annotated[Raw, Meta(extra_json_schema={"type": "string"})] | UnsetType = UNSET
    postponed_count: Annotated[Count, Meta(description="Unless it is 0.")] | UnsetType = UNSET


class Claims(Response):
    """The response to a claim."""

    claims: list[Claim]
    draining: Annotated[
        bool, Meta(description="The sidecar claims no more items: finish those in flight, then exit.")
    ]


class Outcome(Response):
    """What a verdict did to one claim."""

    token: str
    outcome: Annotated[
        str,
        Meta(
            description="Where the item is now, or that its lease was renewed. lost: the claim has ended before, and "
            "nothing has changed: discard the result. already_done: the same verdict had its effect before (of the "
            "last 20,000).",
            extra_json_schema={"enum": list(map(str, model.Verdict))},
        ),
    ]
    id: str | UnsetType = UNSET
    delay: float | UnsetType = UNSET
    lease_until: Instant | UnsetType = UNSET
    earlier: (
        Annotated[str, Meta(description="For already_done: what the same verdict did before.")] | UnsetType
    ) = UNSET


class Outcomes(Response):
    """The response to a verdict."""

    outcomes: Annotated[
        list[Outcome],
        Meta(
            description="In the order of the request. For /v1/verdicts: those of done, fail, requeue, later and "
            "unclaim, in this order."
        ),
    ]


class Next(Claims):
    """The response to verdicts and the claim after them."""

    outcomes: Annotated[
        list[Outcome],
        Meta(
            description="Those of done, fail, requeue, later and unclaim, in this order; within each as in the request."
        ),
    ] = []
    first: (
        Annotated[int, Meta(description="The number of the first claim; the others follow.")] | UnsetType
    ) = UNSET
    slots: (
        Annotated[Count, Meta(description="On so many claims with permits the app may work at once.")]
        | UnsetType
    ) = UNSET
    ahead: Annotated[Count, Meta(description="So many of them it may leave unbegun.")] | UnsetType = UNSET


class Enqueued(Response):
    """The response to an enqueue."""

    ids: list[str]
    length: Count
    duplicates: Annotated[
        list[str], Meta(description="Ids that were enqueued before; these items were not added.")
    ]


class Session(Response):
    """The first line of a session."""

    session: str
    queue: str
    worker: str
    busy_expiry: float | None
    draining: bool
    lost: (
        Annotated[list[str], Meta(description="Claims that the session could not take over.")] | UnsetType
    ) = UNSET
    permits: Annotated[str, Meta(description="The path of its FIFO, as the sidecar sees it.")] | UnsetType = (
        UNSET
    )


class Stream(Session, kw_only=True):
    """The first line of a stream."""

    window: Annotated[int, Meta(ge=0, description="The most unsettled claims of the stream.")]


class Window(Response):
    """The response to a change of a window."""

    window: Annotated[int, Meta(ge=0, description="The window now.")]
    tokens: Annotated[
        list[str], Meta(description="The unsettled claims of the stream, also those not read yet.")
    ]


class Draining(Response):
    """Each later line of a session that has no items: when a drain begins or ends, and at least every ten seconds."""

    draining: bool


class InFlight(Response):
    """The response to a drain of the app."""

    in_flight: Annotated[int, Meta(ge=0, description="Claims without a verdict.")]


class Info(Response):
    """The state and the settings of the sidecar."""

    queue: str
    worker: str
    busy_expiry: float | None
    claim_wait: Annotated[float, Meta(description="Seconds that a claim without `wait` waits.")]
    processing_timeout: float | None
    drain_timeout: float
    draining: bool
    ready: bool
    concurrency: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The most claims that may be in flight at once; null: no limit."),
    ]
    in_flight: Annotated[
        int, Meta(ge=0, description="Claims that were delivered and are not known to have ended.")
    ]
    sessions: Count
    health_host: Annotated[str, Meta(description="The address of the health port.")]
    health_port: Annotated[int, Meta(ge=1, le=65535, description="The health port: probes, metrics, drain.")]


def claims_body(claims: Iterable[model.Claim], encoding: str, *, draining: bool) -> bytes:
    """The response to a claim. A payload that is JSON is included byte for byte if the encoding is ``auto``."""
    return _lines(Claims([_claim(claim, encoding) for claim in claims], draining))


def next_body(answer: NextAnswer, encoding: str, *, draining: bool) -> bytes:
    """The response to verdicts and the claim after them."""
    claims = [_claim(claim, encoding) for claim in answer.claims]
    whole = Next(claims, draining, outcomes_of(answer.outcomes).outcomes)
    if answer.first:
        whole.first, whole.slots = answer.first, answer.slots
    if answer.ahead:
        whole.ahead = answer.ahead
    return _lines(whole)


def _lines(whole: Claims) -> bytes:
    return msgspec.json.Encoder().encode_lines([whole])  # with a newline, without a copy


def outcomes_of(outcomes: Iterable[model.Outcome]) -> Outcomes:
    """The response to verdicts and renewals, without fields that are None."""
    every: list[Outcome] = []
    for token, verdict, item_id, delay, lease_until, earlier in outcomes:
        whole = Outcome(token, verdict)
        if item_id is not None:
            whole.id = item_id
        if delay is not None:
            whole.delay = delay
        if lease_until is not None:
            whole.lease_until = lease_until
        if earlier is not None:
            whole.earlier = earlier
        every.append(whole)
    return Outcomes(every)


def enqueued_of(done: model.Enqueued) -> Enqueued:
    """The response to an enqueue."""
    return Enqueued(list(done.ids), done.length, list(done.duplicates))


def _claim(claim: model.Claim, encoding: str) -> Claim:
    # Unpacking takes half the time of reading each field by its name.
    token, item, _, claimed_at, lease_until = claim
    (
        item_id, payload, enqueued_at, first_enqueued_at, client, requeues, fails, crashes, interrupts, postponed,
        _, _, _, _, *options, _,
    ) = item  # fmt: skip
    whole = Claim(
        token, item_id, client, requeues, fails, crashes, interrupts, enqueued_at, first_enqueued_at, claimed_at,
        lease_until,
    )  # fmt: skip
    if encoding == "auto" and is_json(payload):
        whole.payload = Raw(payload)
    elif encoding == "text" and (text := _as_text(payload)) is not None:
        whole.text = Raw(text)
    else:
        whole.payload_base64 = payload
    if postponed:
        whole.postponed_count = postponed
    if options != _NO_OPTIONS:
        for option, value in set_options(item):
            setattr(whole, option.name, value)
    return whole


def _as_text(payload: bytes) -> bytes | None:
    """A JSON string; None for a payload that is not UTF-8 or consists mostly of control characters."""
    control_characters = len(payload) - len(payload.translate(None, _CONTROL_CHARACTERS))
    if (
        len(payload) + 5 * control_characters > _MAX_TEXT_FACTOR * len(payload) + _SMALL
    ):  # \u0001: five more bytes
        return None
    try:
        return to_json(payload.decode())
    except UnicodeDecodeError:
        return None
