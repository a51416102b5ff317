"""Parses and formats durations such as ``30s``, ``1h30m`` and ``250ms``.

The accepted forms are a subset of those of Go and of CEL in Kubernetes, so a duration means the same in the API server,
in the operator and on one machine. The resolution is a millisecond, as on the server.
"""

from __future__ import annotations

import re

from claimq.arguments import CENTURY, is_finite

_FORM = r"^(?:[0-9]%s(?:\.[0-9]{1,3})?h)?(?:[0-9]%s(?:\.[0-9]{1,3})?m)?(?:[0-9]%s(?:\.[0-9]{1,3})?s)?(?:[0-9]%sms)?$"
DURATION_PATTERN = _FORM % ("{1,6}", "{1,7}", "{1,9}", "{1,12}")
"""The form as a regular expression (RE2 takes it too). It matches the empty text: ask for two characters or more."""

LONGEST = CENTURY
"""The longest duration that is accepted, in seconds: a hundred years."""

_PARTS = re.compile(r"([0-9]+)(?:\.([0-9]{1,3}))?(ms|h|m|s)")
_WHOLE = re.compile(DURATION_PATTERN)
_WITH_MORE_DIGITS = re.compile(_FORM % ("+", "+", "+", "+"))
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_READABLE = ((119.5, "s", 1), (119.5 * 60, "min", 60), (47.5 * 3600, "h", 3600), (LONGEST + 1, "d", 86400))
"""Each unit: the seconds below which it is used, and its length in seconds."""


def parse_duration(text: str) -> float:
    """The seconds of ``text``: hours, minutes, seconds, milliseconds, in this order, at least one of
    them.

    Decimals (at most three) are allowed except for milliseconds: ``1.5h`` is 5400.0, ``1m250ms`` is 60.25. The result
    is a whole number of milliseconds, at most :data:`LONGEST`. Raises :class:`ValueError` with a message that has
    the fix.
    """
    if not text or not _WHOLE.fullmatch(text):
        raise ValueError(_advice(text))
    total = 0
    for whole, decimals, unit in _PARTS.findall(text):
        total += int(whole) * _UNIT_MS[unit] + int(decimals.ljust(3, "0")) * _UNIT_MS[unit] // 1000
    if total > LONGEST * 1000:
        raise ValueError(f'"{text}" is over a hundred years; write at most "{format_duration(LONGEST)}"')
    return total / 1000


def format_duration(seconds: float) -> str:
    """The shortest usual form of ``seconds``, to the nearest millisecond: ``5400`` is ``1h30m``, ``0`` is
    ``0s``.

    Raises :class:`ValueError` for a negative number, infinity and NaN.
    """
    if not is_finite(seconds) or seconds < 0:
        raise ValueError(f"{seconds} is not a duration; give seconds, 0 or more")
    whole, part = divmod(seconds, 1)
    milliseconds = int(whole) * 1000 + round(part * 1000)
    parts: list[str] = []
    for unit, size in _UNIT_MS.items():
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def readable_duration(seconds: float) -> str:
    """A measured duration for people, rounded: ``250 ms``, ``3.4 s``, ``57 s``, ``12 min``, ``2.5 h``, ``3 d``.

    Seconds below zero, from a clock that was set back, read as ``0 s``.
    """
    seconds = max(0.0, seconds)
    if 0.0005 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    for limit, unit, size in _READABLE:
        if seconds < limit:
            rounded = f"{seconds / size:.1f}" if seconds / size < 9.95 else f"{seconds / size:.0f}"
            return f"{rounded.removesuffix('.0')} {unit}"
    return "more than a century"


def _advice(text: str) -> str:
    usual = 'write for instance "30s", "5m", "1h30m" or "250ms"'
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text, re.ASCII):
        return f'"{text}" has no unit; write "{text}s" for seconds, or use "ms", "m" or "h"'
    if days := re.fullmatch(r"([0-9]{1,4})d", text, re.ASCII):
        return f'"{text}" is in days, which is not a unit here; write "{int(days[1]) * 24}h"'
    if text and _WITH_MORE_DIGITS.fullmatch(text):
        return f'"{text}" has too many digits; the longest duration is "{format_duration(LONGEST)}", a hundred years'
    if text.startswith("-"):
        return f'"{text}" is negative; {usual}'
    return f'"{text}" is not a duration; {usual} (hours, minutes, seconds, milliseconds, in this order)'
