"""Explains what is wrong with a request body: every problem, each with the JSON pointer of its field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar, cast, get_args

import msgspec

from claimq.codec import check_name
from claimq.item_options import ITEM_OPTIONS, checked_headers
from claimq.tokens import worker_of
from claimq_sidecar.claims.calls import LONGEST_WAIT
from claimq_sidecar.http.bodies import Body, DoneWithItemsBody, ItemBody
from claimq_sidecar.http.field_types import MAX_DELAY, MAX_ENTRIES, MAX_TOKEN_LENGTH, PAYLOAD_FIELDS
from claimq_sidecar.http.json_text import read_json, to_json
from claimq_sidecar.http.problems import (
    FieldProblem,
    invalid_fields,
    nested_too_deeply,
    not_json,
)

MAX_PROBLEMS: Final = 20
"""Problems that are reported of one body."""
_LIST_FIX: Final = f"give a list of 1 to {MAX_ENTRIES}"
_FIXES: Final = {
    "max": f"give a whole number from 1 to {MAX_ENTRIES}",
    "window": f"give a whole number up to {MAX_ENTRIES}",
    "wait": f"give seconds from 0 to {LONGEST_WAIT:g}",
    "delay": f"give seconds from 0 to {MAX_DELAY:g}",
    "encoding": "give one of auto, base64, text",
    "session": "give a string of at most 64 characters",
    "permanent": "give true or false",
    "error": "say why the work failed; it is kept with the item",
    "detail": "give a string",
    "token": "give the token of a claim as a string",
    "text": "give a string without lone surrogates",
    "payload": "numbers must be finite doubles and nesting is limited; use payload_base64",
    "payload_base64": "give the bytes as a base64 string",
    "id": "give a string",
    "client": "give a string",
    "expires_in": f"give seconds from 0 to {MAX_DELAY:g}",
    **{option.name: option.advice for option in ITEM_OPTIONS},
}
"""What to send instead, by field. All other fields are lists."""
_B = TypeVar("_B", bound=Body)


def read_or_explain(raw: bytes, forms: Sequence[type[_B]]) -> _B:
    """Reads a body that msgspec's parser refuses. Raises a :class:`Refusal` with up to 20 problems.

    A body without problems has lone surrogates: msgspec does not parse them, but payloads and errors may have them.
    Its payloads become compact JSON.
    """
    document = read_json(raw)
    if not isinstance(document, dict):
        raise not_json(f"the body is {_kind(document)}; send a JSON object, for instance {{}}")
    body = cast("dict[str, object]", document)
    form = _closest(body, forms)
    all_problems = chain(_of_object(body, form, ""), _of_repeated_tokens(body))
    problems = list(islice(all_problems, MAX_PROBLEMS))
    if problems:
        raise invalid_fields(problems)
    try:
        return msgspec.convert(_with_texts(body), form)
    except RecursionError:
        raise nested_too_deeply() from None


def _with_texts(value: object) -> object:
    """The value with the text of each payload instead of the payload."""
    if isinstance(value, list):
        return [_with_texts(entry) for entry in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    return {
        name: msgspec.Raw(to_json(field))
        if name == "payload"
        else field
        if name == "headers"
        else _with_texts(field)
        for name, field in fields.items()
    }


def _closest(body: dict[str, object], forms: Sequence[type[_B]]) -> type[_B]:
    """The form that the client probably meant."""
    if "claims" in body:
        return forms[-1]
    tokens = body.get("tokens")
    has_one_token = isinstance(tokens, list) and len(cast("list[object]", tokens)) == 1
    with_items = [form for form in forms if form is DoneWithItemsBody]
    return with_items[0] if with_items and has_one_token and body.get("enqueue") else forms[0]


def _of_object(value: object, form: type[Body], at: str) -> Iterator[FieldProblem]:
    fields = {field.name: field for field in msgspec.structs.fields(form)}
    if not isinstance(value, dict):
        yield FieldProblem(at, f"is {_kind(value)}; give an object with {', '.join(fields)}")
        return
    members = cast("dict[str, object]", value)
    for name in members:
        if name not in fields:
            yield FieldProblem(f"{at}/{_escaped(name)}", f"is unknown here; there are {', '.join(fields)}")
    payloads = [name for name in PAYLOAD_FIELDS if name in members]
    if form is ItemBody and len(payloads) != 1:
        there = f"has {' and '.join(payloads)}" if payloads else "has no payload"
        yield FieldProblem(at, f"{there}; give one of {', '.join(PAYLOAD_FIELDS)}")
    for name, field in fields.items():
        if name not in members:
            if field.required:
                yield FieldProblem(f"{at}/{name}", f"is missing; {_FIXES.get(name, _LIST_FIX)}")
        elif name not in _FIXES:
            yield from _of_list(members[name], field.type, name, at)
        elif (detail := _problem(members[name], field.type, name)) is not None:
            yield FieldProblem(f"{at}/{name}", detail)


def _of_list(value: object, kind: Any, name: str, at: str) -> Iterator[FieldProblem]:
    list_kind, *limits = get_args(kind)  # of Annotated[list[...], Meta(...), ...]
    (entry_kind,) = get_args(list_kind)
    fewest = max(limit.min_length or 0 for limit in limits)
    most = min(limit.max_length for limit in limits if limit.max_length is not None)
    if not isinstance(value, list):
        yield FieldProblem(f"{at}/{name}", f"is {_kind(value)}; {_LIST_FIX}")
        return
    entries = cast("list[object]", value)
    if most == 0 < len(entries):
        fix = "goes with one token; for several, give claims: [{token, enqueue}, ...]"
        yield FieldProblem(f"{at}/{name}", fix)
    elif not fewest <= len(entries) <= most:
        yield FieldProblem(f"{at}/{name}", f"has {len(entries)} entries; give {fewest} to {most}")
    elif name == "tokens":
        for index, entry in enumerate(entries):
            if (detail := _problem(entry, entry_kind, "token")) is not None:
                yield FieldProblem(f"{at}/{name}", f"entry {index} {detail}")
    else:
        for index, entry in enumerate(entries):
            yield from _of_object(entry, entry_kind, f"{at}/{name}/{index}")


def _of_repeated_tokens(body: dict[str, object]) -> Iterator[FieldProblem]:
    tokens: set[str] = set()
    for name, member in body.items():
        entries = cast("list[object]", member) if isinstance(member, list) else []
        for index, entry in enumerate(entries):
            token = cast("dict[str, object]", entry).get("token") if isinstance(entry, dict) else None
            if isinstance(token, str):
                if token in tokens:
                    problem = "is repeated; give one verdict for each claim"
                    yield FieldProblem(f"/{_escaped(name)}/{index}/token", problem)
                tokens.add(token)


def _problem(value: object, kind: Any, name: str) -> str | None:
    """What is wrong with the value of a field that is no list; None if nothing is."""
    try:
        if name == "payload":
            json.dumps(value, allow_nan=False)
            return None
        msgspec.convert(value, kind)
        if name == "token" and worker_of(cast("str", value)) is None:
            return _described(value, name)
        if name == "text":
            cast("str", value).encode()
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
        return _described(value, name)
    return None


def _described(value: object, name: str) -> str:
    if isinstance(value, str):
        if name in ("id", "client"):
            return _name_problem(name, value)
        if name == "token" and len(value) > MAX_TOKEN_LENGTH:
            return f"is longer than {MAX_TOKEN_LENGTH} characters; {_FIXES[name]}"
        if name == "token" and value:
            return "is not a token of a claim; give one as a claim returned it, like WORKER/17.Zk3q-u5H"
        if name == "payload_base64":
            return f"is not base64; {_FIXES[name]}"
    if name == "headers" and isinstance(value, dict):
        return _headers_problem(value)  # pyright: ignore[reportUnknownArgumentType]  # of any JSON object
    return f"is {_shown(value)}; {_FIXES[name]}"


def _headers_problem(headers: object) -> str:
    try:
        checked_headers(headers)
    except (TypeError, ValueError) as error:
        return f"is not valid: {error}"
    return f"is not valid; {_FIXES['headers']}"


def _name_problem(name: str, value: str) -> str:
    try:
        check_name(name, value)
    except ValueError as error:
        return str(error)
    return f"is not valid; {_FIXES[name]}"


def _escaped(name: str) -> str:
    """A foreign field name as part of a JSON pointer."""
    return name[:60].replace("~", "~0").replace("/", "~1").encode("ascii", "backslashreplace").decode()


def _kind(value: object) -> str:
    names: dict[type, str] = {
        bool: "a boolean",
        str: "a string",
        dict: "an object",
        list: "a list",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    """A value for a message. Long ones by kind, so that no payload gets into a response or a log."""
    if value == "":
        return "empty"
    return json.dumps(value) if isinstance(value, (int, float)) and abs(value) < 1e12 else _kind(value)
