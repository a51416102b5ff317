"""The types of the fields of request bodies, and their limits."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from claimq.item_options import (
    HEADER_NAME,
    HEADER_VALUE,
    KEY,
    MAX_HEADER_NAME,
    MAX_HEADER_VALUE,
    MAX_HEADERS,
    MAX_KEY,
    RESERVED,
    Form,
    ItemOption,
)
from claimq.tokens import FORM

MAX_ENTRIES: Final = 1000
"""Items or tokens in one request."""
MAX_DELAY: Final = 1e9
"""Seconds."""
PAYLOAD_FIELDS: Final = ("payload", "payload_base64", "text")


def pattern(text: str) -> Meta:
    r"""A pattern for the whole string. ``\Z``, since in Python ``$`` also matches before a newline at the end."""
    return Meta(pattern=rf"^{text}\Z")


Token = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=300,
        extra_json_schema={"pattern": rf"^{FORM}\Z"},
    ),
]
"""Its pattern is only described here. A body with tokens must check them, all at once: msgspec would take three times
as long."""
Tokens = Annotated[list[Token], Meta(min_length=1, max_length=MAX_ENTRIES, description="Tokens of claims.")]
Delay = Annotated[float, Meta(ge=0, le=MAX_DELAY, description="Seconds.")]
RetryDelay = Annotated[
    Delay,
    Meta(
        description="Seconds until the next attempt, if there is one; the default is set by the queue's policy."
    ),
]
Error = Annotated[
    str, Meta(min_length=1, description="Why it failed. The first 1,000 characters are kept with the item.")
]
Detail = Annotated[
    str,
    Meta(
        description="Where it failed, for instance the last frames of a traceback. The last 2,000 characters are kept "
        "with the item."
    ),
]
CloseUnit = Annotated[
    Literal["queue", "client", "key"],
    Meta(description="What no worker claims from until the delay is over, at most for a day."),
]
HeaderName = Annotated[str, Meta(max_length=MAX_HEADER_NAME), pattern(f"(?!{RESERVED}){HEADER_NAME}")]
HeaderValue = Annotated[str, Meta(max_length=MAX_HEADER_VALUE), pattern(HEADER_VALUE)]


def type_of_option(option: ItemOption, instant: Any, unit: str) -> Any:
    """The type of an item's option. ``instant``, ``unit``: type and unit of one that is an instant."""
    types: dict[Form, Any] = {
        Form.HEADERS: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=MAX_HEADERS)],
        Form.INSTANT: instant,
        Form.COUNT: Annotated[float, Meta(ge=option.least, le=option.most, multiple_of=1)],
        Form.CHOICE: Literal[option.choices],
        Form.TEXT: Annotated[str, Meta(max_length=MAX_KEY), pattern(KEY)],
    }
    says = option.description + unit * (option.form is Form.INSTANT)
    return Annotated[types[option.form], Meta(description=says)]
