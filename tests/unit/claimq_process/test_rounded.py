"""Numbers for people: three digits, or whole with separators, and never an exponent."""

import pytest

from claimq_process.rounded import rounded


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (7.49e-29, "0"),
        (0.00012, "0.0001"),
        (1.5, "1.5"),
        (99.96, "100"),
        (999.4, "999"),
        (999.6, "1,000"),
        (3866.2, "3,866"),
        (1e9, "1,000,000,000"),
    ],
)
def test_a_number_is_rounded_and_has_no_exponent(number: float, text: str) -> None:
    assert rounded(number) == text
