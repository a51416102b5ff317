"""The state that all parts of a queue share: its name, keys and connection, and its worker's name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from claimq.arguments import of_type
from claimq.codec import check_name, read_envelope, text_of
from claimq.errors import StoreMisused
from claimq.limits import Neighbour, limits_at, limits_now
from claimq.model import Located, State
from claimq.policy import Policy
from claimq.queue.token_groups import BATCH
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys
from claimq.redis_store.scripts import Arg
from claimq.tokens import number_of
from claimq.waiting.neighbours import ClientUse, neighbours
from claimq.waiting.pauses import read_pauses
from claimq.waiting.reasons import Hold

Stored = bytes | list[bytes]
"""An envelope; or an outline, for a list that people look at: its header and the bytes of its payload."""
P = TypeVar("P", bound="QueuePart")
LAST_MS = 253_402_300_799_000
"""The end of the year 9999: the last instant that can be shown."""
_LAST_PLACE = 9 * 10**15
_LEAST_SAMPLE = 10


@dataclass(slots=True)
class Removal:
    """What the calls of a flush or a deletion have removed so far, and whether another call is needed."""

    counts: tuple[int, ...] = (0, 0, 0, 0)
    more: bool = True

    def add(self, reply: bytes) -> None:
        """Adds a script's ``MAIN BUSY DELAYED FAILED MORE``."""
        *removed, more = map(int, reply.split())
        self.counts = tuple(a + b for a, b in zip(self.counts, removed, strict=True))
        self.more = bool(more)

    def by_state(self) -> dict[State, int]:
        """Number of items removed from each state."""
        states = (State.MAIN, State.BUSY, State.DELAYED, State.FAILED)
        return dict(zip(states, self.counts, strict=True))


class QueuePart:
    """Base of a queue's parts. :class:`claimq.ReliableQueue` is the public class."""

    def __init__(self, connection: Connection, name: str, worker: str) -> None:
        self.name = check_name("queue", name)
        self.worker = check_name("worker", worker)
        self._connection = connection
        self._keys = Keys(name)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed. Every call then raises StoreUnavailable."""
        return self._connection.is_closed

    def _reading(self, doing: str, *, keeps: bool = True) -> BoundedRead:
        """A read of several calls, with the bounds of the connection's settings."""
        return BoundedRead(doing, self._connection.settings.read_bounds, keeps=keeps)

    async def _read(self, *words: Arg) -> Any:
        """Runs a plain command that only reads keys of this queue, on the primary."""
        return await self._connection.read(self._keys.main, *words)

    async def _wake(self) -> None:
        """Leaves a wake token if there is work and no token. O(1)."""
        await self._connection.run("repair", [self._keys.main], [1])

    async def _stored_policy(self) -> Policy:
        """The queue's policy. Raises StoreMisused for a field with an invalid value. O(1)."""
        with self._reading("policy") as read:
            raw = await read.reply(self._read("HGETALL", self._keys.config))
            words: Any = raw.items() if hasattr(raw, "items") else zip(raw[::2], raw[1::2], strict=True)
            try:
                return Policy.from_fields({text_of(name): text_of(value) for name, value in words})
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                raise StoreMisused(f"the policy in {self._keys.config} cannot be read: {error}") from error

    async def _delete(self, *, only_if_empty: bool = False, owner: str = "") -> dict[State, int] | None:
        """How many items there were by state; None if the queue was not empty as asked."""
        args: list[Arg] = [int(of_type("only_if_empty", only_if_empty, bool, "True or False")), owner]
        total = Removal()
        with self._reading("delete", keeps=False) as read:
            while total.more:
                with self._connection.lanes.new_call() as call:
                    words = [*call, *args]
                    reply = await read.reply(self._connection.run("delete", [self._keys.main], words))
                if reply[0] == b"OTHER":
                    raise StoreMisused(f"delete: the queue {self.name} belongs to another owner, so it stays")
                if reply[0] == b"HELD":
                    return None
                total.add(reply[1])
        return total.by_state()

    async def _tokens_of(self, worker: str) -> list[str]:
        """The tokens of a worker's claims, in the order of claiming."""
        all_tokens: set[str] = set()
        cursor: Arg = "0"
        with self._reading("tokens of a worker") as read:
            while cursor != b"0":
                words = [worker, cursor]
                cursor, *tokens = await read.reply(self._connection.run("held", [self._keys.main], words))
                all_tokens.update(token.decode("ascii", "replace") for token in tokens)
            return sorted(filter(number_of, all_tokens), key=number_of)

    async def _claim_times(self, tokens: Iterable[bytes]) -> dict[str, float]:
        """When items were claimed: token -> Unix time, for tokens whose claim call is still in the log of claim calls.
        Reads that log in pages.
        """
        calls = {token: token.rpartition(b".")[2] for token in tokens}
        nonces = set(calls.values())
        claimed_at: dict[bytes, float] = {}
        start: Arg = "-inf"
        with self._reading("claim times") as read:
            while nonces:
                words: list[Arg] = [start, "+inf", "WITHSCORES", "LIMIT", 0, BATCH]
                page = _with_scores(
                    await read.reply(self._read("ZRANGEBYSCORE", self._keys["claims"], *words))
                )
                for call, at in page:
                    nonce = call.split(b" ", 3)[2] if call.count(b" ") >= 3 else b""
                    if nonce in nonces:
                        nonces.remove(nonce)
                        claimed_at[nonce] = instant_ms(repr(at)) / 1000
                if len(page) < BATCH:
                    break
                last = repr(page[-1][1])
                start = last if page[0][1] != page[-1][1] else f"({last}"
        return {
            token.decode("utf-8", "replace"): claimed_at[call]
            for token, call in calls.items()
            if call in claimed_at
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} as {self.worker}>"


