"""Failed items: sending them back, removing them, draining them, and the queue's own policy for both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from claimq.codec import read_envelope
from claimq.errors import StoreMisused
from claimq.model import FailedPass, Located, Removed, State
from claimq.policy import Policy
from claimq.queue_part import QueuePart
from claimq.redis_store.connection import Arg

_LEAST_STRETCH = 3000
"""Items that a pass of the policy may look at: more than the 1,000 that one call lets fail at one instant."""


class FailedItems(QueuePart):
    """What people and policies do with items that were given up.

    In the filters an item's *fail count* is how often it has gone to failed in its whole life, which sending
    it back does not reset. Every script call handles one chunk, atomically; a crash between chunks leaves
    each item in failed, or sent back, or removed.
    """

    async def requeue_failed(
        self, *, max_fail_count: int | None = None, min_delay: float = 0.0, chunk: int = 100
    ) -> int:
        """Sends failed items back to the tail of main, oldest failure first; returns how many.

        Leaves those that failed less than ``min_delay`` seconds ago or more than ``max_fail_count`` times,
        and those that fail while this runs. Their counters restart, their history is kept. Raises StoreFull,
        StoreUnavailable. O(failed log failed) in chunks.
        """
        walk = _Walk()
        while await self._requeue_chunk(walk, max_fail_count, min_delay, _checked(chunk)):
            pass
        return walk.moved

    async def requeue_failed_item(self, name: str) -> bool:
        """Sends one failed item back by its id (or its name in failed); False if there is none. O(log failed)."""
        (requeued, *_), _ = await self._run_counted("requeue_failed", [name, "", 0, "", "-inf", 0, 1])
        return int(requeued) > 0

    async def _requeue_chunk(
        self, walk: _Walk, max_fail_count: int | None, min_delay: float, size: int
    ) -> bool:
        """Goes on with a walk by one chunk; whether there may be more."""
        limit = "" if max_fail_count is None else max_fail_count
        args = ["", walk.until, round(min_delay * 1000), limit, *walk.place, size]
        words, _ = await self._run_counted("requeue_failed", args)
        return walk.went(words, size, min_delay)

    async def remove_failed(
        self, *, min_age: float = 0.0, min_fail_count: int = 0, chunk: int = 100, log_limit: int = 0
    ) -> Removed:
        """Removes failed items for good, oldest failure first; returns how many, and the first ``log_limit``
        of them.

        Leaves those that failed less than ``min_age`` seconds ago or fewer than ``min_fail_count`` times, and
        those that fail while this runs. If a reply is lost, the items of that chunk are removed and not in
        the returned log; use :meth:`drain_failed` to keep every one. Raises StoreUnavailable. O(failed log
        failed) in chunks.
        """
        walk = _Walk()
        while await self._remove_chunk(walk, min_age, min_fail_count, _checked(chunk), log_limit=log_limit):
            pass
        return Removed(walk.moved, tuple(walk.log))

    async def _remove_chunk(
        self,
        walk: _Walk,
        min_age: float,
        min_fail_count: int,
        size: int,
        *,
        log_limit: int = 0,
        keep: int = 0,
    ) -> bool:
        """Goes on with a walk by one chunk; whether there may be more. ``keep``: how many of the newest stay."""
        wanted = log_limit - len(walk.log)
        args = [walk.until, round(min_age * 1000), min_fail_count, *walk.place, size, keep, wanted]
        words, rows = await self._run_counted("remove_failed", args)
        walk.log += [_failed(rows[at], rows[at + 1], rows[at + 2]) for at in range(0, len(rows), 3)]
        return walk.went(words, size, min_age)

    async def remove_failed_item(self, name: str) -> Located | None:
        """Removes one failed item by its id (or its name in failed) and returns it; None if there is none.
        O(log failed)."""
        known = await self.failed_item(name)
        (removed, *_), row = await self._run_counted("remove_failed", ["", 0, 0, "-inf", 0, 1, 0, 1, name])
        if not int(removed):
            return None
        return (
            _failed(*row) if row else known
        )  # no row: the first reply was lost, the item is the one just read

    async def drain_failed(self, *, chunk: int = 100) -> AsyncGenerator[Located]:
        """Hands over all failed items, oldest failure first, and removes each chunk when the caller asks for
        what follows it.

        A crash in the middle of a chunk repeats that chunk at the next drain and loses none. Items that fail
        while this runs are drained too. Raises StoreUnavailable. O(failed log failed) in chunks.
        """
        while page := await self.failed_items(_checked(chunk)):
            for located in page:
                yield located
            names = [located.name for located in page]
            await self._run_counted("remove_failed", ["", 0, 0, "-inf", 0, 1, 0, 0, *names])

    async def _run_counted(self, name: str, args: Sequence[Arg]) -> tuple[list[str], list[bytes]]:
        """Runs a script that answers a line of words and then rows."""
        with self._connection.lane() as call:
            reply = await self._connection.run(name, [self._keys.main], [*call, *args])
        return reply[1].decode().split(), reply[2:]

    async def failed_items(self, count: int = 100, *, offset: int = 0) -> list[Located]:
        """A page of failed items, oldest failure first. O(log failed + count)."""
        if count < 1:
            return []
        reply = await self._connection.run("items", [self._keys.main], ["failed", offset, count])
        return [
            _failed(reply[at + 1], reply[at], reply[at + 2])
            for at in range(1, len(reply), 3)
            if reply[at + 2] is not None
        ]

    async def failed_item(self, name: str) -> Located | None:
        """One failed item by its id (or its name in failed); None if there is none. O(1)."""
        failed_at = await self._connection.command("ZSCORE", self._keys["failed"], name)
        envelope = await self._connection.command("HGET", self._keys["failed:items"], name)
        return None if failed_at is None or envelope is None else _failed(failed_at, name.encode(), envelope)

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
        if failed.remove_older_than is not None:
            age, least = failed.remove_older_than, failed.remove_min_fail_count or 0
            removed = await self._pass(
                "policy_remove",
                str(least),
                limit,
                lambda walk, size: self._remove_chunk(walk, age, least, size),
            )
        if failed.max_items is not None:
            over = _Walk()
            await self._remove_chunk(over, 0.0, 0, limit, keep=failed.max_items)
            removed += over.moved
        if failed.requeue_after is not None:
            delay, most = failed.requeue_after, failed.requeue_max_fail_count
            requeued = await self._pass(
                "policy_requeue",
                str(most),
                limit,
                lambda walk, size: self._requeue_chunk(walk, most, delay, size),
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

    def went(self, words: Sequence[str], size: int, min_age: float) -> bool:
        """Notes a chunk by what the script answers; false if it was the last."""
        moved, looked, now = map(int, words[:3])
        self.moved, self.looked_at = self.moved + moved, self.looked_at + looked
        self.place = (words[3], int(words[4]))
        self.until = self.until or now - round(min_age * 1000)  # what fails from now on is left alone
        return looked >= size


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


def _checked(chunk: int) -> int:
    if not 1 <= chunk <= 1000:
        raise ValueError(f"a chunk has 1 to 1000 items, not {chunk}")
    return chunk
