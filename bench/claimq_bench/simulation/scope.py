"""What limits let start, of the whole queue, of one client or of one key: in whole numbers, as the scripts count."""

from __future__ import annotations

from claimq.limits import UNBOUNDED, Limit, Limits, rate_of


class Bucket:
    """How much a rate lets start. A start adds ``period`` to the level for each unit, and a tick takes ``starts``
    away."""

    def __init__(self, limit: Limit) -> None:
        self._starts, self._period = rate_of("rate", limit.rate)
        self._full = (limit.burst or 1) * self._period
        self._empty_at = 0
        """When the level is zero, in ticks times ``starts``."""

    def free(self, now: int) -> int:
        """How many units may start now."""
        return (self._full - max(0, self._empty_at - now * self._starts)) // self._period

    def next_start(self, now: int, units: int = 1) -> int:
        """The first tick from now on at which so many units may start."""
        return max(now, -((self._full - units * self._period - self._empty_at) // self._starts))

    def add(self, start: int, units: int = 1) -> None:
        """Counts units that start."""
        self._empty_at = max(self._empty_at, start * self._starts) + units * self._period


class Scope:
    """The limits of the queue, a client or a key, and what these have in progress."""

    def __init__(self, limits: Limits, busy: int = 0, cost: int = 0) -> None:
        self._limits = limits
        self._buckets = {limit.name: Bucket(limit) for limit in limits if limit.rate is not None}
        self.busy, self.cost = busy, cost

    def rooms(self, now: int, cost: float) -> dict[str, int]:
        """By limit, how many items of this cost it lets start now."""
        return {limit.name: self._room(limit, now, cost) for limit in self._limits}

    def room(self, now: int, cost: float) -> int:
        """How many all limits let start."""
        return min(self.rooms(now, cost).values(), default=UNBOUNDED)

    def is_full(self, cost: float) -> bool:
        """Whether an item of this cost waits for the end of another one."""
        return any(self._room(limit, 0, cost) < 1 for limit in self._limits if limit.busy is not None)

    def next_start(self, now: int, cost: int) -> int:
        """The first tick from now on at which the rates let an item of this cost start."""
        starts = (
            self._buckets[limit.name].next_start(now, _units(limit, cost))
            for limit in self._limits
            if limit.rate is not None
        )
        return max(starts, default=now)

    def start(self, now: int, cost: int) -> None:
        """Counts an item that starts."""
        self.busy, self.cost = self.busy + 1, self.cost + cost
        for limit in self._limits:
            if limit.rate is not None:
                self._buckets[limit.name].add(now, _units(limit, cost))

    def end(self, cost: int) -> None:
        """Counts an item that ends."""
        self.busy, self.cost = self.busy - 1, self.cost - cost

    def _room(self, limit: Limit, now: int, cost: float) -> int:
        units = min(cost, limit.at_once) if limit.is_by_cost else 1
        if limit.busy is None:
            return int(self._buckets[limit.name].free(now) // units)
        return max(0, int((limit.busy - (self.cost if limit.is_by_cost else self.busy)) // units))


def _units(limit: Limit, cost: int) -> int:
    """What an item counts for a rate."""
    return min(cost, limit.at_once) if limit.is_by_cost else 1
