"""Failed items: requeueing, removing and draining them, and the queue's policy for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from claimq import arguments
from claimq.arguments import Duration, is_page, optional_count, seconds, text
from claimq.codec import read_envelope, text_of
from claimq.errors import StoreFull
from claimq.model import Located, State
from claimq.policy import Match
from claimq.queue.failed.removed import FailedPass, RemovalReason, Removed, RemovedItem
from claimq.queue.failed.walks import Walk, checked_chunk, filtered_walks, policy_walks, rest_of
from claimq.queue.queue_part import QueuePart, instant_ms, read_row
from claimq.queue.token_groups import BATCH
from claimq.redis_store.scripts import Arg

_LEAST_STRETCH = 3000
"""Items that a pass may always read: more than the 1,000 that can fail in one call, at one instant."""


class FailedItems(QueuePart):
    """Operations on failed items, for people and for the queue's policy.

    The filters have one name each: ``min_age`` is the seconds since an item failed; ``min_given_up_count`` and
    ``max_given_up_count`` compare how often it has gone to failed in its whole life, which requeueing does not reset.
    Every script call handles one chunk atomically. After a crash between chunks, each item is either still in failed,
    or requeued, or removed.
    """

    async def requeue_failed(
        self,
        *,
        min_age: Duration = 0.0,
        max_given_up_count: int | None = None,
        limit: int | None = None,
        chunk: int = 100,
    ) -> int:
        """Sends failed items back to the tail of main, oldest failure first, at most ``limit``; returns how many.

        Leaves items that failed less than ``min_age`` seconds ago or more than ``max_given_up_count`` times, and items
        that fail while this runs. The counters of a requeued item restart; its history is kept. Raises StoreFull,
        StoreUnavailable. O(failed log failed) in chunks.
        """
        walk = Walk()
        age, most = seconds("min_age", min_age), optional_count("max_given_up_count", max_given_up_count)
        chunk, limit = checked_chunk(chunk), rest_of(limit)
        with self._reading("requeue_failed", keeps=False):
            while size := walk.next_size(chunk, limit):
                if not await self._requeue_chunk(walk, size, min_age=age, max_given_up_count=most):
                    break
        return walk.moved

    async def requeue_failed_item(self, name: str) -> bool:
        """Sends one failed item back by its id (or its name in failed); False if there is none. O(log failed)."""
        text("name", name)
        with self._reading("requeue_failed"):
            (requeued, *_), _ = await self._run_on_names("requeue_failed", [name])
            return int(requeued) > 0

    async def _requeue_chunk(
        self, walk: Walk, size: int, *, min_age: float, max_given_up_count: int | None
    ) -> bool:
        """Continues a walk by one chunk; True if there may be more."""
        most = "" if max_given_up_count is None else max_given_up_count
        args = [walk.until, round(min_age * 1000), most, *walk.place, size]
        words, _ = await self._run_counted("requeue_failed", args)
        return walk.note_reply(words, min_age)

    async def remove_failed(
        self,
        *,
        min_age: Duration | None = None,
        min_given_up_count: int | None = None,
        match: Match | str = Match.BOTH,
        limit: int | None = None,
        chunk: int = 100,
        log_limit: int = 100,
    ) -> Removed:
        """Removes failed items, oldest failure first, at most ``limit``; returns how many, and the first
        ``log_limit`` of them.

        Removes items that failed at least ``min_age`` seconds ago and at least ``min_given_up_count`` times; with
        ``match="either"`` one of the two is enough. Without a filter it removes all. Items that fail while this runs
        stay. If a reply is lost, the items of that chunk are removed but not in the returned log; use
        :meth:`drain_failed` to keep every one. Raises StoreUnavailable. O(failed log failed) in chunks.
        """
        arguments.count("log_limit", log_limit)
        walks = filtered_walks(min_age, min_given_up_count, match)
        total, log = 0, list[Located]()
        chunk, limit = checked_chunk(chunk), rest_of(limit)
        with self._reading("remove_failed", keeps=False):
            for age, count in walks:
                walk = Walk()
                while size := walk.next_size(chunk, rest_of(limit, total)):
                    log_rest = log_limit - len(log)
                    more = await self._remove_chunk(
                        walk, size, min_age=age, min_given_up_count=count, log_limit=log_rest
                    )
                    if not more:
                        break
                total, log = total + walk.moved, log + walk.log
        return Removed(total, tuple(log))

    async def _remove_chunk(
        self,
        walk: Walk,
        size: int,
        *,
        min_age: float = 0.0,
        min_given_up_count: int = 0,
        log_limit: int = 0,
        keep: int = 0,
        reason: str = "",
    ) -> bool:
        """Continues a walk by one chunk; True if there may be more. ``keep``: how many of the newest items stay;
        ``reason``: the reason in the log of removed items."""
        log_rest = max(log_limit - len(walk.log), 0)
        args = [
            walk.until,
            round(min_age * 1000),
            min_given_up_count,
            *walk.place,
            size,
            keep,
            log_rest,
            reason,
        ]
        words, rows = await self._run_counted("remove_failed", args)
        walk.log += _rows(rows)
        return walk.note_reply(words, min_age)

    async def remove_failed_item(self, name: str, *, failed_at: float | None = None) -> Located | None:
        """Removes one failed item by its id (or its name in failed) and returns it; None if there is none.

        ``failed_at``: of the item as it was read before. One that has failed again since then stays: it may be another
        item with the same id. O(log failed).
        """
        item = await self.failed_item(name)
        until = "" if failed_at is None else round(failed_at * 1000)
        with self._reading("remove_failed"):
            (removed, *_), row = await self._run_on_names("remove_failed", [name], until, log_limit=1)
            if not int(removed):
                return None
            return _failed(*row) if row else item  # no row: the first reply was lost, with the item just read

    async def drain_failed(
        self,
        *,
        min_age: Duration | None = None,
        min_given_up_count: int | None = None,
        match: Match | str = Match.BOTH,
        limit: int | None = None,
        chunk: int = 100,
    ) -> AsyncGenerator[Located]:
        """Yields failed items, oldest failure first, at most ``limit``. Removes each chunk when the caller asks for the
        item after it. The filters are those of :meth:`remove_failed`.

        After a crash in the middle of a chunk the next drain repeats that chunk, so no item is lost; one that has
        failed again since it was read stays. Items that fail while this runs are drained too, unless there is a filter.
        Raises StoreUnavailable. O(failed log failed) in chunks.
        """
        total, takes_new = 0, min_age is None and min_given_up_count is None
        read = self._reading("drain_failed", keeps=False)
        for age, count in filtered_walks(min_age, min_given_up_count, match):
            walk, more = Walk(), True
            while more and (size := walk.next_size(checked_chunk(chunk), rest_of(limit, total))):
                until = "" if takes_new else walk.until
                args = [until, round(age * 1000), count, *walk.place, size]
                with read:  # not while the caller works on an item
                    reply = await read.reply(self._connection.run("failed_page", [self._keys.main], args))
                    words = reply[0].decode().split()
                    more = walk.note_reply(words, age) or (takes_new and words[1] != "0")
                    page = _rows(reply[1:])
                for located in page:
                    yield located
                with read:
                    await self._change_chosen("remove_failed", page)
            total += walk.moved

    async def _change_chosen(self, script: str, items: Sequence[Located]) -> int:
        """Requeues or removes items as they were read, and returns how many. One that has left failed since, or has
        failed again, stays as it is."""
        names = list(dict.fromkeys(located.name for located in items))
        until = round(max((located.failed_at or 0.0 for located in items), default=0.0) * 1000)
        changed = 0
        with self._reading(script, keeps=False):
            while names:
                words, _ = await self._run_on_names(script, names[:BATCH], until)
                changed += int(words[0])
                names = names[max(int(words[1]), 1) :]
        return changed

    async def _run_on_names(
        self, script: str, names: Sequence[str], until: int | str = "", *, log_limit: int = 0
    ) -> tuple[list[str], list[bytes]]:
        """Runs a script on these items alone, unless they failed after ``until`` (ms). ``log_limit``: how many removed
        items it returns."""
        of_removal: list[Arg] = [0, log_limit, ""] if script == "remove_failed" else []
        return await self._run_counted(script, [until, 0, "", "-inf", 0, len(names), *of_removal, *names])

    async def _run_counted(self, name: str, args: Sequence[Arg]) -> tuple[list[str], list[bytes]]:
        """Runs a script that returns a line of words and then rows."""
        with self._reading(name) as read:
            with self._connection.lanes.new_call() as call:
                reply = await read.reply(self._connection.run(name, [self._keys.main], [*call, *args]))
            return reply[1].decode().split(), reply[2:]

    async def failed_item(self, name: str) -> Located | None:
        """One failed item by its id (or its name in failed); None if there is none. O(1)."""
        text("name", name)
        with self._reading("failed item"):
            failed_at = await self._read("ZSCORE", self._keys["failed"], name)
            if failed_at is None:
                return None
            envelope = await self._read("HGET", self._keys["failed:items"], name)
            return None if envelope is None else _failed(failed_at, name.encode(), envelope)

    async def failed_reasons(self) -> dict[str, int]:
        """Why items are in failed: the number of items for each reason, most items first; in sum all of them.

        A reason is the first line of an item's last error, up to 200 bytes, with ``#`` for numbers and ids,
        ``'...'`` for quoted texts, and ``/...`` for paths. At most 200 reasons are counted at a time; items with
        others are counted as "(other)". Items whose counts another client has deleted are "(unknown)". Raises
        StoreUnavailable. O(reasons).
        """
        with self._reading("failed_reasons") as read:
            total, *pairs = await read.reply(self._connection.run("failed_reasons", [self._keys.main], []))
        counts = {text_of(reason): int(count) for reason, count in zip(pairs[::2], pairs[1::2], strict=True)}
        unknown = int(total) - sum(counts.values())
        if unknown < 0:  # another client has removed failed items
            counts, unknown = {}, int(total)
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return dict(ordered) | ({UNKNOWN_REASON: unknown} if unknown else {})

    async def removed_items(self, count: int = 100, *, offset: int = 0) -> list[RemovedItem]:
        """The log of items that were removed by ``on_expiry``, the policy for failed items, ``max_items`` or
        :meth:`drop`, newest first.

        :meth:`remove_failed` and :meth:`drain_failed` return the items that they remove, so these are not in the log.
        It keeps the last 1,000 items, each with its counters, the beginning of its error, and the first 1,000 bytes
        of its payload. Flush and delete empty it. Raises StoreUnavailable. O(offset + count).
        """
        if not is_page(count, offset):
            return []
        with self._reading("removed items") as read:
            log = await read.reply(self._read("LRANGE", self._keys["removed"], offset, offset + count - 1))
            return [_removed(line) for line in log]

    async def apply_failed_policy(self, *, limit: int = 100) -> FailedPass:
        """One bounded pass of the queue's policy for failed items: removal by age and by number, then requeueing.

        Removes up to ``limit`` items and requeues up to ``limit``, and reads at most 20 times as many (or 3,000). The
        next pass, of any process, continues after the items that a filter left in failed. Safe in any number of
        processes at once. Raises StoreUnavailable, StoreFull, StoreMisused for an invalid policy.
        """
        arguments.count("limit", limit, least=1, most=BATCH)
        with self._reading("apply_failed_policy", keeps=False):
            return await self._apply_failed_policy(limit)

    async def _apply_failed_policy(self, limit: int) -> FailedPass:
        failed = (await self._stored_policy()).failed
        removed = requeued = 0
        for age, least in policy_walks(failed):
            removed += await self._pass(
                "policy_remove_all" if least == 0 else "policy_remove",
                str(least),
                limit - removed,
                partial(
                    self._remove_chunk, min_age=age, min_given_up_count=least, reason=RemovalReason.POLICY
                ),
            )
        if failed.max_items is not None:
            over = Walk()
            remove = partial(self._remove_chunk, keep=failed.max_items, reason=RemovalReason.MAX_ITEMS)
            while over.moved < limit and await remove(over, limit - over.moved):
                pass
            removed += over.moved
        if failed.requeue_min_age is not None:
            age, most = failed.requeue_min_age, failed.requeue_max_given_up_count
            requeued = await self._pass(
                "policy_requeue",
                str(most),
                limit,
                partial(self._requeue_chunk, min_age=age, max_given_up_count=most),
            )
        return FailedPass(requeued=requeued, removed=removed)

    async def _pass(
        self, name: str, filtered: str, limit: int, chunk: Callable[[Walk, int], Awaitable[bool]]
    ) -> int:
        """One bounded part of a walk. It begins after the items that the same filter left in failed before, since it
        would leave them again; their place is kept in the queue's stats."""
        bookmark = await self._read("HGET", self._keys.stats, name)
        bookmark_filter, _, instant = text_of(bookmark or "").partition(" ")
        walk = Walk()
        if bookmark_filter == filtered and instant:
            walk.place = (instant, 0)
        begun, more = walk.place[0], True
        while more and walk.moved < limit and walk.looked_at < max(20 * limit, _LEAST_STRETCH):
            more = await chunk(walk, limit - walk.moved)
        if walk.place[0] != begun:
            with suppress(StoreFull):  # the next pass then begins where this one did
                await self._connection.command("HSET", self._keys.stats, name, f"{filtered} {walk.place[0]}")
        return walk.moved


UNKNOWN_REASON = "(unknown)"
"""The reason of items whose reasons are not counted."""


def _failed(failed_at: bytes | str, name: bytes, envelope: bytes) -> Located:
    return read_row(State.FAILED, envelope, name, failed_at)


def _removed(line: bytes) -> RemovedItem:
    """A line of the log. Of a line that another client has added, it has the parts that can be read."""
    at, reason, size, envelope = (*line.split(b" ", 3), b"", b"", b"", b"")[:4]
    return RemovedItem(
        item=read_envelope(envelope),
        removed_at=instant_ms(at) / 1000 if at.isdigit() else 0.0,
        reason=reason.decode("utf-8", "replace"),
        payload_size=int(size) if size.isdigit() else 0,
    )


def _rows(reply: Sequence[bytes]) -> list[Located]:
    return [_failed(*reply[at : at + 3]) for at in range(0, len(reply), 3)]
