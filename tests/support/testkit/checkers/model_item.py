"""An item of the plain model, and what a verdict makes of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import floor

from claimq.policy import OnExpiry, Policy, RetryDelay
from claimq.tokens import number_of
from testkit.checkers.stored import RANKS, StoredItem

COUNTED = {"fail": "fails", "permanent": "fails", "drop": "fails", "crash": "crashes", "expired": "crashes"}
HISTORY = 10


@dataclass
class ModelItem:
    """What is known of an item. `client` "-": none. `is_bare`: another client pushed it, and it has no id yet."""

    payload: bytes
    id: str = ""
    client: str = "-"
    at: int = 0
    is_bare: bool = False
    counters: dict[str, int] = field(default_factory=dict[str, int])
    given_up: int = 0
    first_at: int | None = None
    error: str | None = None
    history: list[str] = field(default_factory=list[str])
    number: int = 0
    """That of its last claim."""
    place: int | None = None
    """The number of its first claim since it entered the tail, once it was given back to the head."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    max_requeues: int | None = None
    priority: str = "normal"
    key: str = ""
    cost: int = 1
    batch: int = 0
    """Which call delayed it: items of one call stay in order."""

    def count(self, name: str) -> int:
        """One of the counters requeues, fails, crashes, interrupts."""
        return self.counters.get(name, 0)

    @property
    def rank(self) -> int:
        """That of its priority."""
        return RANKS[self.priority]

    @property
    def standing(self) -> tuple[int, bool, int | None]:
        """Where it stands among its client's: by priority, and what was given back before what was not claimed yet."""
        return self.rank, self.place is None, self.place

    @property
    def comes_alone(self) -> bool:
        """Whether it is handed out alone: it has crashed a worker (a bare payload may look so)."""
        return self.count("crashes") > 0 or (self.is_bare and self.payload.startswith(b"cq1!"))

    def adopt(self, item_id: str, now: int) -> None:
        """A bare payload becomes an item."""
        self.id, self.at, self.is_bare = item_id, now, False

    def wait_again(self, now: int) -> None:
        """It enters the tail of main."""
        self.first_at = self.at if self.first_at is None else self.first_at
        self.at = now

    def remember(self, kind: str) -> None:
        """One more line of its history."""
        self.history = [*self.history, kind][-HISTORY:]

    def forgive(self) -> None:
        """Its counters restart, as it is sent back from failed."""
        self.counters, self.error = {}, None
        self.remember("requeue_failed")

    def differs(self, stored: StoredItem) -> str | None:
        """What the server has of it is something else: both sides."""
        meta = stored.meta
        headers = meta.get("options", {}).get("headers", [])
        if self.is_bare:
            return (
                None
                if self.payload == stored.payload
                else f"expected {self.payload!r}, stored {stored.payload!r}"
            )
        mine = (
            self.id, self.client, self.at, self.payload,
            self.counters, self.given_up, self.first_at, self.error, self.history, self.headers,
            self.priority, self.key, self.cost,
        )  # fmt: skip
        theirs = (
            stored.id, stored.client, stored.at, stored.payload,
            {name: meta[name] for name in ("requeues", "fails", "crashes", "interrupts", "postponed") if name in meta},
            meta.get("given_up", 0), meta.get("first_at"), meta.get("error"),
            [line["kind"] for line in meta.get("history", [])], dict(zip(headers[::2], headers[1::2], strict=True)),
            stored.priority, stored.key, stored.cost,
        )  # fmt: skip
        return None if mine == theirs else f"expected {mine}, stored {theirs}"


@dataclass
class Held:
    """A live claim."""

    item: ModelItem
    worker: str
    claimed_at: int
    lease_end: int

    def expiry_error(self, kind: str) -> str:
        """The error that is kept with an item whose claim expired."""
        return f"the lease of {self.worker} ran out" if kind == "expired" else ""


