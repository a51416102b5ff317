"""Arguments: seconds or timedelta, Unix seconds or datetime; else an error that names the argument."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import claimq
from claimq import arguments


def test_a_duration_is_seconds_or_a_timedelta() -> None:
    assert arguments.seconds("delay", 5) == 5
    assert arguments.seconds("delay", 0.25) == 0.25
    assert arguments.seconds("delay", timedelta(minutes=1, milliseconds=1)) == 60.001


def test_an_instant_is_unix_seconds_or_a_datetime_of_any_zone() -> None:
    instant = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert arguments.instant("at", instant) == instant.timestamp()
    assert arguments.instant("at", instant.astimezone(timezone(timedelta(hours=5)))) == instant.timestamp()
    assert arguments.instant("at", 1_700_000_000) == 1_700_000_000


@pytest.mark.parametrize("value", ["5s", b"5", True, [], object(), datetime(2030, 1, 1, tzinfo=UTC)])
def test_another_type_is_a_type_error_that_names_the_argument(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^delay is .*; give a number of seconds or a datetime.timedelta$"):
        arguments.seconds("delay", value)


@pytest.mark.parametrize("value", ["12:00", True, timedelta(1)])
def test_another_type_for_an_instant_names_the_argument(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^at is .*; give an instant: Unix seconds or a datetime"):
        arguments.instant("at", value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e17, 10**400, timedelta(seconds=-1)])
def test_a_duration_out_of_bounds_names_the_argument_and_the_bounds(value: Any) -> None:
    with pytest.raises(ValueError, match=re.escape("; give 0 to 3,153,600,000 seconds")):
        arguments.seconds("delay", value)


def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^at is datetime.* has no time zone"):
        arguments.instant("at", datetime(2030, 1, 1))  # noqa: DTZ001 - what is tested


@pytest.mark.parametrize("value", ["5", 5.0, None, True])
def test_a_count_of_another_type_names_the_argument(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^limit is .*; give a whole number$"):
        arguments.count("limit", value)


def test_dir_shows_the_api() -> None:
    assert dir(claimq) == sorted(claimq.__all__)


def test_every_name_of_the_api_can_be_imported() -> None:
    for name in claimq.__all__:
        assert getattr(claimq, name) is not None


def test_a_choice_is_a_member_or_its_text() -> None:
    assert arguments.choice("match", "either", claimq.Match) is claimq.Match.EITHER
    assert arguments.choice("match", claimq.Match.BOTH, claimq.Match) is claimq.Match.BOTH
    with pytest.raises(ValueError, match=r"^match is 'neither'; give one of: both, either$"):
        arguments.choice("match", "neither", claimq.Match)
