"""Why an item waits, and how many others come before it. Pure.

``_REASONS`` has the reasons in order, each with the function that returns its words if it holds. The first one that
holds is the reason. Some also have the number of items that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from claimq.limits import Limit, LimitsNow, Pause, Per, TemporaryLimit
from claimq.model import Located, Snapshot, State
from claimq.waiting.texts import changes_text, instant_text, paused_text, printable


class WaitReason(StrEnum):
    """Why an item waits: the first of these reasons that holds, with words in :attr:`Where.text`.

    `not_due`: for its time. `paused`: for the end of a pause, a closing or `suspend`. `key_busy`: for the item that
    has its key. `limit`: for a limit. `reserve`: for an end of another item, since free slots are kept for other
    clients. `no_worker`: for a worker: none has asked for items lately, or the item is next and no worker is free.
    `behind`: for items of its client and priority before it. `about_to_start`: for nothing: a worker is free.
    """

    NOT_DUE = "not_due"
    PAUSED = "paused"
    KEY_BUSY = "key_busy"
    LIMIT = "limit"
    RESERVE = "reserve"
    NO_WORKER = "no_worker"
    BEHIND = "behind"
    ABOUT_TO_START = "about_to_start"


class Between(NamedTuple):
    """A number of which only these bounds are known; it is exact if they are equal."""

    least: int
    most: int

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least:,}"
        return f"{self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class Hold:
    """What holds back items of a queue at one instant. ``paused`` without a pause of the queue: by the policy. For one
    item ``pauses`` are those that hold it back."""

    paused: bool
    pauses: tuple[Pause, ...]
    limits: LimitsNow | None
    temporary: tuple[TemporaryLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class Where:
    """Where an item is, and why it waits; ``reason`` is None for one that is in progress or failed.

    ``text``: the reason for people. ``until``: when it ends, in Unix seconds, if that is known. ``ahead``: how many
    items of its client and priority come before it now; ``ahead_of_all``: how many of all that wait. Both are None for
    an item that is not due.
    """

    located: Located
    reason: WaitReason | None = None
    text: str = ""
    until: float | None = None
    ahead: Between | None = None
    ahead_of_all: Between | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a call has read of an item that waits. ``ahead`` as in :class:`Where`, ``busy``: items in progress, as far
    as limits need it, ``workers``: those seen lately, ``is_worker_free``: whether one waits for this item, ``holder``:
    the token of the claim that has the item's key, ``held_item``: its item, both may be empty; ``limit`` and
    ``limit_until``: the limit at which its client or key (``limit_per``) is, if it is at one, and until when,
    ``kept_slots``: free ones that are kept for other clients."""

    located: Located
    now: float
    hold: Hold
    ahead: Between
    ahead_of_all: Between
    busy: int
    workers: int
    is_worker_free: bool
    holder: str = ""
    held_item: str = ""
    limit: str = ""
    limit_until: float | None = None
    limit_per: str = Per.CLIENT
    kept_slots: int = 0


class _Cause(NamedTuple):
    text: str
    until: float | None = None


def where(facts: Facts) -> Where:
    """The first reason that holds."""
    reason, cause = next((row.code, cause) for row in _REASONS if (cause := row.cause(facts)))
    is_due = facts.located.due_at is None or facts.located.due_at <= facts.now
    ahead = (facts.ahead, facts.ahead_of_all) if is_due and not _is_held(facts) else (None, None)
    return Where(facts.located, reason, printable(cause.text), cause.until, *ahead)


def _waits_for_key(facts: Facts) -> bool:
    return _is_held(facts) or (bool(facts.holder) and (facts.located.due_at or 0.0) <= facts.now)


def _is_held(facts: Facts) -> bool:
    """It has had its turn in main, and waits for its key in delayed."""
    return facts.located.state is State.DELAYED and facts.located.due_at is None


def _not_due(facts: Facts) -> _Cause | None:
    due = facts.located.due_at
    if due is None or due <= facts.now or _waits_for_key(facts):
        return None
    return _Cause(f"not due until {instant_text(due)}", due)


def _paused(facts: Facts) -> _Cause | None:
    hold = facts.hold
    pause = next((pause for pause in hold.pauses if pause.is_of_queue), None)
    if hold.paused and pause is None:
        return _Cause("the queue is suspended")
    pause = pause or next(iter(hold.pauses), None)
    return None if pause is None else _Cause(paused_text(pause), pause.until)


def _key_busy(facts: Facts) -> _Cause | None:
    if not _waits_for_key(facts) or _is_key_limited(facts):
        return None
    if not facts.holder:
        return _Cause(f"another item with its key {facts.located.item.key} comes first")
    item = f"the item {facts.held_item}" if facts.held_item else "an item"
    worker = facts.holder.rpartition("/")[0]
    return _Cause(f"its key {facts.located.item.key} is busy: {worker} has {item} with it")


def _is_key_limited(facts: Facts) -> bool:
    return bool(facts.limit) and facts.limit_per == Per.KEY


