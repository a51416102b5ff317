"""Kubernetes quantities."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq_control.quantity import QUANTITY_PATTERN, parse_quantity


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("500m", Fraction(1, 2)),
        ("2", Fraction(2)),
        (0.5, Fraction(1, 2)),
        (2, Fraction(2)),
        ("1Gi", Fraction(2**30)),
        ("1e3", Fraction(1000)),
        ("1.5k", Fraction(1500)),
        (".5", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
        ("-1", Fraction(-1)),
        ("1E", Fraction(10**18)),
        ("1E2", Fraction(100)),
    ],
)
def test_a_quantity_means_its_number(value: str | float, number: Fraction) -> None:
    assert parse_quantity(value) == number


@pytest.mark.parametrize("value", ["", "1KiB", "m", "1 Gi", "one", True, "1e9999"])
def test_what_is_no_quantity_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(value)


@given(st.from_regex(QUANTITY_PATTERN, fullmatch=True))
def test_whatever_the_pattern_allows_is_a_quantity(text: str) -> None:
    parse_quantity(text)
