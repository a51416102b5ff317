"""Limits and pauses of a queue, of its clients and of keys. Pure.

A limit says how many items may start in a time, or be in progress at once. The scripts read the form in the
``config`` hash. Behind its ``|`` are temporary limits: each holds until its end in
place of the limit of its name, and setting the policy leaves them. People write and read
``api:rate=100/s,burst=200;licences:busy=20``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

from claimq.arguments import Checked, choice, of_type, optional_count, several, text

MOST_LIMITS: Final = 8
PERIODS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""The units of a rate, in milliseconds."""
_UNITS: Final = {str(milliseconds): unit for unit, milliseconds in PERIODS.items()}
UNBOUNDED: Final = 10**9
"""What the scripts reply for the items that may start, if no limit bounds these."""
HIGHEST: Final = 1_000_000
"""Highest number of a rate, a burst and a bound."""
MOST_OF_KEY: Final = 100
"""Most items of a key in progress: a claim and its end look at all claims of the item's key."""
NAME_PATTERN: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
RATE_PATTERN: Final = "(?:[1-9][0-9]{0,5}|1000000)/[smhd]"
NAME_FORM: Final = "up to 63 lower-case letters, digits and '-', a letter or digit first and last"
RATE_FORM: Final = "a rate such as 100/s: 1 to 1000000 items, and s, m, h or d"


class Unit(StrEnum):
    """What a limit counts."""

    ITEMS = "items"
    COST = "cost"


