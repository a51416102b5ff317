"""Durations: what is accepted, what it means, and that both directions agree."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq_process.duration import (
    DURATION_PATTERN,
    LONGEST,
    format_duration,
    parse_duration,
    readable_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0.0),
        ("250ms", 0.25),
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("0.001s", 0.001),
        ("1.001m", 60.06),
        ("1m250ms", 60.25),
        ("100h0m1s", 360001.0),
        ("90s", 90.0),
    ],
)
def test_a_duration_means_its_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (604800, "168h"),
        (1.0004, "1s"),
        (0.0001, "0s"),
        (59.9996, "1m"),
        (1.7e308, f"{int(1.7e308) // 3600}h{int(1.7e308) // 60 % 60}m{int(1.7e308) % 60}s"),
        (10**400, f"{10**400 // 3600}h{10**400 // 60 % 60}m{10**400 % 60}s"),
    ],
)
def test_seconds_are_shown_in_the_usual_form(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "is not a duration"),
        ("30", 'write "30s"'),
        ("1.5", 'write "1.5s"'),
        ("7d", 'write "168h"'),
        ("-5s", "is negative"),
        ("30m1h", "in this order"),
        ("1s1s", "is not a duration"),
        ("1 h", "is not a duration"),
        ("30S", "is not a duration"),
        ("30s\n", "is not a duration"),
        ("٣s", "is not a duration"),
        ("1.5ms", "is not a duration"),
        ("0.0001s", "is not a duration"),
        ("9999999h", 'has too many digits; the longest duration is "876000h"'),
        ("99999999999h", "has too many digits"),
        ("1h12345678m", "has too many digits"),
        ("10000000000.5s", "has too many digits"),
        ("1234567890123ms", "has too many digits"),
        ("99999999999x", "is not a duration"),
        ("876000h1ms", 'write at most "876000h"'),
        ("soon", "is not a duration"),
        (".5s", "is not a duration"),
        ("1e3s", "is not a duration"),
    ],
)
def test_what_is_no_duration_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=re.escape(advice)):
        parse_duration(text)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), -0.001])
def test_what_has_no_form_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        format_duration(seconds)


@given(st.integers(min_value=0, max_value=876_000 * 3_600_000))
def test_every_whole_millisecond_survives_the_round_trip(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    text = format_duration(seconds)
    assert parse_duration(text) == seconds
    assert re.fullmatch(DURATION_PATTERN, text)


@given(st.from_regex(DURATION_PATTERN, fullmatch=True).filter(bool))
def test_whatever_the_pattern_allows_is_whole_milliseconds_or_over_a_hundred_years(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        if "over a hundred years" not in str(error):
            raise
        return
    assert seconds == round(seconds * 1000) / 1000
    assert seconds <= LONGEST
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        assert not text or not re.fullmatch(DURATION_PATTERN, text)
    else:
        assert re.fullmatch(DURATION_PATTERN, text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3.0, "0 s"), (0.0, "0 s"), (0.0004, "0 s"), (0.25, "250 ms"), (0.9996, "1 s"), (3.44, "3.4 s"),
        (9.96, "10 s"), (56.973, "57 s"), (119.4, "119 s"), (119.6, "2 min"), (750.0, "12 min"), (7200.0, "2 h"),
        (9000.0, "2.5 h"), (47 * 3600.0, "47 h"), (72 * 3600.0, "3 d"), (1e12, "more than a century"),
    ],
)  # fmt: skip
def test_a_measured_duration_is_rounded_for_people(seconds: float, text: str) -> None:
    assert readable_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0005, "0 s"), (0.00051, "1 ms"), (0.9994, "999 ms"), (0.9995, "1 s"),
        (9.4, "9.4 s"), (9.94, "9.9 s"), (9.95, "10 s"), (10.4, "10 s"), (119.49, "119 s"), (119.5, "2 min"),
        (61.49 * 60, "61 min"), (7169.0, "119 min"), (7170.0, "2 h"),
        (46.5 * 3600, "46 h"), (46.505 * 3600, "47 h"), (170_999.0, "47 h"), (171_000.0, "2 d"),
        (36_499.4 * 86_400, "36499 d"), (36_499.5 * 86_400, "36500 d"),
        (LONGEST, "36500 d"), (LONGEST + 1, "more than a century"),
    ],
)  # fmt: skip
def test_a_measured_duration_changes_its_unit_and_digits_at_fixed_bounds(seconds: float, text: str) -> None:
    assert readable_duration(seconds) == text


@pytest.mark.parametrize(
    ("longest", "too_long"),
    [
        ("876000h", "1000000h"),
        ("9999999m", "10000000m"),
        ("999999999s", "1000000000s"),
        ("999999999999ms", "1000000000000ms"),
    ],
)
def test_each_unit_has_a_most_of_digits(longest: str, too_long: str) -> None:
    assert parse_duration(longest) > 0
    with pytest.raises(ValueError, match="has too many digits"):
        parse_duration(too_long)
