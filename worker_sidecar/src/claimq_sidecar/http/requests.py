"""Request bodies to typed requests: pure, strict, every mistake named at once."""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

from claimq.codec import check_name
from claimq.model import NewItem
from claimq.tokens import may_be_token
from claimq_sidecar.claims.calls import LONGEST_WAIT, ClaimRequest, Ending, VerdictRequest
from claimq_sidecar.http.json_size import MOST_VALUES, has_too_many_values
from claimq_sidecar.http.problems import (
    FieldProblem,
    body_too_wide,
    invalid_fields,
    not_json,
    too_many_values,
)

MOST = 1000
"""Items or tokens in one request."""
LONGEST_DELAY = 1e9
ENCODINGS = ("auto", "base64", "text")
_LONGEST_TOKEN = 300
_MALFORMED = "no token of a claim; give one as the claim answered it, like WORKER/17.Zk3q-u5H"
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A session to open; ``tokens`` are claims in the app's hands that it shall hold from now on."""

    tokens: tuple[str, ...] = ()


def read_json(raw: bytes, widest: int | None = None) -> Mapping[str, object]:
    """The JSON object in a body; an empty body is an empty object. Raises a :class:`Refusal` with status 400
    or 413.

    ``widest``: bytes that it may take as text, where Python keeps one to four for each character, by the widest.
    """
    if not raw:
        return {}
    if has_too_many_values(raw):
        raise too_many_values(MOST_VALUES)
    try:
        text = raw.decode("utf-8")
        if widest is not None and sys.getsizeof(text) > widest:
            raise body_too_wide(widest)
        value: object = json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise not_json(f"the body is not UTF-8 (byte {error.start}); send JSON as UTF-8") from None
    except RecursionError:
        raise not_json(
            "the body is nested too deeply; send flatter JSON, or the payload as payload_base64"
        ) from None
    except ValueError as error:
        raise not_json(f"{str(error)[:200]}; send a JSON object") from None
    if not isinstance(value, dict):
        raise not_json(f"the body is {_kind(value)}; send a JSON object, for instance {{}}")
    return cast("dict[str, object]", value)


def claim_request(body: Mapping[str, object]) -> tuple[ClaimRequest, str]:
    """Reads the body of POST /v1/claim: the claim, and the encoding of payloads in its response."""
    fields = _Fields(body, "", ("max", "wait", "session", "encoding"))
    request = ClaimRequest(
        most=fields.whole("max", 1, 1, MOST),
        wait=fields.seconds("wait", LONGEST_WAIT),
        session=fields.text("session", None, 64),
    )
    encoding = fields.choice("encoding", ENCODINGS, "auto")
    fields.end()
    return request, encoding


def session_request(body: Mapping[str, object]) -> SessionRequest:
    """Reads the body of POST /v1/session."""
    fields = _Fields(body, "", ("tokens",))
    tokens = tuple(fields.tokens(required=False))
    fields.end()
    return SessionRequest(tokens)


def enqueue_request(body: Mapping[str, object]) -> tuple[NewItem, ...]:
    """Reads the body of POST /v1/enqueue."""
    fields = _Fields(body, "", ("items",))
    items = fields.items("items", required=True)
    fields.end()
    return items


# Verb -> the fields beside the tokens.
VERDICT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "done": ("enqueue",),
    "fail": ("error", "permanent", "detail"),
    "requeue": ("delay",),
    "unclaim": (),
    "renew": (),
}


def verdict_request(verb: str, body: Mapping[str, object]) -> VerdictRequest:
    """Reads the body of POST /v1/VERB: ``tokens`` with common words beside them, or ``claims`` each with its own."""
    words = VERDICT_FIELDS[verb]
    if "claims" in body and words:
        return _verdicts_one_by_one(verb, body, words)
    fields = _Fields(body, "", ("tokens", *words, *(("claims",) if words else ())))
    tokens = fields.tokens(required=True)
    ending = _ending(fields, words, tuple(tokens))
    if ending.enqueue and tokens and len(cast("list[object]", body["tokens"])) > 1:
        fields.bad("enqueue", "goes with one token; for several give claims: [{token, enqueue}, ...]")
    fields.end()
    return VerdictRequest(ending.tokens, (ending,))


