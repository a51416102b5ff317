"""What keeps items from starting, as plain Python: pauses, and limits by the starts that they count."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf

from claimq import Limit
from claimq.limits import TemporaryLimit as Temporary
from claimq.limits import in_force, rate_of
from claimq.policy import Policy
from testkit.checkers.model_item import ModelItem, Order
from testkit.checkers.model_pauses import ModelPauses

DEFAULTS = Policy()
_COUNTED = re.compile(r"\|[01]\+? \d+ .* queue busy \d+ cost")


@dataclass
class _Start:
    """A start that a rate counts, or a give-back, from which on a changed limit holds (no item)."""

    at: int
    rate: tuple[int, int, int]
    """Units, milliseconds and burst."""
    item: int = 0
    """The number of its claim, which was made in this call."""
    units: int = 0
    call: int = 0
    returned: tuple[bool, bool] = (False, False)
    """Whether its units are given back for sure, and perhaps."""


@dataclass
class HeldBack:
    """Instants are ms. A give-back returns a start to its rate, but what time has returned is the server's to choose:
    so it is sure of some items that they may start, and of others only that they may not."""

    policy: Policy = DEFAULTS
    temporary: dict[str, Temporary] = field(default_factory=dict[str, Temporary])
    pauses: ModelPauses = field(default_factory=ModelPauses)
    _starts: dict[tuple[str, str], list[_Start]] = field(default_factory=dict[tuple[str, str], list[_Start]])
    """Of a limit's name, and of what it holds for."""
    _lapsed: set[str] = field(default_factory=set[str])
    """Limits of whose starts some were forgotten, perhaps not by the server."""
    _calls: int = 0
    """Claims, and changes of the limits, so far."""

    @property
    def has_limits(self) -> bool:
        """Whether the queue has limits, also ones that are off or over."""
        return bool(self.policy.limits or self.temporary)

    def limits(self, now: int) -> tuple[Limit, ...]:
        """Those that hold."""
        return in_force(
            self.policy.limits, [one for one in self.temporary.values() if one.until * 1000 > now]
        )

    def has_client_limits(self, now: int) -> bool:
        """Whether some hold for each client."""
        return any(limit.per == "client" for limit in self.limits(now))

    def startable(self, now: int, busy: Sequence[ModelItem], counted: str) -> tuple[float, float] | None:
        """The fewest and the most items that may start by the limits of the queue; None without a limit.
        ``counted``: what the server notes of the limits for which it has counted the costs in progress."""
        limits = self.limits(now)
        is_counted = _COUNTED.search(counted) is not None
        frees = [
            self._free(limit, "", now, busy if is_counted or not limit.is_by_cost else ())
            for limit in limits
            if limit.per == "queue"
        ]
        least = (
            0 if any(limit.is_by_cost for limit in limits) else min((free for free, _ in frees), default=inf)
        )
        return (max(least, 0), min((max(free, 0) for _, free in frees), default=inf)) if limits else None

    def fits(
        self,
        now: int,
        item: ModelItem,
        before: Sequence[ModelItem],
        busy: Sequence[ModelItem],
        *scopes: str,
    ) -> tuple[bool, bool]:
        """Whether an item may start for sure, and perhaps, once those before do. ``scopes``: of the limits that count;
        all of them if none is named. Without a bound per key that is 1."""
        surely = perhaps = item.client == "-" or not self.pauses.is_paused(now, item.client)
        limits = self.limits(now)
        if not any(limit.per == "key" and limit.busy for limit in limits):
            limits = (*limits, Limit("one", per="key", busy=1))
        for limit in limits:
            scope = _scope(limit, item)
            if scope is not None and (not scopes or limit.per in scopes):
                units = sum(_units(limit, one) for one in (*before, item) if _scope(limit, one) == scope)
                least, most = self._free(limit, scope, now, busy)
                surely, perhaps = surely and units <= least, perhaps and units <= most
        return surely, perhaps

    def _free(self, limit: Limit, scope: str, now: int, busy: Sequence[ModelItem]) -> tuple[int, int]:
        """The fewest and the most units that a limit lets start."""
        if limit.busy is not None:
            free = limit.busy - sum(_units(limit, one) for one in busy if _scope(limit, one) == scope)
            return free, free
        starts = self._starts.get((limit.name, scope), [])
        least, most = (
            self._room(limit, now, [replace(one, units=0) if one.returned[at] else one for one in starts])
            for at in (0, 1)
        )
        return 0 if scope and limit.name in self._lapsed else least, most

    def _room(self, limit: Limit, now: int, starts: list[_Start]) -> int:
        level, before, spec = 0, starts[0].at if starts else now, None
        for start in [*starts, _Start(now, _rate_of(limit))]:
            number, period, burst = start.rate
            if spec is not None and spec != (period, burst):
                level = min(ceil(level / spec[0] * period), burst * period)
            level = max(0, level - (start.at - before) * number) + start.units * period
            before, spec = start.at, (period, burst)
        _, period, burst = _rate_of(limit)
        return max(0, (burst * period - level) // period)

    def started(self, now: int, items: Sequence[ModelItem]) -> None:
        """These have been claimed, and count."""
        if items and self.has_limits:
            self._calls += 1
            for limit, starts, item in self._rates_of(now, items):
                starts.append(_Start(now, _rate_of(limit), item.number, _units(limit, item), self._calls))

    def given_back(self, now: int, items: Sequence[ModelItem]) -> None:
        """These, whose apps have not begun. What a claim has just taken by cost returns, if none came after it."""
        for limit, starts, item in self._rates_of(now, items):
            for start in (start for start in starts if start.item == item.number):
                is_last = (start.call, start.at) == (self._calls, now)
                start.returned = (limit.is_by_cost and is_last, True)
            starts.append(_Start(now, _rate_of(limit)))

    def _rates_of(
        self, now: int, items: Sequence[ModelItem]
    ) -> Iterator[tuple[Limit, list[_Start], ModelItem]]:
        """The rates of each item, with the starts that they count. Those of other limits are forgotten now."""
        rates = [limit for limit in self.limits(now) if limit.rate is not None]
        if items and self.has_limits:
            self._forget({limit.name for limit in rates}, and_of_queue=True)
        for limit in rates:
            for item in items:
                if (scope := _scope(limit, item)) is not None:
                    yield limit, self._starts.setdefault((limit.name, scope), []), item

    def _forget(self, names: set[str], *, and_of_queue: bool) -> None:
        """Of limits that do not hold the starts are forgotten."""
        for key in [key for key in self._starts if key[0] not in names and (key[1] or and_of_queue)]:
            del self._starts[key]
            self._lapsed |= {key[0]} if key[1] else set()

    def change_limit(self, now: int, limit: Limit, seconds: int | None) -> None:
        """For so many seconds, or of the policy."""
        self.temporary = {
            name: one for name, one in self.temporary.items() if one.until * 1000 > now and name != limit.name
        }
        if seconds is not None:
            self.temporary[limit.name] = Temporary(limit.name, limit, now / 1000 + seconds)
        self.forget()

    def forget(self) -> None:
        """Maintenance may remove starts of clients for a limit that is no more."""
        self._calls += 1
        self._forget({limit.name for limit in self.policy.limits} | self.temporary.keys(), and_of_queue=False)


class UnderPolicy:
    """A queue's clock, its policy, and what that holds back."""

    def __init__(self, now: int) -> None:
        """Nothing is held back."""
        self.now, self.held_back = now, HeldBack()

    @property
    def policy(self) -> Policy:
        """That of the queue."""
        return self.held_back.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.held_back.policy = policy
        self.held_back.forget()

    @property
    def is_paused(self) -> bool:
        """Whether no item is claimed."""
        return self.held_back.pauses.is_paused(self.now)

    def is_too_large(self, orders: Iterable[Order]) -> bool:
        """Whether the call is refused."""
        return any(len(order.payload) > self.policy.max_payload for order in orders)

    def is_too_costly(self, order: Order) -> bool:
        """Whether it could never start."""
        item = ModelItem(order.payload, client=order.client, cost=order.cost)
        return any(
            limit.is_by_cost
            and _scope(limit, item) is not None
            and order.cost > (limit.busy or limit.burst or 1)
            for limit in self.held_back.limits(self.now)
        )


def _scope(limit: Limit, item: ModelItem) -> str | None:
    """What a limit holds for: "" for the queue, or the item's client or key; None if that has none."""
    if limit.per == "queue":
        return ""
    name = item.key if limit.per == "key" else item.client.removeprefix("-")
    return f"{limit.per} {name}" if name else None


def _units(limit: Limit, item: ModelItem) -> int:
    """What an item counts."""
    return min(item.cost, limit.busy or limit.burst or 1) if limit.is_by_cost else 1


def _rate_of(limit: Limit) -> tuple[int, int, int]:
    assert limit.rate is not None
    return (*rate_of("rate", limit.rate), limit.burst or 1)
