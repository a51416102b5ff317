"""Failed items: sending them back, removing them, draining them, and the queue's own policy for both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from claimq import arguments
from claimq.arguments import Duration, optional_seconds, seconds
from claimq.codec import read_envelope
from claimq.errors import StoreMisused
from claimq.model import FailedPass, Located, RemovalReason, Removed, RemovedItem, State
from claimq.policy import FailedPolicy, Match, Policy
from claimq.queue.queue_part import QueuePart
from claimq.queue.token_groups import BATCH
from claimq.redis_store.connection import Arg

_LEAST_STRETCH = 3000
"""Items that a pass of the policy may look at: more than the 1,000 that one call lets fail at one instant."""


class FailedItems(QueuePart):
    """What people and policies do with items that were given up.

    The filters have one name each, here and in the policy: ``min_age`` is the seconds since an item failed,
    ``min_fail_count`` and ``max_fail_count`` compare how often it has gone to failed in its whole life, which
    sending it back does not reset. Every script call handles one chunk, atomically; a crash between chunks leaves
    each item in failed, or sent back, or removed.
    """

    async def requeue_failed(
        self,
        *,
        min_age: Duration = 0.0,
        max_fail_count: int | None = None,
        limit: int | None = None,
        chunk: int = 100,
    ) -> int:
        """Sends failed items back to the tail of main, oldest failure first, at most ``limit``; returns how many.

        Leaves those that failed less than ``min_age`` seconds ago or more than ``max_fail_count`` times,
        and those that fail while this runs. Their counters restart, their history is kept. Raises StoreFull,
        StoreUnavailable. O(failed log failed) in chunks.
        """
        walk = _Walk()
        age = seconds("min_age", min_age)
        while size := walk.next_size(_checked(chunk), _left(limit)):
            if not await self._requeue_chunk(walk, size, min_age=age, max_fail_count=max_fail_count):
                break
        return walk.moved

    async def requeue_failed_item(self, name: str) -> bool:
        """Sends one failed item back by its id (or its name in failed); False if there is none. O(log failed)."""
        (requeued, *_), _ = await self._run_counted("requeue_failed", [name, "", 0, "", "-inf", 0, 1])
        return int(requeued) > 0

    async def _requeue_chunk(
        self, walk: _Walk, size: int, *, min_age: float, max_fail_count: int | None
    ) -> bool:
        """Goes on with a walk by one chunk; whether there may be more."""
        most = "" if max_fail_count is None else max_fail_count
        args = ["", walk.until, round(min_age * 1000), most, *walk.place, size]
        words, _ = await self._run_counted("requeue_failed", args)
        return walk.went(words, min_age)

    async def remove_failed(
        self,
        *,
        min_age: Duration | None = None,
        min_fail_count: int | None = None,
        match: Match | str = Match.BOTH,
        limit: int | None = None,
        chunk: int = 100,
        log_limit: int = 100,
    ) -> Removed:
        """Removes failed items for good, oldest failure first, at most ``limit``; returns how many, and the first
        ``log_limit`` of them.

        Removes those that failed at least ``min_age`` seconds ago and at least ``min_fail_count`` times; with
        ``match="either"`` one of the two is enough. Without a filter all; those that fail while this runs stay.
        If a reply is lost, the items of that chunk are removed and not in the returned log; use
        :meth:`drain_failed` to keep every one. Raises StoreUnavailable. O(failed log failed) in chunks.
        """
        oldest = optional_seconds("min_age", min_age)
        total, found = 0, list[Located]()
        for age, count in _walks(oldest, min_fail_count, Match(match)):
            walk = _Walk()
            while size := walk.next_size(_checked(chunk), _left(limit, total)):
                wanted = log_limit - len(found)
                more = await self._remove_chunk(
                    walk, size, min_age=age, min_fail_count=count, log_limit=wanted
                )
                if not more:
                    break
            total, found = total + walk.moved, found + walk.log
        return Removed(total, tuple(found))

    async def _remove_chunk(
        self,
        walk: _Walk,
        size: int,
        *,
        min_age: float = 0.0,
        min_fail_count: int = 0,
        log_limit: int = 0,
        keep: int = 0,
        reason: str = "",
    ) -> bool:
        """Goes on with a walk by one chunk; whether there may be more. ``keep``: how many of the newest stay;
        ``reason``: what the log of removed items says of those that go."""
        wanted = max(log_limit - len(walk.log), 0)
        args = [walk.until, round(min_age * 1000), min_fail_count, *walk.place, size, keep, wanted, reason]
        words, rows = await self._run_counted("remove_failed", args)
        walk.log += _rows(rows)
        return walk.went(words, min_age)

    async def remove_failed_item(self, name: str) -> Located | None:
        """Removes one failed item by its id (or its name in failed) and returns it; None if there is none.
        O(log failed)."""
        known = await self.failed_item(name)
        (removed, *_), row = await self._run_counted(
            "remove_failed", ["", 0, 0, "-inf", 0, 1, 0, 1, "", name]
        )
        if not int(removed):
            return None
        return (
            _failed(*row) if row else known
        )  # no row: the first reply was lost, the item is the one just read

    async def drain_failed(
        self,
        *,
        min_age: Duration | None = None,
        min_fail_count: int | None = None,
        match: Match | str = Match.BOTH,
        limit: int | None = None,
        chunk: int = 100,
    ) -> AsyncGenerator[Located]:
        """Hands over failed items, oldest failure first, at most ``limit``, and removes each chunk when the caller
        asks for what follows it. The filters are those of :meth:`remove_failed`.

        A crash in the middle of a chunk repeats that chunk at the next drain and loses none. Items that fail
        while this runs are drained too, unless there is a filter. Raises StoreUnavailable. O(failed log failed)
        in chunks.
        """
        total, takes_new = 0, min_age is None and min_fail_count is None
        oldest = optional_seconds("min_age", min_age)
        for age, count in _walks(oldest, min_fail_count, Match(match)):
            walk, more = _Walk(), True
            while more and (size := walk.next_size(_checked(chunk), _left(limit, total))):
                until = "" if takes_new else walk.until
                args = [until, round(age * 1000), count, *walk.place, size]
                reply = await self._connection.run("failed_page", [self._keys.main], args)
                words = reply[0].decode().split()
                more = walk.went(words, age) or (takes_new and words[1] != "0")
                page = _rows(reply[1:])
                for located in page:
                    yield located
                if page:
                    names = [located.name for located in page]
                    await self._run_counted("remove_failed", ["", 0, 0, "-inf", 0, 1, 0, 0, "", *names])
            total += walk.moved

    async def _run_counted(self, name: str, args: Sequence[Arg]) -> tuple[list[str], list[bytes]]:
        """Runs a script that answers a line of words and then rows."""
        with self._connection.lane() as call:
            reply = await self._connection.run(name, [self._keys.main], [*call, *args])
        return reply[1].decode().split(), reply[2:]

    async def failed_items(self, count: int = 100, *, offset: int = 0) -> list[Located]:
        """A page of failed items, oldest failure first. O(log failed + count)."""
        if arguments.count("count", count, least=-1_000_000_000) < 1:
            return []
        arguments.count("offset", offset)
        return [
            _failed(score, name, raw)
            for name, score, raw in await self._page("failed", offset, count)
            if raw is not None
        ]

    async def _page(
        self, state: str, offset: int, count: int, log: list[bytes] | None = None
    ) -> list[tuple[bytes, bytes, bytes | None]]:
        """Name, score and envelope of a state's items, in calls that are bounded by bytes. ``log``: is given the log of
        claim calls."""
        rows: list[tuple[bytes, bytes, bytes | None]] = []
        while len(rows) < count:
            args: list[Arg] = [state, offset + len(rows), min(count - len(rows), BATCH)]
            calls, more, *words = await self._connection.run("items", [self._keys.main], args)
            rows += zip(words[::3], words[1::3], words[2::3], strict=True)
            if log is not None:
                log.append(calls)
            if not more and len(words) < 3 * int(args[2]):
                break
        return rows

    async def failed_item(self, name: str) -> Located | None:
        """One failed item by its id (or its name in failed); None if there is none. O(1)."""
        failed_at = await self._connection.command("ZSCORE", self._keys["failed"], name)
        envelope = await self._connection.command("HGET", self._keys["failed:items"], name)
        return None if failed_at is None or envelope is None else _failed(failed_at, name.encode(), envelope)

    async def removed_items(self, count: int = 100, *, offset: int = 0) -> list[RemovedItem]:
        """The log of items that were removed by themselves, the last one first: by ``on_expiry``, by the policy for
        failed items, by ``max_items``, by :meth:`drop`.

        What :meth:`remove_failed` and :meth:`drain_failed` removed is not in it: they return it. The log keeps the last
        1,000 items, of each the counters, the beginning of the error, and the first 1,000 bytes of the payload.
        Flush and delete empty it. Raises StoreUnavailable. O(offset + count).
        """
        if count < 1:
            return []
        log = await self._connection.command("LRANGE", self._keys["removed"], offset, offset + count - 1)
        return [_removed(line) for line in log]

    async def apply_failed_policy(self, *, limit: int = 100) -> FailedPass:
        """One bounded pass of the queue's own policy for failed items: removal by age and by number, then
        requeues.

        Handles up to ``limit`` items each way, and looks at 20 times as many at most (or 3,000): the next pass, of
        any process, goes on after those that a filter left in failed. Safe in any number of processes at once.
        Raises StoreUnavailable, StoreFull, StoreMisused for a policy that cannot be read.
        """
        _checked(limit)
        failed = read_policy(
            await self._connection.command("HGETALL", self._keys.config), self._keys.config
        ).failed
        removed = requeued = 0
        for age, least in _policy_walks(failed):
            removed += await self._pass(
                "policy_remove_all" if least == 0 else "policy_remove",
                str(least),
                limit - removed,
                partial(self._remove_chunk, min_age=age, min_fail_count=least, reason=RemovalReason.POLICY),
            )
        if failed.max_items is not None:
            over = _Walk()
            await self._remove_chunk(over, limit, keep=failed.max_items, reason=RemovalReason.MAX_ITEMS)
            removed += over.moved
        if failed.requeue_min_age is not None:
            age, most = failed.requeue_min_age, failed.requeue_max_fail_count
            requeued = await self._pass(
                "policy_requeue",
                str(most),
                limit,
                partial(self._requeue_chunk, min_age=age, max_fail_count=most),
            )
        return FailedPass(requeued=requeued, removed=removed)

    async def _pass(
        self, name: str, filtered: str, limit: int, chunk: Callable[[_Walk, int], Awaitable[bool]]
    ) -> int:
        """One bounded stretch of a walk that begins after those that the same filter has left in failed before: it will
        leave them again. How far that is, is kept in the queue's stats."""
        kept = await self._connection.command("HGET", self._keys.stats, name)
        known, _, instant = _text(kept or "").partition(" ")
        walk = _Walk()
        if known == filtered and instant:
            walk.place = (instant, 0)
        begun, more = walk.place[0], True
        while more and walk.moved < limit and walk.looked_at < max(20 * limit, _LEAST_STRETCH):
            more = await chunk(walk, limit - walk.moved)
        if walk.place[0] != begun:
            await self._connection.command("HSET", self._keys.stats, name, f"{filtered} {walk.place[0]}")
        return walk.moved