def _verdicts_one_by_one(verb: str, body: Mapping[str, object], words: tuple[str, ...]) -> VerdictRequest:
    fields = _Fields(body, "", ("claims",))
    endings: dict[str, Ending] = {}
    for index, claim in enumerate(fields.list_of("claims", required=True)):
        own = fields.inside(claim, f"/claims/{index}", ("token", *words))
        token = own.text("token", "", _LONGEST_TOKEN) or ""
        if not token:
            own.bad("token", "is missing; give the token of a claim")
        elif not may_be_token(token):
            own.bad("token", f"is {_MALFORMED}")
        if token in endings:
            own.bad("token", "comes twice; give one verdict for a claim")
        endings[token] = _ending(own, words, (token,))
    fields.end()
    return VerdictRequest(
        tuple(endings), _merged(endings.values()) if verb == "fail" else tuple(endings.values())
    )


def _merged(endings: Any) -> tuple[Ending, ...]:
    """Failures with the same words in one, so that they cost one round trip."""
    same: dict[tuple[str, bool, str], list[str]] = {}
    for ending in endings:
        same.setdefault((ending.error, ending.permanent, ending.detail), []).extend(ending.tokens)
    return tuple(Ending(tuple(tokens), *words) for words, tokens in same.items())


def _ending(fields: _Fields, words: tuple[str, ...], tokens: tuple[str, ...]) -> Ending:
    error, permanent, detail, delay, enqueue = "", False, "", None, tuple[NewItem, ...]()
    if "error" in words:
        error = fields.text("error", "", None) or ""
        if not error:
            fields.bad("error", "is missing; say why the work failed, it is kept with the item")
        permanent = fields.flag("permanent")
        detail = fields.text("detail", "", None) or ""
    if "delay" in words:
        delay = fields.seconds("delay", LONGEST_DELAY)
    if "enqueue" in words:
        enqueue = fields.items("enqueue", required=False)
    return Ending(tokens, error, permanent, detail, delay, enqueue)


