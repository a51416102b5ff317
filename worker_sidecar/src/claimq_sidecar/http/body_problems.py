"""Explains what is wrong with a request body, with the JSON pointer of the field and the fix."""

from __future__ import annotations

import json
import re
from typing import Final, TypeVar, cast

import msgspec

from claimq.handler_verdicts import Closing
from claimq.item_options import ITEM_OPTIONS
from claimq_sidecar.claims.calls import LONGEST_WAIT
from claimq_sidecar.http.bodies import Body
from claimq_sidecar.http.field_types import MAX_DELAY, MAX_ENTRIES
from claimq_sidecar.http.json_text import read_json
from claimq_sidecar.http.problems import Refusal, invalid_field, nested_too_deeply

_FIXES: Final = {
    "": "give an object, for instance {}",
    "entry": "give an object, or in tokens the token of a claim as a string",
    "list": f"give a list of 1 to {MAX_ENTRIES}",
    "max": f"give a whole number from 1 to {MAX_ENTRIES}",
    "window": f"give a whole number up to {MAX_ENTRIES}",
    "ahead": f"give a whole number up to {MAX_ENTRIES}; in a session true or false",
    "wait": f"give seconds from 0 to {LONGEST_WAIT:g}",
    "delay": f"give seconds from 0 to {MAX_DELAY:g}",
    "close": f"give one of: {', '.join(Closing)}",
    "encoding": "give one of auto, base64, text",
    "session": "give a string of at most 64 characters",
    "permanent": "give true or false",
    "error": "say why the work failed; it is kept with the item",
    "detail": "give a string",
    "token": "give the token of a claim as a string",
    "text": "give a string without lone surrogates",
    "payload_base64": "give the bytes as a base64 string",
    "id": "give 1 to 200 printable ASCII characters without blanks",
    "client": "give 1 to 128 printable ASCII characters without blanks, but not '-' alone",
    "expires_in": f"give seconds from 0 to {MAX_DELAY:g}",
    **{option.name: option.advice for option in ITEM_OPTIONS},
}
"""What to send instead, by field. All other fields are lists."""
_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$([^`]*)`\Z")
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_OF_A_VALUE: Final = ("Expected ", "Invalid ", "Number ")
_B = TypeVar("_B", bound=Body)


def problem_of(error: msgspec.ValidationError) -> Refusal:
    """The refusal for the first problem of a body. It quotes no value of the body, which may be a payload."""
    text = str(error)
    place = _PLACE.search(text)
    pointer = "" if place is None else re.sub(r"[.[]+", "/", re.sub(r"\[\.\.\.]|]", "", place[1]))
    text = text if place is None else text[: place.start()]
    if field := _FIELD.match(text):
        pointer += "/" + _escaped(field[2])
        is_missing = field[1].startswith("missing")
        return invalid_field(
            pointer, f"is missing; {_fix(pointer)}" if is_missing else "is unknown here; omit it"
        )
    if text.startswith(_OF_A_VALUE):
        return invalid_field(pointer, f"is not valid; {_fix(pointer)}")
    return invalid_field(pointer, text)


def _fix(pointer: str) -> str:
    name = pointer.rpartition("/")[2]
    return _FIXES["entry" if name.isdigit() else name if name in _FIXES else "list"]


def _escaped(name: str) -> str:
    """A foreign field name as part of a JSON pointer."""
    return name[:60].replace("~", "~0").replace("/", "~1").encode("ascii", "backslashreplace").decode()


def read_in_python(raw: bytes, form: type[_B]) -> _B:
    """Reads a body that msgspec's parser refuses, although it may be valid: with lone surrogates, which payloads and
    errors may have. Its payloads become compact JSON. Raises a :class:`Refusal`."""
    try:
        return msgspec.convert(_with_texts(read_json(raw)), form)
    except RecursionError:
        raise nested_too_deeply() from None
    except msgspec.ValidationError as error:
        raise problem_of(error) from None


def _with_texts(value: object) -> object:
    """The value with the text of each payload instead of the payload."""
    if isinstance(value, list):
        return [_with_texts(entry) for entry in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    return {
        name: _text_of(field) if name == "payload" else field if name == "headers" else _with_texts(field)
        for name, field in fields.items()
    }


def _text_of(payload: object) -> msgspec.Raw:
    try:
        return msgspec.Raw(json.dumps(payload, separators=(",", ":"), allow_nan=False).encode())
    except ValueError:
        raise invalid_field("", "a number of a payload is no finite double; use payload_base64") from None
