"""Estimates the arrival rate, service time and start-up time from observations.

Arrivals: the length of main now, minus its length before, plus the items claimed in between; this includes requeued and
delayed items. Service time: by Little's law the time that items spent in progress, divided by the number of claims that
ended. Start-up time: how long workers that have become ready had been starting. An observation after a counter went
backwards (data loss, flush) or after a long gap is ignored.
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
MEMORY, RECENT = 300.0, 40.0
"""Ended claims that the service time averages over, and the number of recent ones that count alone if they took far
longer."""
_FAR_LONGER = 1.8
_DOUBTED_AFTER, _PROOF = 600.0, 6.0
"""Seconds in which most of the doubt about a service time returns, and the number of ended claims that removes most
of it."""
_PRIOR_WEIGHT, _PRIOR_UNTIL = 2.0, 30.0
"""The assumed service time counts as two claims at first, and no longer after 30 have ended."""
_SHARE_FADE = 0.9
"""What the share of claimed items keeps of itself with each claim."""
_MOST_BUCKETS, _MOST_STARTING = 16, 16
_FIRST_START, _LONGEST_START = 10.0, 300.0
_LARGEST_STORED, _LONGEST_SERVICE = 1e6, 1e6
"""The largest number and the longest service time (seconds) that are believed when they are read: every user who may
write a status can write others."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates, in seconds and items; rates are per second. Immutable: :meth:`after` returns the next ones."""

    at: float | None = None
    main: int = 0
    busy: int = 0
    claimed: int | None = None
    ready: int = 0
    starting_for: tuple[float, ...] = ()
    """The longest of the last observation."""
    held: int = 0
    claimed_share: float = 1.0
    """Of the items that leave main, those that are claimed. The keys of the others are busy, which only a claim finds
    out. 1 while no item is held."""
    span: float = SLOW
    """Seconds that the slow estimate averages over."""
    fast: float = 0.0
    slow: float = 0.0
    busy_seconds: float = 0.0
    ended: float = 0.0
    """Claims that have ended; with ``busy_seconds`` it fades, so that about the last 300 count."""
    recent_seconds: float = 0.0
    recent: float = 0.0
    """The same for about the last 40 claims."""
    unended_for: float = 0.0
    """Seconds with items in progress since a claim last ended."""
    unproven: float = 0.0
    """Seconds since claims last ended; a few that end prove the service time again. 0 until one has ended."""
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
        mean = self._mean(assumed, 0.0)
        lately = self.recent_seconds / self.recent if self.recent >= RECENT / 3 else 0.0
        return max(lately if lately > _FAR_LONGER * mean else mean, 0.001)

    def expected_service(self, assumed: float, busy: int) -> float:
        """The same without a margin: the items in progress count as half done. While few have ended, :meth:`service`
        is too long by the time that these have taken so far, and nothing corrects that where a limit holds items
        back."""
        return max(self._mean(assumed, busy / 2 * (1 - self.ended / MEMORY)), 0.001)

    def _mean(self, assumed: float, more_ended: float) -> float:
        weight = _PRIOR_WEIGHT * min(1.0, max(0.0, (_PRIOR_UNTIL - self.ended) / 20))
        return (self.busy_seconds + weight * assumed) / (self.ended + weight + more_ended)

    @property
    def arrival_rate(self) -> float:
        """Items per second: the slow estimate, or the fast one where they differ by more than chance
        explains."""
        noise = math.sqrt(max(self.slow, 1e-9) / (self.span / 4))
        return self.fast if abs(self.fast - self.slow) > 2 * noise else self.slow

    @property
    def doubt(self) -> float:
        """How many times as long as :meth:`service` an item may take: 1, and up to 3 when that was learned long
        ago."""
        return 3.0 - 2.0 * math.exp(-self.unproven / _DOUBTED_AFTER)

    @property
    def slow_start(self) -> float:
        """Seconds that most workers need at most until they claim."""
        return self.start + math.sqrt(self.start_variance)

    def may_start_late(self, seconds: float) -> bool:
        """Whether one of a hundred workers takes longer than this to start, although most do not."""
        return self.starts >= 1 and self.start < seconds < self.start + 2.5 * math.sqrt(self.start_variance)

    def after_claims(self, claimed: int | None, held: int) -> Estimates:
        """The estimates with where the items went that have left main since the last observation."""
        if not held or claimed is None or self.claimed is None or claimed < self.claimed:
            return replace(self, held=held, claimed_share=self.claimed_share if held else 1.0)
        more = (
            held - self.held
        )  # each one fewer was let go to the head of main, and claimed before all others
        taken, put_aside = max(0, claimed - self.claimed + min(0, more)), max(0, more)
        if not taken and not put_aside:
            return replace(self, held=held)
        weight = 1 - _SHARE_FADE ** max(taken, 1)
        error = taken / (taken + put_aside) - self.claimed_share
        return replace(self, held=held, claimed_share=self.claimed_share + weight * error)

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
        """The estimates with one more observation. ``horizon``: seconds for which arrivals are remembered; the slow
        arrival rate averages over twice as many."""
        changes: dict[str, Any] = {
            "at": now,
            "main": main,
            "busy": busy,
            "claimed": claimed,
            "ready": ready,
            "span": min(max(SLOW, 2 * horizon), LONGEST_SLOW),
            "starting_for": tuple(sorted(starting_for, reverse=True)[:_MOST_STARTING]),
        }
        if self.at is None:
            return replace(self, **changes)
        passed = now - self.at
        if not 0 < passed <= LONGEST_SAMPLE:
            return replace(self, **changes, arrivals=())
        changes |= _starts(self, ready, passed)
        if claimed is None or self.claimed is None or claimed < self.claimed:
            return replace(self, **changes, arrivals=())
        came = max(0, main - self.main + claimed - self.claimed)
        ended = max(0, claimed - self.claimed - (busy - self.busy))
        changes |= _service(self, busy, passed, ended)
        changes |= _arrivals(self, now, changes["span"], came, horizon)
        return replace(self, **changes)

    def to_json(self) -> dict[str, float]:
        """The estimates as JSON for the next process: rounded numbers, a few bytes."""
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
        """The estimates that :meth:`to_json` stored. Values that it cannot have stored count as absent."""
        rate = _usable(stored, "arrivalRate", 0.0)
        ended = min(_usable(stored, "ended", 0.0), MEMORY)
        busy_seconds = _usable(stored, "busySeconds", 0.0, _LONGEST_SERVICE * MEMORY)
        if busy_seconds > _LONGEST_SERVICE * ended:
            busy_seconds = ended = 0.0
        start = min(_usable(stored, "startSeconds", _FIRST_START), _LONGEST_START)
        return cls(
            fast=rate,
            slow=rate,
            busy_seconds=busy_seconds,
            ended=ended,
            start=start,
            start_variance=min(_usable(stored, "startDeviation", start * 0.3), _LONGEST_START) ** 2,
            starts=_usable(stored, "starts", 0.0),
        )


