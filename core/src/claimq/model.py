"""The values that callers get: items, claims and their outcomes. All are immutable.

Instants are Unix seconds by the server's clock, durations are seconds, payloads are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from claimq.arguments import Duration, Instant
from claimq.errors import PayloadError
from claimq.tokens import number_of

if TYPE_CHECKING:
    from claimq.limits import LimitsNow, Neighbour, Pause, TemporaryLimit

_T = TypeVar("_T")


class _Construct(Protocol):
    def __call__(self, kind: type[_T], fields: tuple[object, ...], /) -> _T: ...


construct = cast("_Construct", tuple.__new__)  # pyright: ignore[reportUnknownMemberType] - of a generic class
"""Makes a NamedTuple from all values, in order, unchecked, in half the time of the constructor, a Python function."""


class State(StrEnum):
    """The state of an item. It is in exactly one."""

    MAIN = "main"
    BUSY = "busy"
    DELAYED = "delayed"
    FAILED = "failed"


class Priority(StrEnum):
    """The priority of an item: which of its client's items are claimed first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Verdict(StrEnum):
    """The result of a call for one claim. ``LOST``: the claim was not held any more, and nothing has changed.

    ``ALREADY_DONE`` comes only from a sidecar: the same verdict had its effect before."""

    DONE = "done"
    REQUEUED = "requeued"
    DELAYED = "delayed"
    FAILED = "failed"
    DROPPED = "dropped"
    UNCLAIMED = "unclaimed"
    RENEWED = "renewed"
    LOST = "lost"
    ALREADY_DONE = "already_done"


