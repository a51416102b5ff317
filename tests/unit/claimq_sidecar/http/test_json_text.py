"""The count of JSON values before they are built: strings, quotes and backslashes mislead it nowhere."""

import json

import pytest

from claimq_sidecar.http.json_text import MAX_VALUES, has_too_many_values

MANY = MAX_VALUES + 1


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b"[]," * MANY,
        b"[" * MANY,
        b'[{"a":{}},' * (MANY // 3),
        b"[" + b'"",' * MANY,
        b"[" + b'"\\\\",' * MANY,
    ],
)
def test_many_values_are_counted(raw: bytes) -> None:
    assert has_too_many_values(raw)


@pytest.mark.parametrize(
    "text",
    ["[],[]," * MANY, '{"a": ["b", "\\\\"]},' * MANY, "\\" * MANY * 2, '"' * MANY * 2, "a,b:c\n" * MANY],
)
def test_what_is_inside_a_string_is_not_counted(text: str) -> None:
    assert not has_too_many_values(json.dumps({"items": [{"text": text}, {"text": "x"}]}).encode())


def test_as_many_as_allowed_are_allowed() -> None:
    assert not has_too_many_values(b"[" + b"1," * (MAX_VALUES - 1) + b"1]")
