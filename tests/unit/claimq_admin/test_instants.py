"""Instants as users write them, in options and in files."""

from datetime import datetime

import pytest

from claimq_admin.instants import parse_instant


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1.5", 1.5), (1.5, 1.5), (2, 2.0), ("1970-01-01T00:01:00Z", 60.0), ("1970-01-01T01:00:00+01:00", 0.0)],
)
def test_an_instant_is_unix_seconds_or_iso_8601(written: object, seconds: float) -> None:
    assert parse_instant(written) == seconds


@pytest.mark.parametrize("written", ["20300131", 20300131, "2030-01-31"])
def test_eight_digits_are_a_date_and_not_a_day_in_1970(written: object) -> None:
    assert parse_instant(written) == datetime(2030, 1, 31).astimezone().timestamp()


@pytest.mark.parametrize("written", ["2030", "203001", "20301331", 20301331])
def test_a_year_or_a_wrong_date_is_no_day_in_1970(written: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_instant(written)


@pytest.mark.parametrize("written", ["soon", "", None, [1], 10**400, "2030-13-01T00:00:00Z"])
def test_anything_else_is_a_value_error(written: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_instant(written)