class Per(StrEnum):
    """What a limit holds for: all items of the queue together, those of each client, or those of each key."""

    QUEUE = "queue"
    CLIENT = "client"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many items of the queue start in a time, or are in progress at once. Give ``rate`` or ``busy``.

    ``per``: ``"client"`` or ``"key"`` if it holds for each client or key; without a limit ``busy`` per key, which may
    be up to 100, it is 1. ``rate``: items and unit, ``"100/s"`` (s, m, h or d). In
    every window of w seconds at most ``burst + rate * w`` items start, by the server's clock. A start is a claim that
    is not given back. ``burst``: 1 unless given, so that starts are spread evenly. ``busy``: items in progress.
    ``unit``: ``"cost"`` if it counts what these items cost; of a key at most 100 are in progress all the same.
    """

    name: str
    rate: str | None = None
    burst: int | None = None
    busy: int | None = None
    per: Per | str = Per.QUEUE
    unit: Unit | str = Unit.ITEMS

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME_PATTERN, text("limits: name", self.name), re.ASCII):
            raise ValueError(f"limits: the name is {self.name!r}; give {NAME_FORM}")
        where = f"limits: {self.name}: "
        object.__setattr__(self, "per", choice(where + "per", self.per, Per))
        object.__setattr__(self, "unit", choice(where + "unit", self.unit, Unit))
        if self.rate is not None:
            rate_of(where + "rate", self.rate)
        burst = optional_count(where + "burst", self.burst, least=1, most=HIGHEST)
        most_busy = MOST_OF_KEY if self.per is Per.KEY and not self.is_by_cost else HIGHEST
        optional_count(where + "busy", self.busy, least=1, most=most_busy)
        if self.burst == 1:  # which is the same as none, and as it is stored
            object.__setattr__(self, "burst", None)
        if (self.rate is None) == (self.busy is None):
            amount = "neither rate nor busy" if self.rate is None else "both rate and busy"
            raise ValueError(f"limits: {self.name} has {amount}; give one of rate and busy")
        if burst is not None and self.rate is None:
            raise ValueError(f"limits: {self.name} has a burst without a rate; give the rate, or no burst")

    def __str__(self) -> str:
        scope = "" if self.per is Per.QUEUE else f"per={self.per},"
        burst = "" if self.burst is None else f",burst={self.burst}"
        unit = ",unit=cost" if self.is_by_cost else ""
        amount = f"busy={self.busy}" if self.rate is None else f"rate={self.rate}{burst}"
        return f"{self.name}:{scope}{amount}{unit}"

    @property
    def is_by_cost(self) -> bool:
        """Whether it counts what the items cost."""
        return self.unit is Unit.COST

    @property
    def at_once(self) -> int:
        """How many items, or how much of their costs, it lets start at once."""
        return self.burst or 1 if self.busy is None else self.busy

    @property
    def interval(self) -> float:
        """Seconds between two starts of items that cost 1; 0 without a rate."""
        if self.rate is None:
            return 0.0
        starts, period = rate_of("rate", self.rate)
        return period / 1000 / starts

    @property
    def stored(self) -> str:
        """As the ``config`` hash has it."""
        unit = " cost" if self.is_by_cost else ""
        if self.rate is None:
            return f"{self.name} {self.per} busy {self.busy}{unit}"
        starts, period = rate_of("rate", self.rate)
        return f"{self.name} {self.per} rate {starts} {period} {self.burst or 1}{unit}"


Limits = tuple[Limit, ...]


@dataclass(frozen=True, slots=True)
class TemporaryLimit:
    """What holds for the limit ``name`` until an instant (Unix seconds), and who set it and why. ``limit``: None for
    one that does not hold."""

    name: str
    limit: Limit | None
    until: float
    by: str = ""
    reason: str = ""

    @property
    def stored(self) -> str:
        """As the ``config`` hash has it."""
        limit = f"{self.name} off" if self.limit is None else self.limit.stored
        return f"{round(self.until * 1000)} {_packed(self.by)} {_packed(self.reason)} {limit}"


@dataclass(frozen=True, slots=True)
class LimitsNow:
    """The limits of a queue at one instant. ``startable``: how many items may start (``UNBOUNDED``); ``by_rate``: how
    many each rate, bound on costs and limit per client lets start. ``next_start_in``: seconds until the next one may
    start; None if one may start now, or only after the end of another. ``clients``: how many have items in main, if a
    limit holds per client; for many of them ``startable`` is an estimate. Limits per key count in none of these: what
    they hold back has left main. ``cost``: what an item costs on the average, if a limit counts that; the other numbers
    are of such items."""

    limits: Limits
    startable: int
    next_start_in: float | None
    by_rate: Mapping[str, int] = field(default_factory=dict[str, int])
    clients: int = 0
    cost: float = 1.0

    def interval_of(self, limit: Limit) -> float:
        """Seconds between two starts of a limit; 0 without a rate."""
        return limit.interval * (self.cost if limit.is_by_cost else 1.0)

    def useful_slots(self, service: float, busy: int) -> float:
        """On how many items workers can work at the same time. An item takes so many seconds, and so many are in
        progress."""
        most, by_rate = list[float](), list[float]()
        for limit in (limit for limit in self.limits if limit.per is not Per.KEY):
            times = self.clients if limit.per is Per.CLIENT else 1
            if limit.rate is not None:
                by_rate.append(times * service / self.interval_of(limit))
            elif limit.busy is not None:
                each = self.cost if limit.is_by_cost else 1.0
                most.append(busy + self.startable if limit.per is Per.CLIENT else max(limit.busy / each, 1.0))
        if by_rate:
            most.append(min(by_rate) + max(self.startable - 1, 0))
        return min(most, default=busy + self.startable)

    def holding(self, busy: int) -> Limits:
        """The limits that let nothing start while so many items are in progress."""
        return tuple(limit for limit in self.limits if self.startable_by(limit, busy) == 0)

    def startable_by(self, limit: Limit, busy: int) -> int | None:
        """How many items one of the limits lets start while so many are in progress; None for one per key."""
        if limit.per is Per.KEY:
            return None
        if limit.busy is None or limit.is_by_cost or limit.per is Per.CLIENT:
            return self.by_rate.get(limit.name, 0)
        return max(0, limit.busy - busy)

    @property
    def longest_interval(self) -> float:
        """Seconds between two starts of a queue whose items always wait."""
        return max(
            (self.interval_of(limit) for limit in self.limits if limit.per is not Per.KEY), default=0.0
        )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A client that delays others. ``client``: None stands for the items without a client. ``slots`` and ``time``: its
    shares of the items in progress, and of the time that these have taken so far, from 0 to 1. ``delayed_clients``: how
    many others have items waiting for a turn and less than half of its slots, by their weights; ``delay``: for how many
    seconds one of their items has waited, at most."""

    client: str | None
    slots: float
    time: float
    delayed_clients: int
    delay: float

    @property
    def name(self) -> str:
        """For people. No name of a client has a blank."""
        return "no client" if self.client is None else f"client {self.client}"