def _with_scores(reply: list[Any]) -> list[tuple[bytes, float]]:
    """Members with their scores. A client of the caller that speaks RESP3 returns pairs, with scores as numbers."""
    if reply and isinstance(reply[0], list | tuple):
        return [(member, float(score)) for member, score in reply]
    return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2], strict=True)]


def with_operations_of(kind: type[P], queue: QueuePart) -> P:
    """The queue with the operations of another class. They share their state: what one of them learns, such as how many
    items get through a slow link, the other knows."""
    part = kind.__new__(kind)
    part.__dict__ = queue.__dict__
    return part


def instant_ms(score: bytes | str) -> float:
    """The instant that a score stands for, in ms, at least 0 and at most :data:`LAST_MS`: another Redis client may have
    stored any score, also an infinite one. A score that is no number stands for 0."""
    number = float(score)
    return min(number, LAST_MS) if number > 0 else 0.0


def _is_place(score: bytes | str) -> bool:
    """Whether an item of delayed with this score waits for its key, not for an instant."""
    return LAST_MS < float(score) <= _LAST_PLACE


def seconds_until(due: bytes | str, now: int) -> float | None:
    """Seconds until an instant that the server returned (ms; empty: none), 0 if it is over. None if it never comes: the
    score of an item that another Redis client delayed may be infinite."""
    instant = float(due) if due else math.inf
    if math.isinf(instant):
        return None if instant > 0 else 0.0
    return max(int(instant_ms(due)) - now, 0) / 1000


def read_hold(reply: Any, now: int) -> Hold:
    """What holds back all items, as the scripts return it; empty if nothing does. ``now``: in ms."""
    if not reply:
        return Hold(paused=False, pauses=(), limits=None)
    suspended, raw_pauses, startable, next_start, limits = reply
    pauses = tuple(read_pauses(raw_pauses, now))
    that_hold, temporary = limits_at(limits.decode("ascii", "replace"), now / 1000)
    return Hold(
        bool(suspended) or any(pause.is_of_queue for pause in pauses),
        pauses,
        limits_now(that_hold, startable, seconds_until(next_start, now)),
        temporary,
    )


def read_neighbours(reply: Sequence[Any], now: int, busy: int) -> tuple[Neighbour, ...]:
    """As the snapshot script returns them. ``now``: in ms; ``busy``: items in progress. A sample that lacks most of
    them, since they are large, names no client."""
    if not reply:
        return ()
    rows = [reply[at : at + 5] for at in range(1, len(reply), 5)]
    uses = [
        ClientUse(
            None if name == b"-" else name.decode("ascii", "replace"),
            count,
            int(taken) / 1000,
            max(now - instant_ms(since), 0.0) / 1000 if since else None,
            float(weight),
        )
        for name, count, taken, since, weight in rows
    ]
    return neighbours(uses, reply[0]) if sum(use.busy for use in uses) >= min(busy, _LEAST_SAMPLE) else ()


def read_row(
    state: State, stored: Stored, name: bytes = b"", score: bytes | str = b"", claimed_at: float | None = None
) -> Located:
    """An item of a state. ``name``: its token (busy) or its field in failed; ``score``: when its lease ends, when it is
    due, or when it failed, in ms."""
    envelope, size = (stored, None) if isinstance(stored, bytes) else (stored[0], int(stored[1]))
    text = name.decode("utf-8", "replace")
    is_busy = state is State.BUSY
    at = instant_ms(score) / 1000 if score else None
    return Located(
        read_envelope(envelope, text if is_busy else ""),
        state,
        text,
        text.rpartition("/")[0] if is_busy else None,
        claimed_at,
        lease_until=at if is_busy else None,
        due_at=at if state is State.DELAYED and not _is_place(score) else None,
        failed_at=at if state is State.FAILED else None,
        payload_size=size,
    )


def counter(text: str | None) -> int:
    """A field of stats; 0 if it is missing, or no whole number: another Redis client may have set it."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def waiting_bytes(bound: str | None, items: int) -> int | None:
    """The bytes of so many items, as the scripts have counted them (lua/lib/weights.lua)."""
    if bound is None or " " not in bound:
        return None
    numbers = [*map(counter, bound.split()), *[0] * 6]
    in_main, main_bytes, in_delayed, delayed_bytes, _, mean = numbers[:6]
    return main_bytes + delayed_bytes + max(0, items - in_main - in_delayed) * mean
