"""JSON texts: written compactly, and read by Python's parser where msgspec refuses one."""

from __future__ import annotations

import json
from typing import NoReturn

import msgspec

from claimq_sidecar.http.json_size import has_too_many_values
from claimq_sidecar.http.problems import nested_too_deeply, not_json


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
        raise not_json(f"the body is not UTF-8 (byte {error.start}); send JSON as UTF-8") from None
    except RecursionError:
        raise nested_too_deeply() from None
    except ValueError as error:
        raise not_json(f"{str(error)[:200]}; send a JSON object") from None


def is_json(payload: bytes) -> bool:
    """Whether the bytes are one JSON value in UTF-8, and not one with too many values to parse."""
    if has_too_many_values(payload):
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
