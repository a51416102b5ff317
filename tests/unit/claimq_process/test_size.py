"""Sizes in bytes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq_process.size import SIZE_PATTERN, format_size, parse_size


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1Mi", 1048576),
        ("1M", 1000000),
        ("64Ki", 65536),
        ("2Gi", 2**31),
        ("3k", 3000),
        ("1G", 10**9),
        ("512", 512),
        (512, 512),
        (0, 0),
    ],
)
def test_a_size_means_its_bytes(value: str | int, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("1MB", 'write "1Mi"'),
        ("1mb", 'write "1Mi"'),
        ("16m", 'write "16Mi"'),
        ("1 Mi", 'write "1Mi"'),
        ("1.5Mi", "is not a size"),
        ("-1", "is not a size"),
        (-1, "is not a size"),
        (True, "is not a size"),
        ("", "is not a size"),
        ("1Mi\n", "is not a size"),
        ("big", "is not a size"),
        ("1234567890123", "is not a size"),
    ],
)
def test_what_is_no_size_is_refused_with_what_to_write(value: str | int, advice: str) -> None:
    with pytest.raises(ValueError, match=re.escape(advice)):
        parse_size(value)


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_every_size_survives_the_round_trip(size: int) -> None:
    text = format_size(size)
    assert parse_size(text) == size
    assert re.fullmatch(SIZE_PATTERN, text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1025, "1025"),
        (1500, "1500"),
        (1536 * 1024, "1536Ki"),
        (2**20, "1Mi"),
        (3 * 2**30, "3Gi"),
    ],
)
def test_a_size_has_the_largest_unit_that_is_exact(size: int, text: str) -> None:
    assert format_size(size) == text


def test_a_negative_size_has_no_form() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        format_size(-1)