def _usable(stored: Mapping[str, Any], name: str, absent: float, largest: float = _LARGEST_STORED) -> float:
    number = stored.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= largest:
        return absent
    return float(number)


def _starts(before: Estimates, ready: int, passed: float) -> dict[str, float]:
    """The starts of workers that have become ready. Each took as long as the oldest of the last observation, and half
    of the time since."""
    start, variance, starts = before.start, before.start_variance, before.starts
    for waited in before.starting_for[: max(0, ready - before.ready)]:
        weight = max(0.1, 1 / (starts + 2))
        error = min(waited + passed / 2, _LONGEST_START) - start
        start += weight * error
        variance += weight * (error * error - variance)
        starts += 1
    return {"start": start, "start_variance": variance, "starts": starts}


def _service(before: Estimates, busy: int, passed: float, ended: int) -> dict[str, float]:
    in_progress = passed * (busy + before.busy) / 2
    total, count = before.busy_seconds + in_progress, before.ended + ended
    lately, recent = before.recent_seconds + in_progress, before.recent + ended
    unended_for = 0.0 if ended or not busy else before.unended_for + passed
    if unended_for and before.ended and unended_for > 3 * before.service(0.0):
        total, lately = before.busy_seconds, before.recent_seconds  # nothing ends any more: see service()
    if count > MEMORY:
        total, count = total * MEMORY / count, MEMORY
    if recent > RECENT:
        lately, recent = lately * RECENT / recent, RECENT
    return {
        "busy_seconds": total,
        "ended": count,
        "recent_seconds": lately,
        "recent": recent,
        "unended_for": unended_for,
        "unproven": (before.unproven + passed) * math.exp(-ended / _PROOF) if count else 0.0,
    }


def _arrivals(before: Estimates, now: float, span: float, came: int, horizon: float) -> dict[str, Any]:
    since = before.at or 0.0
    passed = now - since
    arrivals = before.arrivals
    if arrivals and now - arrivals[0][0] > horizon:
        arrivals = tuple(bucket for bucket in arrivals if now - bucket[0] <= horizon)
    if came:
        if arrivals and since - arrivals[-1][0] < horizon / (_MOST_BUCKETS - 2):
            arrivals = (*arrivals[:-1], (arrivals[-1][0], arrivals[-1][1] + came))
        else:
            arrivals = (*arrivals, (since, came))[-_MOST_BUCKETS:]
    fast, slow = (1 - math.exp(-passed / seconds) for seconds in (span / 4, span))
    return {
        "arrivals": arrivals,
        "fast": before.fast + fast * (came / passed - before.fast),
        "slow": before.slow + slow * (came / passed - before.slow),
    }
