"""Instants as users write them, in options and in files."""

from datetime import datetime, timedelta

import pytest

from claimq_admin.instants import parse_end, parse_instant


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


NOON = datetime(2030, 1, 31, 12).astimezone().timestamp()


@pytest.mark.parametrize(
    ("until", "within", "end"),
    [
        ("", "", None),
        ("", "10m", timedelta(minutes=10)),
        ("12:01", "", NOON + 60),
        ("12:00", "", NOON + 86_400),
        ("11:00", "", NOON + 82_800),
        ("1970-01-01T00:01:00Z", "", 60.0),
    ],
)
def test_an_end_is_the_next_time_of_day_an_instant_or_a_duration(
    until: str, within: str, end: float | timedelta | None
) -> None:
    assert parse_end(until, within, NOON) == end


@pytest.mark.parametrize(
    ("until", "within", "advice"),
    [
        ("12:01", "10m", "until and for are both given; give one"),
        ("soon", "", "until is 'soon'; write 14:00, ISO 8601"),
        ("24:01", "", "a time of day from 00:00 to 23:59"),
        ("", "10", 'write "10s"'),
    ],
)
def test_an_end_that_cannot_be_read_is_an_error_with_the_fix(until: str, within: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        parse_end(until, within, NOON)
