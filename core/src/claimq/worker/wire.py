"""Requests and replies of the sidecar as bytes. Pure."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from claimq.arguments import Duration, optional_seconds, seconds, several
from claimq.codec import last_frames
from claimq.errors import ClaimqError, QueueFull, StoreUnavailable
from claimq.handler_verdicts import Fail
from claimq.item_options import expect_no_instant, item_fields, valid_options
from claimq.model import Enqueued, NewItem, Outcome, Verdict
from claimq.tracing import carrying
from claimq.worker.errors import Refused, SidecarUnavailable

DEFAULT_SOCKET = "/run/claimq/claimq.sock"
ANSWER_SECONDS = 30.0
"""How long the sidecar may take to answer."""
MOST = 1000
"""Tokens or items in one request."""
_NO_SIDECAR = (
    "$CLAIMQ_SOCKET is not set, and there is no directory /run/claimq: no sidecar runs beside this program; "
    "`claimq up` starts both from queue.yaml"
)
_REQUEST_BYTES = 8 * 1024 * 1024
_LONGEST_HEAD = 64 * 1024
_LONGEST_ERROR = 1000
_LONGEST_DETAIL = 2000


def socket_path(socket: str | os.PathLike[str] | None) -> str:
    """The socket to use: the argument, or ``CLAIMQ_SOCKET``, or the default. Raises SidecarUnavailable if it is the
    default and its directory is missing: no sidecar starts beside a program that was started by hand."""
    if socket is not None:
        return os.fspath(socket)
    if path := os.environ.get("CLAIMQ_SOCKET"):
        return path
    if not Path(DEFAULT_SOCKET).parent.is_dir():
        raise SidecarUnavailable(_NO_SIDECAR)
    return DEFAULT_SOCKET


def cannot_connect(path: str, error: OSError) -> str:
    """Why no sidecar answers on a socket, and what to set."""
    advice = "start the sidecar, as `claimq up` does, or set CLAIMQ_SOCKET to the path of its socket"
    if isinstance(error, FileNotFoundError):
        return f"there is no socket at {path}; {advice}"
    if isinstance(error, ConnectionRefusedError):
        return f"no process answers on the socket {path} (its sidecar has ended); {advice}"
    if isinstance(error, PermissionError):
        return (
            f"this user may not connect to {path}; "
            "run the app in the group of the sidecar (fsGroup), or change CLAIMQ_SOCKET_MODE"
        )
    return f"cannot use the socket {path} ({error.strerror or error}); {advice}"


def no_answer(path: str, error: OSError, *, known: bool) -> SidecarUnavailable:
    """The error for an interrupted attempt. ``known``: repeating it is harmless."""
    why = "did not answer in time" if isinstance(error, TimeoutError) else f"broke the connection ({error})"
    advice = "it may have restarted"
    if not known:
        advice = "it is unknown whether the call took effect; items with ids may be enqueued again"
    return SidecarUnavailable(f"the sidecar on {path} {why}; {advice}")


# Requests.
def request(path: str, body: bytes | None) -> bytes:
    """A whole POST request, or a GET request if there is no body."""
    if body is None:
        return b"GET %s HTTP/1.1\r\nhost: claimq\r\n\r\n" % path.encode("ascii")
    return (
        b"POST %s HTTP/1.1\r\nhost: claimq\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
        % (
            path.encode("ascii"),
            len(body),
            body,
        )
    )


def delay_fields(delay: Duration | None) -> dict[str, object]:
    """The fields of a requeue besides the tokens."""
    return {"delay": optional_seconds("delay", delay)}


def later_fields(delay: Duration | None, close: str | None) -> dict[str, object]:
    """The fields of a postponement besides the tokens."""
    words: dict[str, object] = {"delay": seconds("delay", delay)}
    return words if close is None else {**words, "close": close}


def claim_body(most: int, wait: float, session: str | None) -> bytes:
    """The body of a claim."""
    return _encode(_claim_words(most, wait, session))


Endings = Iterable[tuple[str, str, Mapping[str, object]]]
"""Verdicts: verb, token and the words beside it."""


def verdicts_body(endings: Endings) -> bytes:
    """The body of several verdicts."""
    return _encode(_by_verb(endings))


def next_body(endings: Endings, most: int, ahead: int, session: str) -> bytes:
    """The body that ends claims, and claims up to ``ahead`` items with permits, on ``most`` of which the loops work."""
    return _encode({**_by_verb(endings), **_claim_words(most, 0, session), "ahead": ahead})


def _by_verb(endings: Endings) -> dict[str, object]:
    verdicts: dict[str, list[dict[str, object]]] = {}
    for verb, token, words in endings:
        verdicts.setdefault(verb, []).append({"token": token, **words})
    return {**verdicts}


def _claim_words(most: int, wait: float, session: str | None) -> dict[str, object]:
    """Payloads come as base64, so that they arrive byte for byte."""
    return {"max": most, "encoding": "base64", "wait": wait, "session": session}


def verdict_requests(
    verb: str, tokens: Sequence[str], words: Mapping[str, object]
) -> Iterator[tuple[str, bytes]]:
    """Paths and bodies of a verdict on any number of claims. Items that follow go by ``/v1/verdicts`` alone."""
    for start in range(0, len(tokens), MOST):
        part = tokens[start : start + MOST]
        if "enqueue" in words:
            yield "/v1/verdicts", verdicts_body((verb, token, words) for token in part)
        else:
            yield f"/v1/{verb}", _encode({"tokens": part, **words})


def session_body(tokens: Iterable[str]) -> bytes:
    """The body that opens a session which takes over these claims."""
    return _encode({"tokens": list(tokens)[-MOST:], "ahead": True})


def fail_fields(
    error: object, *, permanent: bool = False, delay: Duration | None = None
) -> dict[str, object]:
    """The fields of a fail besides the tokens. ``error``: a text, or an exception, which brings its last frames. A
    :class:`claimq.Fail` has the fields itself.
    """
    detail = ""
    if isinstance(error, Fail):
        detail, permanent, delay = error.detail[-_LONGEST_DETAIL:], error.permanent, error.delay
        error = error.error
    elif isinstance(error, BaseException):
        detail = last_frames(error)[-_LONGEST_DETAIL:]
        error = f"{type(error).__name__}: {error}"
    words: dict[str, object] = {"error": _sendable(str(error)[:_LONGEST_ERROR]) or "no reason given"}
    if detail:
        words["detail"] = _sendable(detail)
    return {**words, **delay_fields(delay), "permanent": permanent}


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def done_fields(enqueue: Iterable[object]) -> dict[str, object]:
    """The fields of a done with followers besides the token."""
    items = [new_item(item) for item in carrying(several("enqueue", enqueue))]
    return {"enqueue": items} if items else {}


def enqueue_bodies(items: Iterable[object]) -> Iterator[bytes]:
    """The bodies of an enqueue of any number of items, none of them much over 8 MiB."""
    batch: list[dict[str, object]] = []
    size = 0
    for item in several("items", items):
        new = new_item(item)
        length = len(_encode(new))
        if batch and (len(batch) >= MOST or size + length > _REQUEST_BYTES):
            yield _encode({"items": batch})
            batch, size = [], 0
        batch.append(new)
        size += length
    if batch:
        yield _encode({"items": batch})


def new_item(item: object) -> dict[str, object]:
    """A payload or :class:`NewItem` as the sidecar reads it. Raises TypeError or ValueError for what it cannot be."""
    new = item if isinstance(item, NewItem) else NewItem(item)
    expect_no_instant(new)
    words: dict[str, object] = {
        "id": new.id,
        "client": new.client,
        "delay": optional_seconds("delay", new.delay),
    }
    for option, value in valid_options(new):
        words[option.socket_name] = value.total_seconds() if isinstance(value, timedelta) else value
    return {**dict(_payload(new.payload)), **{name: word for name, word in words.items() if word is not None}}


def _payload(payload: object) -> Iterator[tuple[str, object]]:
    if isinstance(payload, (bytes, bytearray)):
        yield "payload_base64", base64.b64encode(payload).decode("ascii")
    elif isinstance(payload, str):
        yield "text", payload
    elif isinstance(payload, (dict, list)):
        yield "payload", payload
    else:
        raise TypeError(
            f"a payload is bytes, text, or a dict or list (stored as JSON), not {type(payload).__name__}; "
            "put a single number, boolean or null into a list or encode it yourself"
        )


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _encode(value: object) -> bytes:
    return _encoder.encode(value).encode("ascii")


# Replies.
@dataclass(frozen=True, slots=True)
class Head:
    """The head of a reply: its status, the length of its body (None: in chunks), and whether the connection ends
    after it.
    """

    status: int
    length: int | None
    closes: bool


class BrokenReply(ConnectionError):
    """The data is not a reply of a sidecar, or not a whole one."""


def split_head(buffer: bytes) -> tuple[Head, bytes] | None:
    """The head at the beginning of the buffer and what follows it; None while it is not complete. Skips 100
    Continue.
    """
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > _LONGEST_HEAD:
            raise BrokenReply("the reply has no end of its head; is this socket the sidecar's?")
        return None
    lines = buffer[:end].split(b"\r\n")
    words = lines[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise BrokenReply(
            f"the reply begins with {bytes(lines[0][:40])!r}, which is not HTTP; is this socket the sidecar's?"
        )
    if words[1] == b"100":
        return split_head(buffer[end + 4 :])
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
    }
    length = fields.get(b"content-length")
    if length is None and fields.get(b"transfer-encoding", b"").lower() != b"chunked":
        raise BrokenReply("the reply does not say how long it is; is this socket the sidecar's?")
    closes = fields.get(b"connection", b"").lower() == b"close"
    return Head(int(words[1]), None if length is None else int(length), closes), buffer[end + 4 :]


class ChunkedLines:
    """Splits a chunked body into lines as its bytes arrive."""

    def __init__(self) -> None:
        self._raw = b""
        self._text = b""
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        """Adds bytes; returns the lines that are now complete, without blank ones. Raises BrokenReply."""
        self._raw += data
        while not self.ended and (end := self._raw.find(b"\r\n")) >= 0:
            try:
                size = int(self._raw[:end].split(b";")[0], 16)
            except ValueError:
                raise BrokenReply("a chunk of the session does not say its size") from None
            if size == 0:
                self.ended = True
            elif len(self._raw) < end + 2 + size + 2:
                break
            else:
                self._text += self._raw[end + 2 : end + 2 + size]
                self._raw = self._raw[end + 2 + size + 2 :]
        *lines, self._text = self._text.split(b"\n")
        return [line for line in lines if line.strip()]


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a reply. Raises BrokenReply."""
    try:
        value: Any = json.loads(body.decode())  # of bytes it would guess the encoding
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BrokenReply("the reply is not a JSON object; is this socket the sidecar's?")
    return value  # pyright: ignore[reportUnknownVariableType]  # a JSON object has text keys


