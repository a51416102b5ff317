"""Problem documents (RFC 9457) for refused requests: what is wrong, where, and the fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from claimq.errors import (
    ClaimqError,
    InvalidName,
    ItemTooCostly,
    ItemTooLarge,
    QueueFull,
    StoreFull,
    StoreUnavailable,
)

PREFIX = "urn:claimq:problem:"


class FieldProblem(Struct, frozen=True, forbid_unknown_fields=True):
    """A problem of one field. The pointer is a JSON pointer (RFC 6901)."""

    pointer: str
    detail: str


class Full(Struct, frozen=True, forbid_unknown_fields=True):
    """A bound on what waits that is reached."""

    queue: str
    waiting: Annotated[int, Meta(description="Items or bytes that wait.")]
    limit: Annotated[int, Meta(description="Items or bytes that may wait.")]
    adding: Annotated[int, Meta(description="Items or bytes of the call that is refused.")]
    client: Annotated[str | None, Meta(description="Whose items they are; null for all of the queue.")]
    unit: Annotated[str, Meta(description="What is bounded: items or bytes.")]
    stored_count: Annotated[int, Meta(description="How many of the first items of the request are stored.")]


class Problem(Struct, forbid_unknown_fields=True):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET
    full: Full | UnsetType = UNSET


KINDS: Final[Mapping[str, tuple[int, str, Mapping[str, str]]]] = {
    "not-http": (400, "This is not HTTP/1.1", {}),
    "not-json": (400, "The body is not JSON", {}),
    "invalid-field": (400, "A field of the request is not valid", {}),
    "key-needed": (403, "This request needs the lifecycle key", {}),
    "foreign-host": (403, "The request names another host", {}),
    "from-a-web-page": (403, "The request comes from a web page", {}),
    "not-found": (404, "This path does not exist", {}),
    "method-not-allowed": (405, "The path does not have this method", {}),
    "head-too-slow": (408, "The head did not arrive in time", {}),
    "body-too-slow": (408, "The body did not arrive in time", {"connection": "close"}),
    "session-not-open": (409, "The session is not open", {}),
    "body-too-large": (413, "The body is too large", {"connection": "close"}),
    "too-many-values": (413, "The body has too many values", {}),
    "item-too-large": (413, "A payload is over the queue's limit", {}),
    "item-too-costly": (422, "An item costs more than a limit lets start", {}),
    "queue-full": (429, "As many items wait as the queue allows", {"retry-after": "1"}),
    "busy": (429, "No room for the request", {"retry-after": "1", "connection": "close"}),
    "head-too-large": (431, "The head is too large", {}),
    "defect": (500, "The sidecar has a defect", {}),
    "too-many-connections": (503, "Too many connections", {}),
    "store-unavailable": (503, "The store is unavailable", {"retry-after": "1"}),
    "store-misused": (503, "The store is not usable as it is configured", {"retry-after": "10"}),
    "store-full": (507, "The store is full", {"retry-after": "5"}),
}
"""By kind: status, title, and headers of the response. The protocol closes the connection where it refuses itself."""


class Refusal(Exception):
    """A request that is answered with a problem document instead of a result. ``headers``: beside those of the kind."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *errors: FieldProblem,
        headers: Mapping[str, str] = {},
        full: Full | UnsetType = UNSET,
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.full = full
        self.status, self.title, headers_of_kind = KINDS[kind]
        self.headers = {**headers_of_kind, **headers}

    def document(self) -> Problem:
        """The body, as application/problem+json."""
        errors = list(self.errors) or UNSET
        return Problem(PREFIX + self.kind, self.title, self.status, self.detail, errors, self.full)


def nested_too_deeply() -> Refusal:
    """The body cannot be parsed within the limit on recursion."""
    detail = "the body is nested too deeply; send flatter JSON, or the payload as payload_base64"
    return Refusal("not-json", detail)


def invalid_field(pointer: str, detail: str) -> Refusal:
    """A field, or the whole body, is not valid."""
    return Refusal("invalid-field", f"{pointer or 'the body'}: {detail}", FieldProblem(pointer, detail))


def of_library(error: ClaimqError | ValueError | TypeError) -> Refusal:
    """The problem document for an error of the library."""
    text = str(error)
    if isinstance(error, ItemTooLarge):
        return Refusal("item-too-large", text, FieldProblem(f"/items/{error.index}", text))
    if isinstance(error, ItemTooCostly):
        return Refusal("item-too-costly", text, FieldProblem(f"/items/{error.index}/cost", text))
    if isinstance(error, QueueFull):
        return Refusal("queue-full", text, full=Full(**vars(error)))
    if isinstance(error, StoreFull):
        return Refusal("store-full", text)
    if isinstance(error, StoreUnavailable):
        return Refusal("store-unavailable", text)
    if isinstance(error, (InvalidName, ValueError, TypeError)):
        return Refusal("invalid-field", text)
    return Refusal("store-misused", text)
