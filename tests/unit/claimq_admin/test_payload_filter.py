"""Filters of payloads by JSONPath."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from claimq_admin.selection.payload_filter import PayloadFilter, parse_payload_filter

ORDER = (
    b'{"id": 42, "country": "DE", "paid": true, "lines": [{"sku": "a=b", "n": 1}, {"sku": "x", "n": "7"}]}'
)


@pytest.mark.parametrize(
    "text",
    [
        "$.id",
        "$.id=42",
        "$.country=DE",
        '$.country="DE"',
        "$.paid=true",
        "$.lines[*].n=1",
        "$.lines[*].n=7",
        "$.lines[*].sku=a=b",
        "$..sku=x",
        "$.lines[?@.sku=='x']",
        "$.lines[?@.sku=='x'].n=7",
        '$.lines[0]={"n": 1, "sku": "a=b"}',
    ],
)
def test_what_is_in_the_payload_is_found(text: str) -> None:
    assert parse_payload_filter(text).passes(ORDER)


@pytest.mark.parametrize(
    "text",
    ["$.other", "$.id=43", "$.id=", "$.paid=1", "$.country=de", "$.lines[?@.sku=='x'].n=1", "$.lines[2]"],
)
def test_what_is_not_in_the_payload_is_not_found(text: str) -> None:
    assert not parse_payload_filter(text).passes(ORDER)


@pytest.mark.parametrize("payload", [b"", b"\xff", b"no JSON", b"[" * 100_000, b"[" * 900 + b"]" * 900])
def test_other_payloads_do_not_pass(payload: bytes) -> None:
    assert not parse_payload_filter("$..x").passes(payload)


def test_what_a_path_finds_is_not_collected() -> None:
    """A payload of 16 MiB has five million lists, whose matches would take more than a gigabyte."""
    read: list[int] = []

    @dataclass
    class Match:
        value: int

    class Endless:
        def finditer(self, _: object) -> Iterator[Match]:
            for number in itertools.count():
                read.append(number)
                yield Match(number)

    assert PayloadFilter("$..*", Endless(), ()).passes(b"[]")
    assert PayloadFilter("$..*=3", Endless(), (3,)).passes(b"[]")
    assert read == [0, 0, 1, 2, 3]


def test_a_value_of_many_levels_is_a_text() -> None:
    assert parse_payload_filter("$.a=" + "[" * 5000).passes(json.dumps({"a": "[" * 5000}).encode())


def test_a_long_text_that_is_no_path_is_refused_soon() -> None:
    """Each place where a path could end costs a try."""
    with pytest.raises(ValueError, match="is not a JSONPath"):
        parse_payload_filter("=" * 20_000)


@pytest.mark.parametrize(
    "text",
    ["", "id", "country=DE", "$.", "$[", "$.a[?@.b=1]", "=", "$.a b=1", "$[?@.a==1e999]", f"$[{'9' * 5000}]"],
)
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a JSONPath; write for instance \$\.order\.id"):
        parse_payload_filter(text)
