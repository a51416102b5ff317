"""Instants as users write them."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import cast

from claimq_process.duration import parse_duration

_DATE = re.compile("[0-9]{8}")
_TIME = re.compile("[0-9]{2}:[0-9]{2}")
_YEAR = re.compile("[0-9]{4}|[0-9]{6}")


def parse_instant(instant_text: object) -> float:
    """Unix seconds of an instant: a number, or ISO 8601 (without an offset in the local time zone). Eight digits are a
    date; a year or a month alone is no instant (as seconds, all of them would be in 1970). ValueError."""
    text = "" if isinstance(instant_text, float) else str(instant_text)
    if isinstance(instant_text, str) and _YEAR.fullmatch(text):
        raise ValueError(f"{text} is a year or a month; write a date")
    if not _DATE.fullmatch(text):
        try:
            return float(cast("float", instant_text))
        except (TypeError, ValueError, OverflowError):
            pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError(str(error)) from error


def parse_end(until: str, within: str, now: float) -> float | timedelta | None:
    """The end of something that begins ``now``: the instant ``until``, where ``14:00`` is the next one in the local
    time zone, or a duration (``within``); None if both are empty. ValueError."""
    if until and within:
        raise ValueError("until and for are both given; give one of them")
    if within:
        return timedelta(seconds=parse_duration(within))
    if not until:
        return None
    if not _TIME.fullmatch(until):
        try:
            return parse_instant(until)
        except ValueError:
            raise ValueError(
                f"until is {until[:100]!r}; write 14:00, ISO 8601 (2030-01-31T09:00:00Z) or Unix seconds"
            ) from None
    try:
        at = time.fromisoformat(until)
    except ValueError:
        raise ValueError(f"until is {until}; write a time of day from 00:00 to 23:59") from None
    today = datetime.fromtimestamp(now).date()  # noqa: DTZ006 - users write local times
    ends = (datetime.combine(today + timedelta(days=days), at).timestamp() for days in range(2))
    return next(end for end in ends if end > now)
