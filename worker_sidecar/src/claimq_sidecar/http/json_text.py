"""JSON texts: written compactly, bounded before they are parsed, and read by Python where msgspec refuses one."""

from __future__ import annotations

import json
from typing import Final, NoReturn

import msgspec

from claimq_sidecar.http.problems import Refusal, nested_too_deeply

MAX_VALUES: Final = 300_000
"""Values and fields in one JSON text. As Python objects they need up to 30 MB."""
_MARKS: Final = b"[{,:"
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in _MARKS + b'"')

_FIRST_BYTES = frozenset(bytes([byte]) for byte in b' \t\n\r"-0123456789[{tfn')
"""With which JSON begins. Most payloads that are no JSON begin otherwise, and need no parser to show it."""


def to_json(value: object) -> bytes:
    """A value as compact JSON. Lone surrogates are escaped, since UTF-8 cannot encode them."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def read_json(raw: bytes) -> object:
    """The value of a JSON text. Raises a :class:`Refusal` with status 400."""
    try:
        return json.loads(raw.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Refusal("not-json", f"the body is not UTF-8 (byte {error.start}); send JSON as UTF-8") from None
    except RecursionError:
        raise nested_too_deeply() from None
    except ValueError as error:
        raise Refusal("not-json", f"{str(error)[:200]}; send a JSON object") from None


def is_json(payload: bytes) -> bool:
    """Whether the bytes are one JSON value in UTF-8, and not one with too many values to parse."""
    if payload[:1] not in _FIRST_BYTES or has_too_many_values(payload):
        return False
    try:
        msgspec.json.decode(payload)
    except RecursionError:
        return False
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
    ):  # also of lone surrogates and of numbers that are no doubles
        return _is_json_in_python(payload)
    return True


def _is_json_in_python(payload: bytes) -> bool:
    try:
        json.loads(payload.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def has_too_many_values(raw: bytes) -> bool:
    """Whether the text has more than :data:`MAX_VALUES` values and fields. The text need not be valid.

    Each value follows a bracket, a brace, a comma or a colon outside of a string. Those are counted by functions of C
    without building anything large: `[],[],...` of 15 MiB would become 440 MB of lists.
    """
    if len(raw) <= MAX_VALUES or sum(raw.count(mark) for mark in _MARKS) <= MAX_VALUES:
        return False
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    if bare.count(b'"') > 2 * MAX_VALUES + 2:  # each string is a value or a name too
        return True
    return sum(map(len, bare.split(b'"')[::2])) > MAX_VALUES
