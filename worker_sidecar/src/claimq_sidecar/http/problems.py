"""Problem documents (RFC 9457) for refused requests: what is wrong, where, and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import UNSET, Struct, UnsetType

from claimq.errors import (
    ClaimqError,
    InvalidName,
    ItemTooLarge,
    StoreFull,
    StoreUnavailable,
)

PREFIX = "urn:claimq:problem:"


class FieldProblem(Struct, frozen=True, forbid_unknown_fields=True):
    """A problem of one field. The pointer is a JSON pointer (RFC 6901)."""

    pointer: str
    detail: str


class Problem(Struct, forbid_unknown_fields=True):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET


class Refusal(Exception):
    """A request that is answered with a problem document instead of a result."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        errors: tuple[FieldProblem, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {kind}: {detail}")
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.errors = errors
        self.headers = headers or {}

    def document(self) -> Problem:
        """The body, as application/problem+json."""
        errors = list(self.errors) or UNSET
        return Problem(PREFIX + self.kind, self.title, self.status, self.detail, errors)


def not_json(detail: str) -> Refusal:
    """The body cannot be read."""
    return Refusal(400, "not-json", "The body is not JSON", detail)


def nested_too_deeply() -> Refusal:
    """The body cannot be parsed within the limit on recursion."""
    return not_json("the body is nested too deeply; send flatter JSON, or the payload as payload_base64")


def invalid_fields(errors: Iterable[FieldProblem]) -> Refusal:
    """Fields are not valid; all problems are reported at once."""
    problems = tuple(errors)
    detail = "; ".join(f"{problem.pointer or 'the body'}: {problem.detail}" for problem in problems)
    return Refusal(400, "invalid-field", "A field of the request is not valid", detail, problems)


def not_found(path: str, paths: Iterable[str]) -> Refusal:
    """No such path."""
    beginning = path[:100]
    return Refusal(
        404,
        "not-found",
        "This path does not exist",
        f"{beginning} does not exist; there are {', '.join(paths)}",
    )


def key_needed(path: str, header: str) -> Refusal:
    """The request would start a drain and does not have the key."""
    return Refusal(
        403,
        "key-needed",
        "This request needs the lifecycle key",
        f"{path} makes this worker stop claiming; start the sidecar with CLAIMQ_LIFECYCLE_KEY and send it in the "
        f"header {header}, or send the sidecar SIGTERM; the app asks with POST /v1/prestop on its socket",
    )


def foreign_host(host: str) -> Refusal:
    """The Host header names another host: the request was misdirected, or its name rebound to this address."""
    return Refusal(
        403,
        "foreign-host",
        "The request names another host",
        f"the Host header is {host[:60]!a}; use an IP address or localhost",
    )


def from_a_web_page() -> Refusal:
    """A browser sent the request for a web page."""
    return Refusal(
        403,
        "from-a-web-page",
        "The request comes from a web page",
        "the request has an Origin header; web pages may not use this port",
    )


def method_not_allowed(method: str, path: str, allowed: Iterable[str]) -> Refusal:
    """The path does not have this method."""
    methods = ", ".join(sorted(allowed))
    title = "The path does not have this method"
    return Refusal(
        405,
        "method-not-allowed",
        title,
        f"{path} takes {methods}, not {method[:20]}",
        headers={"allow": methods},
    )


def body_too_large(limit: int) -> Refusal:
    """The body exceeds the limit; the connection is closed after the response."""
    detail = f"a body has at most {limit} bytes (CLAIMQ_MAX_BODY); send fewer items at once"
    return Refusal(413, "body-too-large", "The body is too large", detail, headers={"connection": "close"})


def too_many_values(limit: int) -> Refusal:
    """The body has so many values that they would need too much memory."""
    detail = f"a body has at most {limit} JSON values and fields; send less, or payloads as payload_base64"
    return Refusal(413, "too-many-values", "The body has too many values", detail)


def no_room(seconds: float) -> Refusal:
    """Other requests use all the memory for bodies; the connection is closed after the response."""
    detail = (
        f"other requests used all the memory for bodies for {seconds:g} s; send less at once, or retry later"
    )
    return Refusal(
        429, "busy", "No room for the body", detail, headers={"retry-after": "1", "connection": "close"}
    )


def body_too_slow(seconds: float) -> Refusal:
    """The body is too slow; the connection is closed after the response."""
    detail = f"the body was not complete after {seconds:g} s; send it in one go"
    return Refusal(
        408, "body-too-slow", "The body did not arrive in time", detail, headers={"connection": "close"}
    )


def session_not_open(session: str) -> Refusal:
    """The session has ended, or this sidecar (perhaps a restarted one) never had it."""
    detail = (
        f"the session {session[:64]} is not open; open one with POST /v1/session and keep its connection open"
    )
    return Refusal(409, "session-not-open", "The session is not open", detail)


def defect() -> Refusal:
    """A bug in the sidecar; the log has details."""
    return Refusal(
        500,
        "defect",
        "The sidecar has a defect",
        "the request could not be handled; see event=defect in the sidecar's log",
    )


def of_library(error: ClaimqError | ValueError | TypeError) -> Refusal:
    """The problem document for an error of the library."""
    text = str(error)
    if isinstance(error, ItemTooLarge):
        where = (FieldProblem(f"/items/{error.index}", text),)
        return Refusal(413, "item-too-large", "A payload is over the queue's limit", text, where)
    if isinstance(error, StoreFull):
        return Refusal(507, "store-full", "The store is full", text, headers={"retry-after": "5"})
    if isinstance(error, StoreUnavailable):
        return Refusal(
            503, "store-unavailable", "The store is unavailable", text, headers={"retry-after": "1"}
        )
    if isinstance(error, (InvalidName, ValueError, TypeError)):
        return Refusal(400, "invalid-field", "A field of the request is not valid", text)
    title = "The store is not usable as it is configured"
    return Refusal(503, "store-misused", title, text, headers={"retry-after": "10"})
