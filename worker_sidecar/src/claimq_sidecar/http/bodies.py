"""The types of request bodies: msgspec checks a body against them, and openapi.json describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, cast

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, defstruct

from claimq.item_options import ITEM_OPTIONS, Form
from claimq.model import NewItem
from claimq.tokens import common_worker, worker_of
from claimq_sidecar.claims.calls import LONGEST_WAIT
from claimq_sidecar.http.field_types import (
    MAX_ENTRIES,
    PAYLOAD_FIELDS,
    CloseUnit,
    Delay,
    Detail,
    Error,
    RetryDelay,
    Token,
    Tokens,
    pattern,
    type_of_option,
)

_ENTRIES: Final = Meta(min_length=1, max_length=MAX_ENTRIES)


class Body(Struct, forbid_unknown_fields=True):
    """An object of a request; a field that it does not know is refused."""


_OptionFields: Final = defstruct(
    "_OptionFields",
    [
        (option.socket_name, type_of_option(option, Delay, " Seconds from now.") | None, None)
        for option in ITEM_OPTIONS
    ],
    bases=(Body,),
    kw_only=True,
)
_sent: Final = attrgetter(*(option.socket_name for option in ITEM_OPTIONS))
_READERS: Final[Mapping[Form, Any]] = {Form.INSTANT: partial(timedelta, 0), Form.COUNT: int}
_OPTIONS: Final = [(option.name, _READERS.get(option.form)) for option in ITEM_OPTIONS]
_NONE: Final = (None,) * len(_OPTIONS)


class ItemBody(_OptionFields):  # type: ignore[misc,valid-type]  # made from the table of options
    """Exactly one of payload, payload_base64 and text.

    A request has at most 300,000 JSON values and fields: those inside payload count, the contents of text and
    payload_base64 do not.
    """

    payload: (
        Annotated[
            Raw,
            Meta(description="Any JSON value; its text is stored as it was sent."),
        ]
        | UnsetType
    ) = UNSET
    payload_base64: (
        Annotated[
            bytes,
            Meta(
                description="Bytes, stored unchanged.",
                extra_json_schema={
                    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
                },
            ),
        ]
        | UnsetType
    ) = UNSET
    text: Annotated[str, Meta(description="Text, stored as UTF-8.")] | UnsetType = UNSET
    id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The producer's id. An id is not enqueued again within the queue's id window.",
            ),
            pattern("[!-~]+"),
        ]
        | None
    ) = None
    client: (
        Annotated[
            str,
            Meta(min_length=1, max_length=128, description="The tenant, for fair claims."),
            pattern(r"(?!-$)[!-~]+"),
        ]
        | None
    ) = None
    delay: Delay | None = None

    def __post_init__(self) -> None:
        """Raises ValueError unless there is exactly one payload."""
        if [self.payload, self.payload_base64, self.text].count(UNSET) != 2:
            raise ValueError(f"give exactly one of {', '.join(PAYLOAD_FIELDS)}")

    def new_item(self) -> NewItem:
        """The item for the library, with its payload as bytes."""
        if isinstance(self.payload_base64, bytes):
            payload = self.payload_base64
        elif isinstance(self.text, str):
            payload = self.text.encode()
        else:
            payload = bytes(cast("Raw", self.payload))
        sent = _sent(self)
        if sent == _NONE:
            return NewItem(payload, self.id, self.client, self.delay)
        options = {
            name: read(value) if read else value
            for (name, read), value in zip(_OPTIONS, sent, strict=True)
            if value is not None
        }
        return NewItem(payload, self.id, self.client, self.delay, **options)


Max = Annotated[float, Meta(ge=1, le=MAX_ENTRIES, multiple_of=1)]
"""A float, since JSON has one kind of number: 1.0 is a whole one."""
Wait = Annotated[
    float,
    Meta(
        ge=0,
        le=LONGEST_WAIT,
        description="Seconds to wait for the first item. The default is set by the queue's policy.",
    ),
]
SessionId = Annotated[str, Meta(max_length=64, description="An open session, which then holds the claims.")]
Encoding = Annotated[
    Literal["auto", "base64", "text"],
    Meta(
        description="How payloads are returned. auto: as payload if it is JSON, else as payload_base64. "
        "text: as text if it is UTF-8, else as payload_base64."
    ),
]


class ClaimBody(Body):
    """POST /v1/claim."""

    max: Max = 1
    wait: Wait | None = None
    session: SessionId | None = None
    encoding: Encoding = "auto"


def _check_tokens(tokens: Sequence[str]) -> None:
    """Raises ValueError for text that is no token."""
    if common_worker(tokens) is None and not all(map(worker_of, tokens)):
        raise ValueError(
            "a token is not that of a claim; give it as the claim returned it, like WORKER/17.Zk3q-u5H"
        )


class TokensBody(Body):
    """POST /v1/done, /v1/unclaim and /v1/renew."""

    tokens: Tokens

    def __post_init__(self) -> None:
        """Raises ValueError for text that is no token."""
        _check_tokens(self.tokens)


class ClaimEnding(Body):
    """One claim, and how it ends."""

    token: Token


class DoneClaim(ClaimEnding):
    """A claim that ended, and the items that follow from it."""

    enqueue: Annotated[list[ItemBody], Meta(max_length=MAX_ENTRIES)] = []


class FailBody(TokensBody):
    """Claims that failed for one reason."""

    error: Error
    permanent: bool = False
    detail: Detail = ""
    delay: RetryDelay | None = None


class FailClaim(ClaimEnding):
    """A claim that failed."""

    error: Error
    permanent: bool = False
    detail: Detail = ""
    delay: RetryDelay | None = None


class RequeueBody(TokensBody):
    """Claims to requeue."""

    delay: Delay | None = None


class RequeueClaim(ClaimEnding):
    """A claim to requeue."""

    delay: Delay | None = None


class LaterBody(TokensBody):
    """Claims to postpone."""

    delay: Delay
    close: CloseUnit | None = None


class LaterClaim(ClaimEnding):
    """A claim to postpone."""

    delay: Delay
    close: CloseUnit | None = None


class UnclaimClaim(ClaimEnding):
    """A claim to return to the head."""


_SOME: Final = Meta(max_length=MAX_ENTRIES)


_VERBS: Final = ("done", "fail", "requeue", "later", "unclaim")


class VerdictsBody(Body):
    """POST /v1/verdicts. Each token at most once in all lists together."""

    done: Annotated[list[DoneClaim], _SOME, Meta(description="Claims whose work is finished.")] = []
    fail: Annotated[list[FailClaim], _SOME, Meta(description="Claims whose work failed.")] = []
    requeue: Annotated[
        list[RequeueClaim], _SOME, Meta(description="Claims to put at the tail, or to delay.")
    ] = []
    later: Annotated[
        list[LaterClaim], _SOME, Meta(description="Claims to delay without counting an attempt.")
    ] = []
    unclaim: Annotated[
        list[UnclaimClaim], _SOME, Meta(description="Claims to put back at the head, uncounted.")
    ] = []

    def __post_init__(self) -> None:
        """Raises ValueError for a repeated token, and for text that is no token."""
        tokens = [claim.token for claims in self.by_verb().values() for claim in claims]
        _check_tokens(tokens)
        if len(set(tokens)) != len(tokens):
            raise ValueError("a token is repeated; give one verdict for each claim")

    def by_verb(self) -> Mapping[str, Sequence[ClaimEnding]]:
        """The claims by verdict. Verdicts without claims are omitted."""
        return {verb: claims for verb in _VERBS if (claims := getattr(self, verb))}


class NextBody(VerdictsBody):
    """POST /v1/next: verdicts, and the claim that follows them. Each token at most once in all lists together."""

    max: Max = 1
    wait: Wait | None = None
    session: SessionId | None = None
    encoding: Encoding = "auto"
    ahead: Annotated[
        float,
        Meta(
            ge=0,
            le=MAX_ENTRIES,
            multiple_of=1,
            description="Claim up to so many items that the app begins later, by permits of the session, instead of "
            "`max`; it works on `max` of all such items at the same time. The response comes at once.",
        ),
    ] = 0


class EnqueueBody(Body):
    """POST /v1/enqueue."""

    items: Annotated[list[ItemBody], _ENTRIES]


TakenOver = Annotated[
    list[Token], Meta(max_length=MAX_ENTRIES, description="Claims of the app that the session takes over.")
]


class SessionBody(TokensBody):
    """POST /v1/session."""

    tokens: TakenOver = []
    ahead: Annotated[
        bool, Meta(description="Make a FIFO with permits for items that the app begins later.")
    ] = False


class StreamBody(TokensBody):
    """POST /v1/stream."""

    tokens: TakenOver = []
    window: Annotated[
        Max | None,
        Meta(
            description="The most unsettled claims of the stream. The default is the concurrency limit, or 100 if "
            "there is none."
        ),
    ] = None
    encoding: Encoding = "auto"


class WindowBody(Body):
    """POST /v1/window."""

    session: SessionId
    window: Annotated[
        float, Meta(ge=0, le=MAX_ENTRIES, multiple_of=1, description="0: deliver nothing more.")
    ]


VERDICT_BODIES: Final[Mapping[str, type[TokensBody]]] = {
    "done": TokensBody,
    "fail": FailBody,
    "requeue": RequeueBody,
    "later": LaterBody,
    "unclaim": TokensBody,
    "renew": TokensBody,
}
"""By verb."""