class Reason(StrEnum):
    """Why a worker's claims are given back: ``CRASHED`` counts and goes to the tail, ``INTERRUPTED`` does neither."""

    CRASHED = "crash"
    INTERRUPTED = "interrupt"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event of an item: fail, permanent, requeue, crash, expired or requeue_failed."""

    at: float
    kind: str
    error: str
    worker: str


class Item(NamedTuple):
    """The unit of work.

    Requeueing a failed item restarts the counters, but not ``given_up_count`` (how often it has gone to failed) and
    ``history`` (its last ten events). ``error_detail``: where ``last_error`` was raised. ``failed_reason``: by which a
    failed item is counted. ``enqueued_at``: when the item last entered the tail of main, ``first_enqueued_at``: when it
    first did. From the producer: ``header_pairs``, ``deadline`` (after it the item is not started), ``max_requeues``
    (instead of the queue's limit), ``priority``, ``key`` (of the items with the same key one is busy), ``cost``."""

    id: str
    payload: bytes
    enqueued_at: float
    first_enqueued_at: float
    client: str | None = None
    requeue_count: int = 0
    fail_count: int = 0
    crash_count: int = 0
    interrupted_count: int = 0
    postponed_count: int = 0
    given_up_count: int = 0
    last_error: str | None = None
    history: tuple[HistoryEntry, ...] = ()
    error_detail: str | None = None
    header_pairs: tuple[tuple[str, str], ...] = ()
    deadline: float | None = None
    max_requeues: int | None = None
    priority: Priority = Priority.NORMAL
    key: str | None = None
    cost: int = 1
    failed_reason: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the producer set, in a new dict."""
        return dict(self.header_pairs)

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises :class:`PayloadError` if it is not."""
        return payload_text(self.id, self.payload)

    def json(self) -> object:
        """The payload as the JSON value that it holds. Raises :class:`PayloadError` if it does not."""
        return payload_json(self.id, self.payload)


def payload_text(item_id: str, payload: bytes) -> str:
    """The payload of an item as UTF-8 text. Raises :class:`PayloadError` if it is not."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise PayloadError(f"the payload of item {item_id} is not UTF-8 text; read .payload") from None


def payload_json(item_id: str, payload: bytes) -> object:
    """The payload of an item as the JSON value that it holds. Raises :class:`PayloadError` if it does not."""
    try:
        return json.loads(payload)
    except ValueError:
        raise PayloadError(
            f"the payload of item {item_id} is not JSON (it begins {payload[:20]!r}); read .text or .payload"
        ) from None


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to enqueue with an id, a client, a delay, headers or limits of its own.

    ``id``: the producer's own; within the queue's id window the same id is not queued twice. ``delay``
    (from now: seconds or a timedelta) and ``at`` (an instant: Unix seconds or an aware datetime) exclude each other.
    ``headers``: at most 16, with names of up to 64 lower-case letters, digits and ``-``, and values of up to 1,024
    printable ASCII characters. ``deadline`` (a timedelta from now, or an instant: Unix seconds or an aware datetime):
    after it the item goes to failed instead of being started. ``max_requeues`` (0 to 1,000,000) replaces the queue's
    ``requeue_limit``. ``priority``: "high" items are claimed before the client's "normal" ones, "low" ones after them.
    ``key`` (up to 128 printable ASCII characters, no blanks): items of one key start in order, one at a time.
    ``cost`` (1 to 1,000,000): what the item counts for a limit with ``unit="cost"``.
    """

    payload: object
    id: str | None = None
    client: str | None = None
    delay: Duration | None = None
    at: Instant | None = None
    headers: Mapping[str, str] | None = field(default=None, hash=False)
    deadline: Instant | timedelta | None = None
    max_requeues: int | None = None
    priority: Priority | str = Priority.NORMAL
    key: str | None = None
    cost: int = 1


class EnqueuedItem(NamedTuple):
    """Result of enqueueing an item: its id, the length of main, and ``is_duplicate`` if nothing was added: known id."""

    id: str
    length: int
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Result of enqueueing several items: their ids in call order, the length of main afterwards, and the ids that were
    enqueued before, so that nothing was added for them."""

    ids: tuple[str, ...]
    length: int
    duplicates: tuple[str, ...] = ()


class Claim(NamedTuple):
    """The right to work on an item until ``lease_until``. ``token`` identifies this claim. ``number`` is a fencing
    token: another store can refuse late writes by refusing numbers below the last one seen. It grows with every claim
    of the queue; docs/guarantees.md says what holds after a loss of data."""

    token: str
    item: Item
    worker: str
    claimed_at: float
    lease_until: float

    @property
    def number(self) -> int:
        """The number in the token."""
        return number_of(self.token)


class Outcome(NamedTuple):
    """The result of a verdict for one claim. ``delay`` is set for ``DELAYED``, ``lease_until`` for ``RENEWED``,
    ``earlier`` (what the same verdict did before) for ``ALREADY_DONE``, ``id`` where it is known."""

    token: str
    verdict: Verdict
    id: str | None = None
    delay: float | None = None
    lease_until: float | None = None
    earlier: Verdict | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the claim was not held any more: another worker has the item, or will; forget the result."""
        return self.verdict is Verdict.LOST


@dataclass(frozen=True, slots=True)
class Released:
    """Where the items of a dead worker went."""

    requeued: int = 0
    delayed: int = 0
    failed: int = 0
    unclaimed: int = 0

    @property
    def total(self) -> int:
        """Number of claims that were given back."""
        return self.requeued + self.delayed + self.failed + self.unclaimed


@dataclass(frozen=True, slots=True)
class Reaped:
    """Result of one ``reap``: expired claims, due items that were moved, and leases without an item or too long."""

    expired: tuple[Outcome, ...] = ()
    due: int = 0
    repaired: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """An item and where it is. ``name``: the token of a busy item, or the name of a failed one (its id, or ``ID#2``).
    ``payload_size``: bytes of a payload that was left out."""

    item: Item
    state: State
    name: str = ""
    worker: str | None = None
    claimed_at: float | None = None
    lease_until: float | None = None
    due_at: float | None = None
    failed_at: float | None = None
    payload_size: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker: how many claims it holds, and when it last claimed or renewed."""

    worker: str
    busy: int
    last_seen_at: float


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A client (None: items without a client), and how many of its items wait in main."""

    client: str | None
    length: int


COUNTERS = (
    "enqueued", "adopted", "claimed", "done", "fails", "crashes", "expired", "requeued", "delayed", "due", "unclaimed",
    "postponed", "failed", "past_deadline", "dropped", "failed_requeued", "failed_removed", "flushed", "lost",
    "repaired")  # fmt: skip
"""Names of a queue's counters; :meth:`claimq.ReliableQueue.stats` explains them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a queue at one instant. ``ages``: seconds since the oldest item entered main, was claimed, or
    failed; for delayed, how long the most overdue one is due (0: none is). None for an empty state. ``counters``:
    totals since its creation. ``next_due_in``: seconds until the next delayed item is due (0 if one is); ``due_soon``:
    how many are in 15 seconds; ``key_busy``: how many wait for keys. ``moved_at``: when an item was claimed last, or
    one that took ``longest`` (seconds, lately) ended. The oldest claim: its token; its item, if long and small.
    ``holders``: while items wait and none was claimed for a minute, up to 100 workers with claims. ``paused``: no item
    can be claimed. ``pauses``: of the queue and of clients. ``limits``: that hold, with ``temporary_limits``.
    ``waiting_bytes``: of main and delayed, if the policy bounds them. ``neighbours``: that delay others, if it looked
    for them."""

    now: float
    seq: int
    lengths: dict[State, int]
    ages: dict[State, float | None]
    counters: dict[str, int]
    next_due_in: float | None
    paused: bool
    due_soon: int = 0
    key_busy: int = 0
    moved_at: float | None = None
    longest: float = 0.0
    oldest_claim: str = ""
    oldest_item: str = ""
    holders: tuple[str, ...] = ()
    pauses: tuple[Pause, ...] = ()
    limits: LimitsNow | None = None
    temporary_limits: tuple[TemporaryLimit, ...] = ()
    waiting_bytes: int | None = None
    neighbours: tuple[Neighbour, ...] = ()

    @property
    def pause(self) -> Pause | None:
        """That of the whole queue; None if it is not paused, or by the policy only."""
        return next((pause for pause in self.pauses if pause.is_of_queue), None)

    @property
    def claimable(self) -> int:
        """Items of main that no pause holds back."""
        main = self.lengths[State.MAIN]
        of_clients = sum(pause.items for pause in self.pauses if pause.client)
        return max(0, main - (main if self.paused else of_clients))


@dataclass(frozen=True, slots=True)
class ServerWarning:
    """A setting of the server that weakens the guarantees. ``code`` is CamelCase, ``message`` says what to set."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The kind and version of a server, and its unsafe settings."""

    flavour: str
    version: str
    mode: str
    warnings: tuple[ServerWarning, ...] = ()
    appendfsync: str | None = None  # always, everysec or no; None if it is unknown