class _Fields:
    """One JSON object of a body: takes its fields out, checked, and notes what is wrong with them."""

    def __init__(
        self,
        body: Mapping[str, object],
        at: str,
        known: tuple[str, ...],
        problems: list[FieldProblem] | None = None,
    ) -> None:
        self._body = body
        self._at = at
        self.problems: list[FieldProblem] = [] if problems is None else problems
        for name in body:
            if name not in known:
                there = f"there are {', '.join(known)}" if known else "it has no fields"
                self.bad(name, f"is unknown here; {there}")

    def bad(self, name: str, detail: str) -> None:
        """Notes a problem."""
        escaped = name[:60].replace("~", "~0").replace("/", "~1").encode("ascii", "backslashreplace").decode()
        self.problems.append(FieldProblem(f"{self._at}/{escaped}", detail))

    def end(self) -> None:
        """Raises a :class:`Refusal` if anything was wrong (the first 20 are told)."""
        if self.problems:
            raise invalid_fields(self.problems[:20])

    def inside(self, value: object, at: str, known: tuple[str, ...]) -> _Fields:
        """The fields of an object inside this one."""
        if not isinstance(value, dict):
            self.problems.append(
                FieldProblem(at, f"is {_kind(value)}; give an object with {', '.join(known)}")
            )
            value = {}
        return _Fields(cast("dict[str, object]", value), at, known, self.problems)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        value = self._body.get(name, default)
        if isinstance(value, float) and value.is_integer():  # JSON has one kind of number: 1.0 is a whole one
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.bad(name, f"is {_shown(value)}; give a whole number from {least} to {most}")
            return default
        return value

    def seconds(self, name: str, most: float) -> float | None:
        """A number of seconds, or None where the field is absent or null."""
        value = self._body.get(name)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 <= value <= most
            or math.isnan(value)
        ):
            self.bad(name, f"is {_shown(value)}; give seconds from 0 to {most:g}")
            return None
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false; false where the field is absent."""
        value = self._body.get(name, False)
        if not isinstance(value, bool):
            self.bad(name, f"is {_shown(value)}; give true or false")
            return False
        return value

    def text(self, name: str, default: str | None, longest: int | None) -> str | None:
        """A string that can be stored."""
        value = self._body.get(name)
        if value is None:
            return default
        if not isinstance(value, str) or (longest is not None and len(value) > longest):
            size = f" of at most {longest} characters" if longest else ""
            self.bad(name, f"is {_shown(value)}; give a string{size}")
            return default
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of a few words."""
        value = self._body.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            self.bad(name, f"is {_shown(value)}; give one of {', '.join(allowed)}")
            return default
        return value

    def list_of(self, name: str, *, required: bool) -> list[object]:
        """A list of 1 to :data:`MOST` values; empty where an optional field is absent."""
        value = self._body.get(name, _ABSENT)
        if value is _ABSENT and not required:
            return []
        if value is _ABSENT:
            self.bad(name, f"is missing; give a list of 1 to {MOST}")
            return []
        if not isinstance(value, list):
            self.bad(name, f"is {_kind(value)}; give a list of 1 to {MOST}")
            return []
        listed = cast("list[object]", value)
        if len(listed) > MOST or (required and not listed):
            self.bad(name, f"has {len(listed)} entries; give 1 to {MOST}")
            return []
        return listed

    def tokens(self, *, required: bool) -> list[str]:
        """Tokens of claims, each once, in the order given."""
        tokens: dict[str, None] = {}
        for index, token in enumerate(self.list_of("tokens", required=required)):
            if isinstance(token, str) and 0 < len(token) <= _LONGEST_TOKEN:
                tokens[token] = None
                if required and not may_be_token(token):
                    self.bad("tokens", f"entry {index} is {_MALFORMED}")
            else:
                seen = _shown(token)
                if isinstance(token, str):
                    seen = "empty" if not token else f"longer than {_LONGEST_TOKEN} characters"
                self.bad("tokens", f"entry {index} is {seen}; give the token of a claim as a string")
        return list(tokens)

    def items(self, name: str, *, required: bool) -> tuple[NewItem, ...]:
        """Items to enqueue."""
        listed = self.list_of(name, required=required)
        return tuple(self._item(value, f"{self._at}/{name}/{index}") for index, value in enumerate(listed))

    def _item(self, value: object, at: str) -> NewItem:
        fields = self.inside(value, at, ("payload", "payload_base64", "text", "id", "client", "delay"))
        payload = fields.payload() if isinstance(value, dict) else b""
        return NewItem(
            payload,
            id=fields.checked_name("id"),
            client=fields.checked_name("client"),
            delay=fields.seconds("delay", LONGEST_DELAY),
        )

    def checked_name(self, name: str) -> str | None:
        """An item's id or client, by the library's rules."""
        value = self.text(name, None, None)
        if value is None:
            return None
        try:
            return check_name(name, value)
        except ValueError as error:
            self.bad(name, str(error))
            return None

    def payload(self) -> bytes:
        """The bytes to store: exactly one of payload (JSON), payload_base64 and text."""
        given = [name for name in ("payload", "payload_base64", "text") if name in self._body]
        if len(given) != 1:
            there = f"has {' and '.join(given)}" if given else "has no payload"
            self.problems.append(
                FieldProblem(self._at, f"{there}; give one of payload, payload_base64, text")
            )
            return b""
        name, value = given[0], self._body[given[0]]
        if name == "payload":
            return self._as_json(value)
        if not isinstance(value, str):
            self.bad(name, f"is {_kind(value)}; give a string")
            return b""
        try:
            return (
                value.encode() if name == "text" else base64.b64decode(value.encode("ascii"), validate=True)
            )
        except (UnicodeEncodeError, binascii.Error):
            self.bad(
                name,
                "is not valid; give text without lone surrogates"
                if name == "text"
                else "is not base64; encode the bytes",
            )
            return b""

    def _as_json(self, value: object) -> bytes:
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except (ValueError, RecursionError):
            self.bad(
                "payload",
                "cannot be written as JSON again (a number out of range, or nested too deeply); use payload_base64",
            )
            return b""
        try:
            return text.encode()
        except UnicodeEncodeError:  # a lone surrogate, which JSON can only carry escaped
            return json.dumps(value, separators=(",", ":")).encode()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    for kind, name in (
        (bool, "a boolean"),
        (str, "a string"),
        (dict, "an object"),
        (list, "a list"),
        ((int, float), "a number"),
    ):
        if isinstance(value, kind):
            return name
    return "null"


def _shown(value: object) -> str:
    """A value for a message: short ones as they are, others by kind, so that no payload gets into a reply or a log."""
    return repr(value) if isinstance(value, (int, float)) and abs(value) < 1e12 else _kind(value)
