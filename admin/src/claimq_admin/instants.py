"""Instants as users write them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import cast

_DATE = re.compile("[0-9]{8}")
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
