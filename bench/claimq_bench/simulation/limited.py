"""A simulated queue with limits, in the whole numbers of the scripts (``lib/start_limits.lua``)."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from claimq.limits import Limit, Limits, LimitsNow, Per, rate_of
from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import SLOT_BITS, SLOT_MASK, TICKS, PodSettings, Victims, World

_NEVER = 1e9
"""Seconds: after the end of every run."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of the whole queue that hold until so many seconds after the start. Raises ValueError for a limit of each
    client, since a simulated queue has no clients."""

    limits: Limits
    until: float = _NEVER

    def __post_init__(self) -> None:
        for limit in self.limits:
            if limit.per is not Per.QUEUE:
                raise ValueError(
                    f"{limit.name} is per {limit.per}, and simulated items have none; use per=queue"
                )
            if limit.is_by_cost:
                raise ValueError(f"{limit.name} counts costs, and simulated items cost 1; use unit=items")


class Bucket:
    """How many items a rate lets start. A start adds ``period`` to the level, and a tick takes ``starts`` away."""

    def __init__(self, limit: Limit) -> None:
        self._starts, self._period = rate_of("rate", limit.rate)
        self._full = (limit.burst or 1) * self._period
        self._empty_at = 0
        """When the level is zero, in ticks times ``starts``."""

    def free(self, now: int) -> int:
        """How many items may start now."""
        return (self._full - max(0, self._empty_at - now * self._starts)) // self._period

    def next_start(self, now: int) -> int:
        """The first tick from now on at which an item may start."""
        return max(now, -((self._full - self._period - self._empty_at) // self._starts))

    def add(self, start: int) -> None:
        """Counts an item that starts."""
        self._empty_at = max(self._empty_at, start * self._starts) + self._period


class LimitedWorld(World):
    """A queue whose items start when all limits let them."""

    def __init__(
        self, trace: Trace, pods: PodSettings, held_by: QueueLimits, *, seed: int, victims: Victims
    ) -> None:
        super().__init__(trace, pods, seed=seed, victims=victims)
        self._limits, self._until = held_by.limits, round(held_by.until * TICKS)
        self._rates = {limit.name: Bucket(limit) for limit in self._limits if limit.rate is not None}
        self._most = min((limit.busy for limit in self._limits if limit.busy is not None), default=None)

    @property
    def limits(self) -> LimitsNow | None:
        """The limits that hold, as the queue's server reports them."""
        if self._now >= self._until:
            return None
        by_rate = {name: rate.free(self._now) for name, rate in self._rates.items()}
        room = [*by_rate.values(), *([] if self._most is None else [max(0, self._most - self.busy)])]
        starts = [(rate.next_start(self._now) - self._now) / TICKS for rate in self._rates.values()]
        return LimitsNow(self._limits, min(room), max(starts, default=0.0) or None, by_rate)

    def _work(self, until: int) -> None:
        if self._now < self._until:
            self._work_within_limits(min(until, self._until - 1))
            if until < self._until:
                return
            lifted = self._until << SLOT_BITS
            self._free = [max(slot, lifted | (slot & SLOT_MASK)) for slot in self._free]
            heapify(self._free)
        super()._work(until)

    def _work_within_limits(self, until: int) -> None:
        ends, start = self._ends(), self._now
        while self._free and (came := self._first_came()) is not None:
            start = self._next_start(max(start, self._free[0] >> SLOT_BITS, came), ends)
            if start > until:
                return
            if self._returned and self._returned[0][0] <= start:
                item = self._returned.pop(0)[1]
            else:
                item, self._next = self._next, self._next + 1
                self.tally.waits.append(start - self._arrivals[item])
            end, slot = start + self._services[item], self._free[0] & SLOT_MASK
            heapreplace(self._free, (end << SLOT_BITS) | slot)
            heappush(ends, end)
            self._item_of[slot] = item
            self._claimed += 1
            for rate in self._rates.values():
                rate.add(start)

    def _first_came(self) -> int | None:
        """When the first of the items came that have not been started."""
        came = [*self._arrivals[self._next : self._next + 1], *(at for at, _ in self._returned[:1])]
        return min(came, default=None)

    def _next_start(self, start: int, ends: list[int]) -> int:
        """When the limits let an item start that could start then."""
        start = max([start, *(rate.next_start(start) for rate in self._rates.values())])
        while ends and (ends[0] <= start or (self._most is not None and len(ends) >= self._most)):
            start = max(start, heappop(ends))
        return start

    def _ends(self) -> list[int]:
        """A heap of when the items in progress end."""
        busy, now = set(self._busy_slots()), self._now
        ends = [slot >> SLOT_BITS for slot in self._free if slot & SLOT_MASK in busy]
        ends += [end for end in self._leaving if end > now]
        ends += [at for at, _ in self._returned if at > now]
        heapify(ends)
        return ends
