"""Instants as users write them."""

from __future__ import annotations

from datetime import datetime
from typing import cast


def parse_instant(value: object) -> float:
    """Unix seconds of an instant: a number, or ISO 8601 (without an offset in the local time zone). ValueError."""
    try:
        return float(cast("float", value))
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError(str(error)) from error
