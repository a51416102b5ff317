"""What keeps items from starting, as plain Python: pauses, and limits by the starts that they count."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from claimq import Limit
from claimq.limits import TemporaryLimit as Temporary
from claimq.limits import in_force, rate_of
from claimq.policy import Policy
from testkit.checkers.model_item import Order
from testkit.checkers.model_pauses import ModelPauses

DEFAULTS = Policy()


@dataclass(frozen=True)
class _Start:
    """A start that a rate counts, or a give-back, from which on a changed limit holds (no number)."""

    at: int
    number: int | None
    rate: tuple[int, int, int]
    """Items, milliseconds and burst."""


@dataclass
class HeldBack:
    """Instants are ms. A give-back returns a start to its rate, but what time has returned is the server's to choose:
    so the number of items that may start is between two."""

    policy: Policy = DEFAULTS
    temporary: dict[str, Temporary] = field(default_factory=dict[str, Temporary])
    pauses: ModelPauses = field(default_factory=ModelPauses)
    _starts: dict[tuple[str, str], list[_Start]] = field(default_factory=dict[tuple[str, str], list[_Start]])
    """Of a limit's name, and of a client or "" for all of them."""
    _returned: set[int] = field(default_factory=set[int])

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

    def startable(self, now: int, busy: int) -> tuple[float, float] | None:
        """The fewest and the most items that may start by the limits of the queue; None without a limit."""
        return self._between("", now, busy) if self.limits(now) else None

    def room(self, client: str, now: int, busy: int) -> tuple[float, float]:
        """The same for a client by its pause and the limits that each has. Of its rates only the most is known."""
        if client != "-" and self.pauses.is_paused(now, client):
            return 0, 0
        least, most = self._between(client, now, busy) if client != "-" else (inf, inf)
        has_rates = any(limit.per == "client" and limit.rate for limit in self.limits(now))
        return 0 if has_rates and client != "-" else least, most

    def _between(self, client: str, now: int, busy: int) -> tuple[float, float]:
        least, most = [inf], [inf]
        for limit in self.limits(now):
            if (limit.per == "client") != bool(client):
                continue
            if limit.busy is not None:
                least.append(max(0, limit.busy - busy))
                most.append(least[-1])
            else:
                starts = self._starts.get((limit.name, client), [])
                counting = [
                    _Start(one.at, None if one.number in self._returned else one.number, one.rate)
                    for one in starts
                ]
                least.append(self._room(limit, now, starts))
                most.append(self._room(limit, now, counting))
        return min(least), min(most)

    def _room(self, limit: Limit, now: int, starts: list[_Start]) -> int:
        level, before, spec = 0, starts[0].at if starts else now, None
        for start in [*starts, _Start(now, None, _rate_of(limit))]:
            number, period, burst = start.rate
            if spec is not None and spec != (period, burst):
                level = min(ceil(level / spec[0] * period), burst * period)
            level = max(0, level - (start.at - before) * number)
            level += period if start.number is not None else 0
            before, spec = start.at, (period, burst)
        _, period, burst = _rate_of(limit)
        return max(0, (burst * period - level) // period)

    def started(self, now: int, claims: Sequence[tuple[int, str]]) -> None:
        """Claims with these numbers, of these clients, count."""
        if claims and self.has_limits:
            self._note(now, claims)

    def given_back(self, now: int, claims: Sequence[tuple[int, str]]) -> None:
        """Claims whose apps have not begun."""
        if claims and self.has_limits and self._starts:
            self._returned.update(number for number, _ in claims)
            self._note(now, [(None, client) for _, client in claims])

    def _note(self, now: int, claims: Sequence[tuple[int | None, str]]) -> None:
        """Of limits that do not hold the starts are forgotten."""
        before, self._starts = self._starts, {}
        for limit in (limit for limit in self.limits(now) if limit.rate is not None):
            self._starts |= {key: starts for key, starts in before.items() if key[0] == limit.name}
            for number, client in claims:
                key = (limit.name, client if limit.per == "client" else "")
                self._starts[key] = [*self._starts.get(key, []), _Start(now, number, _rate_of(limit))]

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
        names = {limit.name for limit in self.policy.limits} | self.temporary.keys()
        self._starts = {key: one for key, one in self._starts.items() if not key[1] or key[0] in names}


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

    def most(self, count: int, started: int, busy: int) -> int:
        """How many of so many items may start. ``started``: how many the server let start, if it has a choice."""
        least, most = self.held_back.startable(self.now, busy) or (count, count)
        return 0 if self.is_paused else int(min(count, max(least, min(most, started))))


def _rate_of(limit: Limit) -> tuple[int, int, int]:
    assert limit.rate is not None
    return (*rate_of("rate", limit.rate), limit.burst or 1)
