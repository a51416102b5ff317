"""What the scaling function learns from one observation to the next: arrival rate, service time, start-up
time.

Everything follows from a few numbers that cannot mislead for long. Arrivals: what came into main is what is
in it now, less what was in it before, plus what was claimed in between; that includes requeued and delayed
items. Service time: by Little's law the time that items spent in progress, divided by the number of claims
that ended. Start-up time: how long workers that have become ready had been starting. A counter that goes
backwards (data loss, flush) or a long gap between two observations teaches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

SLOW, LONGEST_SLOW = 60.0, 3600.0
"""Seconds that the slow estimate of the arrival rate averages over: two targets, within these bounds. The fast one
averages over a quarter of that: with a long target a few items at once are no lasting rate."""
LONGEST_SAMPLE = 60.0
"""Seconds between two observations beyond which they are not compared."""
MEMORY, RECENT = 200.0, 30.0
"""Ended claims that the service time averages over; and those that count alone when they took far longer."""
_FAR_LONGER = 1.4
_PRIOR_WEIGHT, _PRIOR_UNTIL = 2.0, 30.0
"""The assumed service time counts as two claims at first, and no longer after 30 have ended."""
_MOST_BUCKETS, _MOST_STARTING = 16, 16
_FIRST_START, _LONGEST_START = 10.0, 300.0


@dataclass(frozen=True, slots=True)
class Estimates:
    """Learned so far. Seconds and items; rates are per second. Immutable: :meth:`after` returns the next
    ones."""

    at: float | None = None
    main: int = 0
    busy: int = 0
    claimed: int | None = None
    ready: int = 0
    starting_for: tuple[float, ...] = ()
    """The longest of the last observation."""
    span: float = SLOW
    """Seconds that the slow estimate averages over."""
    fast: float = 0.0
    slow: float = 0.0
    busy_seconds: float = 0.0
    ended: float = 0.0
    """Claims that have ended; with ``busy_seconds`` it fades, so that about the last 200 count."""
    recent_seconds: float = 0.0
    recent: float = 0.0
    """The same of about the last 30 claims."""
    unended_for: float = 0.0
    """Seconds with items in progress since a claim last ended."""
    start: float = _FIRST_START
    start_variance: float = (_FIRST_START * 0.3) ** 2
    starts: float = 0.0
    arrivals: tuple[tuple[float, int], ...] = ()
    """(since when, how many) of the last arrivals, oldest first, in at most 16 groups."""

    def service(self, assumed: float) -> float:
        """Seconds that an item takes; near ``assumed`` until claims have ended.

        While nothing ends, it grows with the time that items are in progress, but to no more than three
        times what is known: workers that wait for something broken do not justify more workers.
        """
        weight = _PRIOR_WEIGHT * min(1.0, max(0.0, (_PRIOR_UNTIL - self.ended) / 20))
        if self.ended + weight <= 0:
            return assumed
        known = (self.busy_seconds + weight * assumed) / (self.ended + weight)
        lately = self.recent_seconds / self.recent if self.recent >= RECENT / 3 else 0.0
        return max(lately if lately > _FAR_LONGER * known else known, 0.001)

    @property
    def arrival_rate(self) -> float:
        """Items per second: the slow estimate, or the fast one where it is higher by more than chance
        explains."""
        noise = math.sqrt(max(self.slow, 1e-9) / (self.span / 4))
        return self.fast if self.fast > self.slow + 2 * noise else self.slow

    @property
    def slow_start(self) -> float:
        """Seconds that most workers need at most until they claim."""
        return self.start + math.sqrt(self.start_variance)

    def after(
        self,
        now: float,
        *,
        main: int,
        busy: int,
        claimed: int | None,
        ready: int,
        starting_for: tuple[float, ...],
        horizon: float,
    ) -> Estimates:
        """The estimates with one more observation. ``horizon``: seconds for which arrivals are remembered."""
        seen = replace(
            self,
            at=now,
            main=main,
            busy=busy,
            claimed=claimed,
            ready=ready,
            span=min(max(SLOW, horizon), LONGEST_SLOW),
            starting_for=tuple(sorted(starting_for, reverse=True)[:_MOST_STARTING]),
        )
        if self.at is None:
            return seen
        passed = now - self.at
        if not 0 < passed <= LONGEST_SAMPLE:
            return replace(seen, arrivals=())
        seen = _with_starts(seen, self, passed)
        if claimed is None or self.claimed is None or claimed < self.claimed:
            return replace(seen, arrivals=())
        came = max(0, main - self.main + claimed - self.claimed)
        ended = max(0, claimed - self.claimed - (busy - self.busy))
        return _with_arrivals(_with_service(seen, self, passed, ended), self, passed, came, horizon)

    def to_json(self) -> dict[str, float]:
        """What the next process continues from: rounded numbers, a few bytes."""
        return {
            "arrivalRate": round(self.slow, 4),
            "busySeconds": round(self.busy_seconds, 3),
            "ended": round(self.ended, 1),
            "startSeconds": round(self.start, 2),
            "startDeviation": round(math.sqrt(self.start_variance), 2),
            "starts": round(self.starts, 1),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Estimates:
        """What :meth:`to_json` stored. Anything that is not a usable number counts as absent."""
        rate = _usable(stored, "arrivalRate", 0.0)
        ended = min(_usable(stored, "ended", 0.0), MEMORY)
        start = min(_usable(stored, "startSeconds", _FIRST_START), _LONGEST_START)
        return cls(
            fast=rate,
            slow=rate,
            busy_seconds=_usable(stored, "busySeconds", 0.0) if ended else 0.0,
            ended=ended,
            start=start,
            start_variance=min(_usable(stored, "startDeviation", start * 0.3), _LONGEST_START) ** 2,
            starts=_usable(stored, "starts", 0.0),
        )


def _usable(stored: Mapping[str, Any], name: str, absent: float) -> float:
    value = stored.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return absent
    return float(value)


def _with_starts(seen: Estimates, before: Estimates, passed: float) -> Estimates:
    """Workers that have become ready had been starting for as long as the oldest of the last observation,
    and half of the time since."""
    for waited in before.starting_for[: max(0, seen.ready - before.ready)]:
        took = min(waited + passed / 2, _LONGEST_START)
        weight = max(0.1, 1 / (seen.starts + 2))
        error = took - seen.start
        seen = replace(
            seen,
            start=seen.start + weight * error,
            start_variance=seen.start_variance + weight * (error * error - seen.start_variance),
            starts=seen.starts + 1,
        )
    return seen


def _with_service(seen: Estimates, before: Estimates, passed: float, ended: int) -> Estimates:
    in_progress = passed * (seen.busy + before.busy) / 2
    total, count = seen.busy_seconds + in_progress, seen.ended + ended
    lately, recent = seen.recent_seconds + in_progress, seen.recent + ended
    unended_for = 0.0 if ended or not seen.busy else seen.unended_for + passed
    if unended_for and seen.ended and unended_for > 3 * before.service(0.0):
        total, lately = seen.busy_seconds, seen.recent_seconds  # nothing ends any more: see service()
    if count > MEMORY:
        total, count = total * MEMORY / count, MEMORY
    if recent > RECENT:
        lately, recent = lately * RECENT / recent, RECENT
    return replace(
        seen, busy_seconds=total, ended=count, recent_seconds=lately, recent=recent, unended_for=unended_for
    )


def _with_arrivals(seen: Estimates, before: Estimates, passed: float, came: int, horizon: float) -> Estimates:
    at = seen.at or 0.0
    kept = [one for one in before.arrivals if at - one[0] <= horizon]
    if came:
        since = at - passed
        if kept and since - kept[-1][0] < horizon / (_MOST_BUCKETS - 2):
            kept[-1] = (kept[-1][0], kept[-1][1] + came)
        else:
            kept.append((since, came))
    rates = {
        name: rate + (1 - math.exp(-passed / span)) * (came / passed - rate)
        for name, rate, span in (("fast", before.fast, seen.span / 4), ("slow", before.slow, seen.span))
    }
    return replace(seen, arrivals=tuple(kept[-_MOST_BUCKETS:]), fast=rates["fast"], slow=rates["slow"])