def refusal(status: int, body: bytes) -> ClaimqError:
    """The error that a reply other than 200 means."""
    try:
        problem = read_object(body)
    except BrokenReply:
        problem = {}
    kind = str(problem.get("type", "")).rpartition(":")[2] or "unknown"
    detail = str(problem.get("detail", "the sidecar gave no reason"))
    if kind == "queue-full":
        return QueueFull(**problem["full"])
    if status in (429, 503):
        return StoreUnavailable(detail)
    fields: list[dict[str, Any]] = problem.get("errors", [])
    errors = tuple((str(one.get("pointer")), str(one.get("detail"))) for one in fields)
    return Refused(status, kind, detail, errors)


_VERDICTS = {verdict.value: verdict for verdict in Verdict}
_FIELDS = ("token", "id", "client", "requeue_count", "fail_count", "crash_count", "interrupted_count",
           "enqueued_at", "first_enqueued_at", "claimed_at", "lease_until")  # fmt: skip


def read_claims(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of each item in the reply to a claim; without the options that it does not have."""
    for claim in reply["claims"]:
        fields = {name: claim[name] for name in _FIELDS}
        fields["payload"] = base64.b64decode(claim["payload_base64"])
        if len(claim) > len(fields):  # few items have options
            fields |= item_fields(claim)
            fields["postponed_count"] = claim.get("postponed_count", 0)
        yield fields


def read_outcomes(reply: Mapping[str, Any], *, repeated: bool) -> list[Outcome]:
    """The outcomes in the reply to a verdict; see :func:`read_outcome`."""
    return [read_outcome(one, repeated=repeated) for one in reply["outcomes"]]


def read_outcome(one: Mapping[str, Any], *, repeated: bool) -> Outcome:
    """One outcome. ``repeated``: an earlier try of ours may have been the one that had the effect."""
    verdict, earlier = _VERDICTS[one["outcome"]], _VERDICTS.get(one.get("earlier", ""))
    if repeated and verdict is Verdict.ALREADY_DONE and earlier:
        verdict, earlier = earlier, None
    return Outcome(one["token"], verdict, one.get("id"), one.get("delay"), one.get("lease_until"), earlier)


def read_enqueued(replies: Sequence[Mapping[str, Any]]) -> Enqueued:
    """The combined result of several enqueues."""
    ids = tuple(item for reply in replies for item in reply["ids"])
    duplicates = tuple(item for reply in replies for item in reply["duplicates"])
    return Enqueued(ids, replies[-1]["length"] if replies else 0, duplicates)