@dataclass(frozen=True)
class Order:
    """One item to enqueue: `due` None for now, else an instant in ms."""

    payload: bytes
    id: str
    client: str = "-"
    due: int | None = None
    own: bool = False
    headers: dict[str, str] = field(default_factory=dict[str, str])
    max_requeues: int | None = None
    priority: str = "normal"
    cost: int = 1


def decide(
    item: ModelItem, policy: Policy, kind: str, error: str, delay_ms: int | None = None
) -> tuple[str, int]:
    """The verdict for a claim that ends by `kind`, and the delay in ms. Changes the item as the verdict does."""
    if kind == "interrupt":
        item.counters["interrupts"] = item.count("interrupts") + 1
        if error:
            item.remember(kind)
        return "unclaimed", 0
    if kind == "postpone":
        return postpone(item, policy, error, delay_ms or 0)
    if kind in COUNTED:
        item.counters[COUNTED[kind]] = item.count(COUNTED[kind]) + 1
    item.error = error or item.error
    item.remember(kind)
    expired = kind == "expired"
    if kind == "drop" or (expired and policy.on_expiry is OnExpiry.DROP):
        return "dropped", 0
    is_final = kind == "permanent" or (expired and policy.on_expiry is OnExpiry.FAIL)
    limit = policy.requeue_limit if item.max_requeues is None else item.max_requeues
    if is_final or item.count("requeues") >= limit:
        item.given_up += 1
        return "failed", 0
    item.counters["requeues"] = item.count("requeues") + 1
    delay = delay_ms if delay_ms is not None else 0
    if (
        delay_ms is None
        and kind != "requeue"
        and not (COUNTED[kind] == "crashes" and item.count("crashes") == 1)
    ):
        delay = floor(longest(policy.retry_delay, item.count("requeues")) * 1000 + 1e-6)
    return ("delayed", delay) if delay > 0 else ("requeued", 0)


def postpone(item: ModelItem, policy: Policy, error: str, delay_ms: int) -> tuple[str, int]:
    """As :func:`decide`."""
    times = item.count("postponed")
    if times >= policy.max_postponed:
        error = f"postponed {times} times, as often as max_postponed allows"
    item.error = error or item.error
    if item.history and item.history[-1] == "postpone":
        item.history = item.history[:-1]
    item.remember("postpone")
    if times >= policy.max_postponed:
        item.given_up += 1
        return "failed", 0
    item.counters["postponed"] = times + 1
    return ("delayed", delay_ms) if delay_ms > 0 else ("requeued", 0)


def longest(delay: RetryDelay, requeues: int) -> float:
    """The delay in seconds before the given requeue (1 is the first) when no jitter is taken away."""
    return min(delay.max, delay.initial * delay.factor ** (requeues - 1))


def numbers(tokens: Sequence[str]) -> list[int]:
    """The numbers of tokens: they grow with every claim of a queue."""
    return [number_of(token) for token in tokens]


def levels_of(items: Iterable[ModelItem]) -> list[list[ModelItem]]:
    """The items of a client by their priorities, without those that no item has."""
    return [list(level) for _, level in groupby(items, key=lambda item: item.rank)]


def first_of(items: Iterable[ModelItem], passed: int) -> tuple[ModelItem, int]:
    """The item of a client that is claimed next, and how many were claimed past items of a lower priority afterwards.
    Every eighth of these is from the second level, and every eighth of those from the third."""
    levels = levels_of(items)
    if len(levels) == 1:
        return levels[0][0], passed
    at = 0 if (passed + 1) % 8 else 1
    if len(levels) > 2 and (passed + 1) % 64 == 0:
        at = 2
    return levels[at][0], passed + 1


def uncounted(counts: Mapping[str, int], lengths: Mapping[str, int]) -> int:
    """How many items are here or have left that were never counted as come."""
    left = sum(counts[name] for name in ("done", "dropped", "failed_removed", "flushed"))
    return max(left + sum(lengths.values()) - counts["enqueued"] - counts["adopted"], 0)