def limits_now(limits: Limits, startable: bytes, next_start_in: float | None) -> LimitsNow | None:
    """As the snapshot script returns them; None without a limit."""
    if not (limits and startable):
        return None
    number, clients, cost, *by_rate = startable.decode().split(" ")
    rates = dict(zip(by_rate[::2], map(int, by_rate[1::2]), strict=True))
    return LimitsNow(limits, int(number), next_start_in, rates, int(clients), float(cost))


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: since when (None: unknown), until when (None: it is resumed), by whom and why ("": not given).

    ``by_app``: an app has closed the queue, and ``by`` is its worker. ``closed_from``: an app has closed it for longer
    than it is paused by hand, which ends then. ``client`` and ``key``: None for the whole queue; ``items``: how many of
    the client wait in main, or of the key are held.
    """

    at: float | None = None
    until: float | None = None
    by: str = ""
    reason: str = ""
    by_app: bool = False
    client: str | None = None
    items: int = 0
    key: str | None = None
    closed_from: float | None = None

    @property
    def is_of_queue(self) -> bool:
        """Whether it stops all claims."""
        return self.client is None and self.key is None


def rate_of(name: str, rate: object) -> tuple[int, int]:
    """The items and the milliseconds of a rate. Raises ValueError or TypeError that names the argument."""
    if not re.fullmatch(RATE_PATTERN, text(name, rate), re.ASCII):
        raise ValueError(f"{name} is {rate!r}; give {RATE_FORM}")
    items, _, unit = str(rate).partition("/")
    return int(items), PERIODS[unit]


def check_limits(name: str, given: object) -> Limits:
    """Several limits of one queue, as a tuple. Raises ValueError or TypeError."""
    found = tuple(of_type(name, limit, Limit, "Limits") for limit in several(name, given))
    if len(found) > MOST_LIMITS:
        raise ValueError(f"{name} has {len(found)} limits; give at most {MOST_LIMITS}")
    names = [limit.name for limit in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{name} has the name {twice} twice; give each limit its own name")
    return found


def limit_below(limits: Limits, cost: int, client: str | None, key: str | None) -> Limit | None:
    """A limit under which an item of this cost could never start: the cost is above its burst or bound."""
    scopes = {Per.QUEUE: True, Per.CLIENT: client is not None, Per.KEY: key is not None}
    by_cost = (limit for limit in limits if limit.is_by_cost and scopes[Per(limit.per)])
    return next((limit for limit in by_cost if cost > limit.at_once), None)


class LimitsField(Checked[Limits, Iterable[Limit]]):
    """Limits as a field of a policy."""

    def __init__(self) -> None:
        super().__init__((), check_limits)


def shown_limits(given: Iterable[Limit]) -> str:
    """As people write them."""
    return ";".join(map(str, given))


def stored_limits(given: Iterable[Limit]) -> str:
    """As the ``config`` hash has them."""
    return ";".join(limit.stored for limit in given)


def load_limits(stored: str) -> Limits:
    """The limits of the policy in the ``config`` hash. Raises ValueError for what no release writes."""
    return tuple(_load(limit) for limit in stored.partition("|")[0].split(";") if limit)


def _load(stored: str) -> Limit:
    match stored.split(" "):
        case [name, per, "busy", most, *unit] if _is_number(most):
            return Limit(name, busy=int(most), per=per, unit=" ".join(unit) or Unit.ITEMS)
        case [name, per, "rate", starts, period, burst, *unit] if period in _UNITS and _is_number(burst):
            rate = f"{starts}/{_UNITS[period]}"
            return Limit(name, rate=rate, burst=int(burst), per=per, unit=" ".join(unit) or Unit.ITEMS)
        case _:
            raise ValueError(f"the config field limits has {stored!r}, which is no limit; set it again")


def _is_number(digits: str) -> bool:
    return re.fullmatch("[0-9]{1,7}", digits, re.ASCII) is not None


def load_temporary(stored: str, now: float) -> tuple[TemporaryLimit, ...]:
    """Those of the ``config`` hash that are not over. Raises ValueError for what no release writes."""
    changes = (_load_temporary(change) for change in stored.partition("|")[2].split(";") if change)
    return tuple(change for change in changes if change.until > now)


def in_force(limits: Limits, temporary: Iterable[TemporaryLimit]) -> Limits:
    """The limits that hold while these changes do."""
    changed = {change.name: change.limit for change in temporary}
    rest = [limit for limit in limits if limit.name not in changed]
    return (*rest, *(limit for limit in changed.values() if limit is not None))


def limits_at(stored: str, now: float) -> tuple[Limits, tuple[TemporaryLimit, ...]]:
    """The limits that hold, and the temporary ones; none if another client has written what is none."""
    try:
        temporary = load_temporary(stored, now)
        return in_force(load_limits(stored), temporary), temporary
    except ValueError:
        return (), ()


def change_limit(stored: str, now: float, change: TemporaryLimit, *, is_temporary: bool) -> str:
    """The ``config`` field after a change of one limit, which ends an earlier one of the same limit.

    Raises ValueError for more limits than a queue may have, for a limit to remove that does not exist, and for a
    ``stored`` text that no release writes.
    """
    limits = {limit.name: limit for limit in load_limits(stored)}
    temporary = {other.name: other for other in load_temporary(stored, now)}
    if change.limit is None and change.name not in {*limits, *temporary}:
        raise ValueError(f"the queue has no limit {change.name}; it has {', '.join(limits) or 'none'}")
    temporary.pop(change.name, None)
    if is_temporary:
        temporary[change.name] = change
    elif change.limit is None:
        limits.pop(change.name, None)
    else:
        limits[change.name] = change.limit
    new = (other.limit for other in temporary.values() if other.limit and other.name not in limits)
    check_limits("limits", [*limits.values(), *new])
    return with_temporary(stored_limits(limits.values()), temporary.values())


def with_temporary(limits: str, temporary: Iterable[TemporaryLimit]) -> str:
    """The ``config`` field with these limits of the policy and these temporary ones."""
    changes = ";".join(change.stored for change in temporary)
    return f"{limits}|{changes}" if changes else limits


def _load_temporary(stored: str) -> TemporaryLimit:
    match stored.split(" ", 3):
        case [until, by, reason, limit] if until.isascii() and until.isdigit() and len(until) < 17:
            name, _, spec = limit.partition(" ")
            loaded = None if spec == "off" else load_limits(limit)[0]
            return TemporaryLimit(name, loaded, int(until) / 1000, _unpacked(by), _unpacked(reason))
        case _:
            raise ValueError(f"the config field limits has {stored[:100]!r}, which is no limit; set it again")


def _packed(words: str) -> str:
    """Without blanks and separators; never empty."""
    return "=" + quote(words.encode("utf-8", "replace"), safe="")


def _unpacked(packed: str) -> str:
    return unquote(packed[1:], errors="replace")