@dataclass(slots=True)
class _Walk:
    """A walk through failed, oldest failure first: how far it is and what it has done."""

    moved: int = 0
    looked_at: int = 0
    place: tuple[str, int] = ("-inf", 0)
    until: int | str = ""
    log: list[Located] = field(default_factory=list[Located])

    def next_size(self, chunk: int, limit: int | None) -> int:
        """How many items the next chunk may have; 0 if the walk has moved its limit."""
        return chunk if limit is None else max(min(chunk, limit - self.moved), 0)

    def went(self, words: Sequence[str], min_age: float) -> bool:
        """Notes a chunk by what the script answers; false if it was the last."""
        moved, looked, now = map(int, words[:3])
        self.moved, self.looked_at = self.moved + moved, self.looked_at + looked
        self.place = (words[3], int(words[4]))
        self.until = self.until or now - round(min_age * 1000)  # what fails from now on is left alone
        return words[5] == "1"


def read_policy(raw: Any, key: str) -> Policy:
    """The policy in a config hash. Raises StoreMisused for a field that somebody has set to what it cannot be."""
    try:
        return Policy.from_fields(read_fields(raw))
    except ValueError as error:
        raise StoreMisused(f"the policy in {key} cannot be read: {error}") from error


def read_fields(raw: Any) -> dict[str, str]:
    """A hash as the client library returns it (a mapping, or a flat list of names and values), as text."""
    mapping: dict[Any, Any] = raw if hasattr(raw, "items") else dict(zip(raw[::2], raw[1::2], strict=True))
    return {_text(name): _text(value) for name, value in mapping.items()}


