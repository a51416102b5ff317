"""Failed items: sending them back, removing them, draining them, and the queue's own policy for both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from claimq.codec import read_envelope
from claimq.model import FailedPass, Located, Removed, State
from claimq.policy import Policy
from claimq.queue_part import QueuePart
from claimq.redis_store.connection import Arg


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
        requeued, _ = await self._requeue_some(max_fail_count, min_delay, chunk, most=None)
        return requeued

    async def requeue_failed_item(self, name: str) -> bool:
        """Sends one failed item back by its id (or its name in failed); False if there is none. O(log failed)."""
        requeued, *_ = await self._run_counted("requeue_failed", [name, "", 0, "", 0, 1])
        return requeued[0] > 0

    async def _requeue_some(
        self, max_fail_count: int | None, min_delay: float, chunk: int, most: int | None
    ) -> tuple[int, bool]:
        _check_chunk(chunk)
        cutoff: int | str = ""
        requeued = skipped = 0
        limit = "" if max_fail_count is None else max_fail_count
        while most is None or requeued < most:
            size = chunk if most is None else min(chunk, most - requeued)
            args = ["", cutoff, round(min_delay * 1000), limit, skipped, size]
            (moved, passed, looked, now), _ = await self._run_counted("requeue_failed", args)
            requeued, skipped = requeued + moved, skipped + passed
            cutoff = cutoff or now - round(min_delay * 1000)
            if looked < size:
                return requeued, False
        return requeued, True

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
        return await self._remove_some(min_age, min_fail_count, chunk, log_limit, most=None)

    async def _remove_some(
        self, min_age: float, min_fail_count: int, chunk: int, log_limit: int, most: int | None
    ) -> Removed:
        _check_chunk(chunk)
        cutoff: int | str = ""
        removed = skipped = 0
        log: list[Located] = []
        while most is None or removed < most:
            size = chunk if most is None else min(chunk, most - removed)
            args = [cutoff, round(min_age * 1000), min_fail_count, skipped, size, log_limit - len(log)]
            (gone, passed, looked, now), rows = await self._run_counted("remove_failed", args)
            removed, skipped = removed + gone, skipped + passed
            cutoff = cutoff or now - round(min_age * 1000)
            log += [_failed(rows[at], rows[at + 1], rows[at + 2]) for at in range(0, len(rows), 3)]
            if looked < size:
                break
        return Removed(removed, tuple(log))

    async def remove_failed_item(self, name: str) -> Located | None:
        """Removes one failed item by its id (or its name in failed) and returns it; None if there is none.
        O(log failed)."""
        known = await self.failed_item(name)
        (removed, *_), row = await self._run_counted("remove_failed", ["", 0, 0, 0, 1, 1, name])
        if not removed:
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
        _check_chunk(chunk)
        while page := await self.failed_items(chunk):
            for located in page:
                yield located
            names = [located.name for located in page]
            await self._run_counted("remove_failed", ["", 0, 0, 0, len(names), 0, *names])

    async def _run_counted(self, name: str, args: Sequence[Arg]) -> tuple[list[int], list[bytes]]:
        """Runs a script that answers a line of numbers and then rows."""
        with self._connection.lane() as call:
            reply = await self._connection.run(name, [self._keys.main], [*call, *args])
        return [int(number) for number in reply[1].split()], reply[2:]

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

        Handles up to ``limit`` items each way; safe in any number of processes at once. Raises
        StoreUnavailable, StoreFull.
        """
        raw = await self._connection.command("HGETALL", self._keys.config)
        failed = Policy.from_fields(read_fields(raw)).failed
        removed = requeued = 0
        if failed.remove_older_than is not None:
            gone = await self._remove_some(
                failed.remove_older_than, failed.remove_min_fail_count or 0, limit, 0, most=limit
            )
            removed += gone.count
        if failed.max_items is not None:
            over = await self._connection.command("ZCARD", self._keys["failed"]) - failed.max_items
            if over > 0:
                removed += (await self._remove_some(0.0, 0, limit, 0, most=min(over, limit))).count
        if failed.requeue_after is not None:
            requeued, _ = await self._requeue_some(
                failed.requeue_max_fail_count, failed.requeue_after, limit, most=limit
            )
        return FailedPass(requeued=requeued, removed=removed)


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


def _check_chunk(chunk: int) -> None:
    if not 1 <= chunk <= 1000:
        raise ValueError(f"a chunk has 1 to 1000 items, not {chunk}")
