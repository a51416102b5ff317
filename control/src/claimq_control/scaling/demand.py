"""Computes how many workers start all waiting items within the target, and how many keep up with arrivals.

*Deadlines*: each waiting item has to start before its age is 0.85 of the target. If the workers that are ready or
starting are too few for that, more are needed. This is the demand test for earliest-deadline-first scheduling, with
credit for workers that are already starting. *Balance*: by Little's law, arrivals times service time is the number of
busy workers that keeps up; around it the queue is steered to an age of 0.4 of the target, so that workers are seldom
idle. The reserve for random variation grows with the square root of the number of workers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

from claimq_control.scaling.estimates import Estimates
from claimq_control.scaling.values import Observation

_MARGIN = 0.85
"""Items are planned to start within this share of the target, since observations are old when they take effect."""
_STEERED_AGE = 0.4
"""Share of the target around which the age of the queue is kept."""
_CORRECTION = 1.0
"""Number of target ages within which the queue is brought back to that age."""
_LEAST_BALANCE = 0.75
"""Of the workers that keep up with arrivals, the share that stays even if the queue is shorter than that."""
_FEW = 2.0
"""If at most this many workers keep up with arrivals, no share stays: two would be idle for half of the time where one
and a half are enough, so one works until the queue is old enough for a second."""
_CHANCE = 1.0
"""Deviations of a Poisson number of starts that are held in reserve."""
_ASSUMED, _LONGEST_ASSUMED = 0.1, 30.0
"""Share of the target that an item is assumed to take until some have been done, and the seconds it is at
most."""
_CATCH_UP = 1.25
"""A new worker is expected to start its share of the items within this many start-up times, also of items for
which it comes too late: a worker for each item that is nearly late would soon be idle."""
_AHEAD = (5.0, 15.0, 30.0)
"""Seconds for which arrivals at the present rate are planned, after the waiting items."""
_SOON = 0.5
"""Items that have not arrived need no worker yet if one that is ordered this share of the target later is in time."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Numbers of workers. ``more``: to add for the deadlines. ``fewest``: enough to meet all deadlines. ``balance``:
    for the arrivals. ``most``: more than these would be idle."""

    more: int
    fewest: int
    balance: int
    most: int
    service: float
    rate: float
    patience: float
    """Seconds for which adding ``more`` can wait without an item being late."""
    is_limited: bool = False
    """Whether ``most`` is what the limits of the queue let work at once, and the deadlines or arrivals need more."""

    @property
    def replicas(self) -> int:
        """The desired number of workers, before bounds."""
        return min(max(self.fewest + self.more, self.balance), max(self.most, 1))


def demand(target: float, observation: Observation, estimates: Estimates) -> Demand:
    """The demand of the items. ``target``: seconds within which an item should be started. Pure arithmetic,
    O(groups log workers)."""
    assumed = min(_ASSUMED * target, _LONGEST_ASSUMED)
    service = estimates.service(assumed)
    rate, start = estimates.arrival_rate, estimates.slow_start
    supply = _Supply.of(observation, service * estimates.doubt, start)
    waiting, expected = _waiting(target, observation, estimates), _expected(target, observation, rate)
    soon = [group for group in expected if group.within - start <= _SOON * target]
    more, patience = _missing([*waiting, *soon], supply, start)
    fewest = observation.replicas if more else _fewest([*waiting, *expected], supply, observation.replicas)
    little = rate * service / observation.slots
    surplus = (observation.waiting - rate * _STEERED_AGE * target) * service / observation.slots
    least = _LEAST_BALANCE if little > _FEW else 0.0
    exact = max(little + surplus / (_CORRECTION * target), least * little)
    is_near = observation.replicas > 0 and abs(exact - observation.replicas) <= max(
        1.0, 0.6 * math.sqrt(observation.replicas)
    )
    balance = observation.replicas if is_near else round(exact)
    useful = math.ceil(
        (observation.load + observation.delayed_soon + math.ceil(rate * start)) / observation.slots
    )
    by_limits = useful
    if observation.limits is not None:
        mean = estimates.expected_service(assumed, observation.busy)
        at_once = observation.limits.useful_slots(mean, observation.busy)
        by_limits = math.ceil(at_once / observation.slots - 1e-9)
    is_limited = by_limits < min(useful, max(fewest + more, balance))
    return Demand(
        more, fewest, balance, min(useful, by_limits), service, rate, patience, is_limited=is_limited
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """How many items, counted from the oldest, have to be started within how many seconds from now."""

    within: float
    items: float


def _waiting(target: float, observation: Observation, estimates: Estimates) -> list[_Group]:
    """The groups of items that wait or are due soon."""
    within, count = _MARGIN * target, 0.0
    groups: list[_Group] = []
    for age, items in _ages(observation, estimates):
        count += items
        groups.append(_Group(within - age, count))
    if observation.delayed_soon:
        count += observation.delayed_soon
        groups.append(_Group(within, count))
    return groups


def _expected(target: float, observation: Observation, rate: float) -> list[_Group]:
    """The groups of items that have not arrived."""
    count = observation.waiting + observation.delayed_soon
    return [_Group(_MARGIN * target + ahead, count + rate * ahead) for ahead in _AHEAD]


def _ages(observation: Observation, estimates: Estimates) -> list[tuple[float, int]]:
    """(age, items) of what waits, oldest first. The newest arrivals are those that wait; what came before
    the first that is remembered counts as old as the oldest item."""
    now, remaining = estimates.at or 0.0, observation.waiting
    oldest = max(0.0, observation.oldest_age or 0.0)
    groups: list[tuple[float, int]] = []
    for since, came in reversed(estimates.arrivals):
        if remaining <= 0:
            break
        items = min(came, remaining)
        groups.append((min(now - since, oldest), items))
        remaining -= items
    if remaining > 0:
        groups.append((oldest, remaining))
    return groups[::-1]


@dataclass(frozen=True, slots=True)
class _Supply:
    """How many items workers start within a time. ``rests``: seconds until each starting worker claims,
    soonest first."""

    replicas: int
    ready: int
    slots: int
    busy: int
    service: float
    start: float
    rests: tuple[float, ...]

    @classmethod
    def of(cls, observation: Observation, service: float, start: float) -> _Supply:
        """What is there. A worker whose age is unknown needs the whole time."""
        known_rests = sorted(max(1.0, start - waited) for waited in observation.starting_for)
        unknown = max(0, observation.replicas - observation.ready - len(known_rests))
        rests = (*known_rests, *[start] * unknown)
        return cls(
            observation.replicas,
            observation.ready,
            observation.slots,
            observation.busy,
            service,
            start,
            rests,
        )

    def within(self, seconds: float, replicas: int) -> float:
        """Items that are started within so many seconds by so many of the workers that are there."""
        ready = min(self.ready, replicas)
        later = ready * self.slots * seconds / self.service
        started = max(0, ready * self.slots - self.busy) + max(0.0, later - _CHANCE * math.sqrt(later))
        for seconds_left in self.rests[: replicas - ready]:
            if seconds_left > seconds:
                break
            started += self.slots * (1 + (seconds - seconds_left) / self.service)
        return started

    def of_new_worker(self, seconds: float) -> float:
        """Items that a worker that is ordered now starts within so many seconds, which are enough for its start."""
        return self.slots * (1 + (seconds - self.start) / self.service)


def _missing(groups: list[_Group], supply: _Supply, start: float) -> tuple[int, float]:
    """Workers to add, and the seconds for which the order can wait. An older item never needs fewer."""
    more, patience = 0, math.inf
    for group in groups:
        within = max(group.within, _CATCH_UP * start)
        short = group.items - supply.within(within, supply.replicas)
        if short > 0:
            more = max(more, math.ceil(short / supply.of_new_worker(within) - 1e-9))
            patience = min(patience, group.within - start)
    return more, patience


def _fewest(groups: list[_Group], supply: _Supply, replicas: int) -> int:
    """The smallest number of the present workers that starts every group in time; all of them, if no number does."""
    fewest = 1
    for group in groups:
        enough = partial(supply.within, max(0.0, group.within))
        if fewest < replicas and enough(fewest) < group.items:
            fewest = bisect_left(range(replicas), group.items, lo=fewest + 1, key=enough)
    return min(fewest, replicas)