def _text(value: bytes | str | int) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _failed(failed_at: bytes | str, name: bytes, envelope: bytes) -> Located:
    return Located(
        read_envelope(envelope),
        State.FAILED,
        name=name.decode("utf-8", "replace"),
        failed_at=float(failed_at) / 1000,
    )


def _removed(line: bytes) -> RemovedItem:
    """A line of the log; what another client has put there shows as far as it can be read."""
    at, reason, size, envelope = (*line.split(b" ", 3), b"", b"", b"", b"")[:4]
    return RemovedItem(
        item=read_envelope(envelope),
        removed_at=int(at) / 1000 if at.isdigit() else 0.0,
        reason=reason.decode("utf-8", "replace"),
        payload_size=int(size) if size.isdigit() else 0,
    )


def _rows(reply: Sequence[bytes]) -> list[Located]:
    return [_failed(*reply[at : at + 3]) for at in range(0, len(reply), 3)]


def _walks(min_age: float | None, min_fail_count: int | None, match: Match) -> list[tuple[float, int]]:
    """The walks (age, count) that together meet exactly what the filters choose.

    What is old enough failed before all that is not: so the first of two walks takes the older ones, and oldest
    first holds over both.
    """
    if match is Match.EITHER and min_age is not None and min_fail_count is not None:
        return [(min_age, 0), (0.0, min_fail_count)]
    return [(min_age or 0.0, min_fail_count or 0)]


def _policy_walks(failed: FailedPolicy) -> list[tuple[float, int]]:
    if failed.remove_min_age is None and failed.remove_min_fail_count is None:
        return []
    return _walks(failed.remove_min_age, failed.remove_min_fail_count, failed.remove_match)


def _checked(chunk: int) -> int:
    return arguments.count("chunk", chunk, least=1, most=1000)


def _left(limit: int | None, moved: int = 0) -> int | None:
    return None if limit is None else arguments.count("limit", limit) - moved
