"""Decides what a response of the app, or its absence, means for the items of the request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from claimq.handler_verdicts import Closing

VERDICT_HEADER: Final = "claimq-verdict"
CLOSE_HEADER: Final = "claimq-close"
HEADERS: Final = frozenset({VERDICT_HEADER, CLOSE_HEADER, "retry-after", "date"})
"""The headers of a response that are kept."""
LONGEST_DELAY: Final = 3600.0
"""Seconds of a Retry-After that are followed at most."""
DEFAULT_DELAY: Final = 1.0
"""Seconds after a 429, or the verdict `later`, without Retry-After."""
LONGEST_DETAIL: Final = 2000
"""Bytes of the response that are kept with a failed item."""
LONGEST_BEGINNING: Final = 150
"""Characters of the response that are part of the error, by which failed items are counted."""
_VERDICTS: Final = ("done", "fail", "permanent", "requeue", "later", "unclaim")
_UNITS: Final = ("none", *Closing)
_TOO_MANY_REQUESTS: Final = 429
_UNAVAILABLE: Final = 503


@dataclass(frozen=True, slots=True)
class Response:
    """A response. ``headers``: those of :data:`HEADERS`, by lower-case name; ``body``: its beginning."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class NoResponse(StrEnum):
    """Why there is no response to a request that was sent."""

    TIMEOUT = "timeout"
    BROKEN = "broken"
    NOT_HTTP = "not_http"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict. ``delay``: seconds before the next attempt, None: as the queue's policy says; ``pause``: seconds
    without further requests, of an app that wants fewer of them; None: it does not. ``close``: what gets none from any
    sidecar for the delay."""

    verb: str
    error: str = ""
    detail: str = ""
    permanent: bool = False
    delay: float | None = None
    pause: float | None = None
    close: Closing | None = None


def decide(response: Response, now: datetime, *, retries_client_errors: bool = False) -> Decision:
    """The verdict of a response: by its header, otherwise by its status. ``now``: when it arrived, in UTC."""
    delay = _retry_after(response, now)
    close = response.headers.get(CLOSE_HEADER, "").strip().lower()
    if close and close not in _UNITS:
        return _failure(response, delay, _not_one_of(CLOSE_HEADER, _UNITS))
    unit = Closing(close) if close in list(Closing) else None
    named = response.headers.get(VERDICT_HEADER)
    if named is not None:
        return _named(named.strip().lower(), response, delay, unit)
    status = response.status
    if 200 <= status < 300:
        return Decision("done")
    if status == _TOO_MANY_REQUESTS or (status == _UNAVAILABLE and delay is not None):
        if not close and delay:
            unit = Closing.QUEUE
        delay = DEFAULT_DELAY if delay is None else delay
        pause = delay if unit in (None, Closing.QUEUE) else None
        return replace(_failure(response, delay), verb="later", pause=pause, close=unit)
    if 300 <= status < 400:
        return _failure(response, delay, "; redirects are not followed")
    return _failure(response, delay, permanent=400 <= status < 500 and not retries_client_errors)


def decide_without(reason: NoResponse, timeout: float) -> Decision:
    """The verdict when the app has not responded to a request within ``timeout`` seconds, or never will."""
    if reason is NoResponse.TIMEOUT:
        return Decision("fail", f"the app did not respond within {timeout:g} s")
    if reason is NoResponse.BROKEN:
        return Decision("fail", "the app closed the connection before it had responded")
    return Decision("fail", "the response of the app is not valid HTTP/1.1")


def _named(verdict: str, response: Response, delay: float | None, unit: Closing | None) -> Decision:
    if verdict not in _VERDICTS:
        return _failure(response, delay, _not_one_of(VERDICT_HEADER, _VERDICTS))
    if verdict in ("fail", "permanent"):
        return _failure(response, delay, permanent=verdict == "permanent")
    if verdict == "unclaim":
        return Decision(verdict, pause=delay)
    if verdict == "later":
        return Decision(verdict, delay=DEFAULT_DELAY if delay is None else delay, close=unit)
    return Decision(verdict, delay=delay if verdict == "requeue" else None)


def _not_one_of(header: str, words: tuple[str, ...]) -> str:
    return f"; its header {header} is not one of {', '.join(words)}"


def _failure(response: Response, delay: float | None, also: str = "", *, permanent: bool = False) -> Decision:
    detail = response.body[:LONGEST_DETAIL].decode("utf-8", "replace").strip()
    begins = " ".join(detail.split())[:LONGEST_BEGINNING]
    error = f"the app responded with status {response.status}{also}" + (f": {begins}" if begins else "")
    return Decision("fail", error, detail, permanent, None if permanent else delay)


def _retry_after(response: Response, now: datetime) -> float | None:
    """Seconds, from a number or from a date. A date is compared with the response's own, or with ``now``. None without
    a valid one."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_DELAY)
    until = _date(text) if text else None
    if until is None:
        return None
    since = _date(response.headers.get("date", "")) or now.replace(tzinfo=None)
    return min(max((until - since).total_seconds(), 0.0), LONGEST_DELAY)


def _date(text: str) -> datetime | None:
    """An HTTP date, without its time zone, which is always GMT."""
    try:
        return parsedate_to_datetime(text).replace(tzinfo=None)
    except (ValueError, OverflowError):  # the latter of a number with too many digits
        return None