def _limit(facts: Facts) -> _Cause | None:
    limits = facts.hold.limits
    if limits is not None and facts.limit:
        return _limit_of_part(facts, limits)
    if limits is None or limits.startable:
        return None
    holding = limits.holding(facts.busy)
    if full := [limit for limit in holding if limit.busy is not None]:
        changes = _starts_alone(facts, full) + changes_text(facts.hold.temporary, full)
        return _Cause(f"{_named(full)} of the queue is reached until an item in progress ends{changes}")
    until = None if limits.next_start_in is None else facts.now + limits.next_start_in
    when = "" if until is None else f"; the next item may start at {instant_text(until)}"
    changes = _starts_alone(facts, holding) + changes_text(facts.hold.temporary, holding)
    return _Cause(f"{_named(holding)} of the queue is reached{when}{changes}", until)


def _limit_of_part(facts: Facts, limits: LimitsNow) -> _Cause:
    """The items of its client before it start before it, one after the other; those of its key count already."""
    limit = next((limit for limit in limits.limits if limit.name == facts.limit), None)
    until, item = facts.limit_until, facts.located.item
    if until is not None and limit is not None and limit.per is Per.CLIENT:
        until += facts.ahead.least * limit.interval
    when = "an item of it in progress ends" if until is None else f"about {instant_text(until)}"
    named = [limit] if limit else []
    changes = _starts_alone(facts, named) + changes_text(facts.hold.temporary, named)
    part = f"key {item.key}" if _is_key_limited(facts) else f"client {item.client}"
    return _Cause(f"the limit {facts.limit} of its {part} is reached until {when}{changes}", until)


def _starts_alone(facts: Facts, limits: Sequence[Limit]) -> str:
    """Words for an item that was there before a limit was lowered below its cost."""
    cost = facts.located.item.cost
    if not (lower := [limit.at_once for limit in limits if limit.is_by_cost and limit.at_once < cost]):
        return ""
    return f"; it costs {cost:,}, more than the {min(lower):,} that may start at once, so it starts alone"


def _named(limits: Sequence[Limit]) -> str:
    names = [limit.name for limit in limits]
    return f"the limit {names[0]}" if len(names) == 1 else f"a limit ({', '.join(names)})"


def _reserve(facts: Facts) -> _Cause | None:
    if not facts.kept_slots:
        return None
    noun = "free slot is" if facts.kept_slots == 1 else "free slots are"
    return _Cause(f"{facts.kept_slots:,} {noun} kept for clients that use little (fairness_reserve)")


def _no_worker(facts: Facts) -> _Cause | None:
    if not facts.workers:
        return _Cause("no worker has asked for items lately")
    if facts.is_worker_free or facts.ahead.least:
        return None
    return _Cause("no worker is free")


def _behind(facts: Facts) -> _Cause | None:
    if not facts.ahead.most:
        return None
    client = facts.located.item.client
    of_client = "without a client" if client is None else f"of its client {client}"
    noun = "item" if facts.ahead == (1, 1) else "items"
    return _Cause(f"behind {facts.ahead} {noun} {of_client}")


def _about_to_start(_: Facts) -> _Cause | None:
    return _Cause("about to start: a worker is free")


def _items_at_limit(snapshot: Snapshot) -> int:
    main, limits = snapshot.claimable, snapshot.limits
    return 0 if limits is None else main - min(main, limits.startable)


def _held(snapshot: Snapshot) -> int:
    """Items that are held since their keys are paused."""
    return min(snapshot.key_busy, sum(pause.items for pause in snapshot.pauses if pause.key))


@dataclass(frozen=True, slots=True)
class _Reason:
    """``items``: how many items of main and delayed wait for it, derived from lengths; None: they are ``ready``."""

    code: WaitReason
    cause: Callable[[Facts], _Cause | None]
    items: Callable[[Snapshot], int] | None = None


_REASONS = (
    _Reason(WaitReason.NOT_DUE, _not_due, lambda now: max(0, now.lengths[State.DELAYED] - now.key_busy)),
    _Reason(WaitReason.PAUSED, _paused, lambda now: now.lengths[State.MAIN] - now.claimable + _held(now)),
    _Reason(WaitReason.KEY_BUSY, _key_busy, lambda now: now.key_busy - _held(now)),
    _Reason(WaitReason.LIMIT, _limit, _items_at_limit),
    _Reason(WaitReason.RESERVE, _reserve),
    _Reason(WaitReason.NO_WORKER, _no_worker),
    _Reason(WaitReason.BEHIND, _behind),
    _Reason(WaitReason.ABOUT_TO_START, _about_to_start),
)
WAITING_COUNTS = (*(row.code.value for row in _REASONS if row.items), "ready")
"""What items wait for, as far as lengths show it; ``ready``: for a worker, or for the items before them."""


def waiting_counts(snapshot: Snapshot) -> dict[str, int]:
    """How many items of main and delayed wait for what, by ``WAITING_COUNTS``. No item is read."""
    counts = {row.code.value: row.items(snapshot) for row in _REASONS if row.items}
    waiting = snapshot.lengths[State.MAIN] + snapshot.lengths[State.DELAYED]
    return counts | {"ready": max(0, waiting - sum(counts.values()))}
