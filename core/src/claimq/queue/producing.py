"""Enqueueing items."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from claimq.arguments import Duration, Instant, instant, seconds
from claimq.codec import check_name, payload_bytes
from claimq.errors import ItemTooLarge, NotReplicated
from claimq.model import Enqueued, EnqueuedItem, NewItem
from claimq.queue.queue_part import QueuePart
from claimq.queue.token_groups import BATCH
from claimq.redis_store.connection import Arg, Connection
from claimq.redis_store.durable import run_durably
from claimq.redis_store.keys import Keys

_CALL_BYTES = 4 * 1024 * 1024


class _Ids:
    """Ids of items: a prefix that no other process has, and a number."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Takes another prefix. After a fork, the child would otherwise make the same ids as its parent."""
        self.prefix = f"{secrets.token_hex(6)}-"
        self.numbers = itertools.count(1)


_ids = _Ids()
if hasattr(os, "register_at_fork"):  # where there is a fork
    os.register_at_fork(after_in_child=_ids.renew)


@dataclass(slots=True)
class Batch:
    """Items of one call: the words for the script, the ids in order, and the payloads' size in bytes."""

    words: list[Arg]
    ids: list[str]
    size: int


class Producing(QueuePart):
    """Adds items. After StoreUnavailable a call may be repeated without harm if its items have ids of the producer's
    own."""

    async def enqueue(
        self,
        payload: object,
        *,
        client: str | None = None,
        id: str | None = None,  # noqa: A002 - the glossary's word; shadowing is confined to this method
        delay: Duration | None = None,
        at: Instant | None = None,
    ) -> EnqueuedItem:
        """Adds one item at the tail of main, or to delayed until ``delay`` seconds have passed or the instant
        ``at`` has come.

        ``payload``: bytes as they are, text as UTF-8, a dict or list as JSON. ``client`` names the tenant for
        fair claims. An ``id`` of the producer's own is enqueued once within the queue's id window (one hour unless
        set); a repeat adds nothing and returns ``is_duplicate``. When this returns, the server has stored the item as
        safely as its persistence allows (docs/guarantees.md), and on a replica too if the policy's ``durability`` asks
        for that. If no replica confirms it in time, NotReplicated is raised.

        Raises ItemTooLarge, StoreFull, StoreUnavailable (the item may have been stored or not), StoreMisused,
        InvalidName, TypeError. Costs one round trip, O(1) on the server; O(log n) with a delay or an id.
        """
        new = NewItem(payload, id=id, client=client, delay=delay, at=at)
        try:
            return _one(await self.enqueue_many([new]))
        except NotReplicated as error:
            error.result = _one(cast("Enqueued", error.result))
            raise

    async def enqueue_many(self, items: Iterable[object]) -> Enqueued:
        """Adds payloads or :class:`NewItem` in order. All are checked before the first is stored.

        They go in calls of up to 1,000 items or 4 MiB, each of them atomic; after an error the items of earlier calls
        are stored. Errors as :meth:`enqueue`. O(items).
        """
        listed = list(items)
        batches = list(_batches(listed))
        if len(batches) > 1:
            await self._check_sizes(listed)
        ids: list[str] = []
        known: list[str] = []
        length = 0
        for batch in batches or [Batch([], [], 0)]:
            done, missing = await run_enqueue(self._connection, {self._keys: batch})
            one = done[self.name]
            ids += one.ids
            known += one.duplicates
            length = one.length
            if missing:
                raise NotReplicated(missing, Enqueued(tuple(ids), length, tuple(known)))
        return Enqueued(tuple(ids), length, tuple(known))

    async def _check_sizes(self, items: Sequence[object]) -> None:
        stored = await self._connection.command("HGET", self._keys.config, "max_payload")
        limit = int(stored) if stored and stored.isdigit() else 1024 * 1024
        for index, item in enumerate(items):
            size = len(payload_bytes(item.payload if isinstance(item, NewItem) else item))
            if size > limit:
                raise ItemTooLarge(size=size, limit=limit, index=index)


async def run_enqueue(
    connection: Connection, batches: Mapping[Keys, Batch]
) -> tuple[dict[str, Enqueued], str]:
    """Enqueues a batch for each of several queues in one atomic call; returns the results by queue, and what is missing
    where a queue's ``durability`` asks for more than the primary ("" for nothing)."""
    words: list[Arg] = []
    for number, batch in enumerate(batches.values(), start=1):
        words += queue_words(batch, number)
    with connection.lane() as call:
        main_keys = [keys.main for keys in batches]
        reply, missing = await run_durably(connection, "enqueue", main_keys, [*call, *words])
    raise_refusal(reply)
    numbers, known, *_ = reply[1].decode().split("|")
    lengths = [int(word) for word in numbers.split()[2:]]
    duplicates = [int(word) for word in known.split()]
    done: dict[str, Enqueued] = {}
    start = 0
    for (keys, batch), length in zip(batches.items(), lengths, strict=True):
        own = tuple(batch.ids[i - start] for i in duplicates if start <= i < start + len(batch.ids))
        done[keys.queue] = Enqueued(tuple(batch.ids), length, own)
        start += len(batch.ids)
    return done, missing


def _one(done: Enqueued) -> EnqueuedItem:
    return EnqueuedItem(done.ids[0], done.length, bool(done.duplicates))


def raise_refusal(reply: Sequence[bytes | int]) -> None:
    """Raises ItemTooLarge if the script refused a payload."""
    if reply[0] == b"TOO_LARGE":
        raise ItemTooLarge(index=int(reply[1]), size=int(reply[2]), limit=int(reply[3]))


def queue_words(batch: Batch, queue: int, guard: int = 0) -> Iterator[Arg]:
    """A batch's words, completed by the queue's index in KEYS and the position of the claim that guards them."""
    at = 0
    while at < len(batch.words):
        count = int(batch.words[at + 6]) * (2 if batch.words[at + 4] == "" else 1)
        yield queue
        yield guard
        yield from batch.words[at + 2 : at + 7 + count]
        at += 7 + count


def check_one_step(batches: Iterable[Batch]) -> None:
    """Raises ValueError for more items than one atomic call takes, so that none blocks the server for long."""
    listed = list(batches)
    count, size = sum(len(batch.ids) for batch in listed), sum(batch.size for batch in listed)
    if count > BATCH or (count > 1 and size > _CALL_BYTES):
        raise ValueError(
            f"one atomic step takes {BATCH} items or {_CALL_BYTES >> 20} MiB, not {count} items of {size} bytes; "
            "make several calls"
        )


def batch_of(items: Iterable[object]) -> Batch:
    """All items as one batch. Raises TypeError, ValueError or InvalidName for invalid items."""
    whole = Batch([], [], 0)
    for batch in _batches(items, limit=None):
        return batch
    return whole


def _batches(items: Iterable[object], limit: int | None = BATCH) -> Iterator[Batch]:
    batch = Batch([], [], 0)
    shape: tuple[str, str, bool] | None = None
    count_at = number = 0
    prefix, numbers = _ids.prefix, _ids.numbers
    for item in items:
        new = item if isinstance(item, NewItem) else None
        payload = payload_bytes(item if new is None else new.payload)
        if batch.ids and limit and (len(batch.ids) >= limit or batch.size + len(payload) > _CALL_BYTES):
            yield batch
            batch, shape = Batch([], [], 0), None
        wanted = (
            _PLAIN
            if new is None
            else (check_name("client", new.client) if new.client else "-", _due(new), new.id is not None)
        )
        if wanted != shape:
            shape, count_at = wanted, len(batch.words) + 6
            first = next(numbers)
            batch.words += [0, 0, wanted[0], wanted[1], "" if wanted[2] else prefix, first, 0]
            number = first
        elif not wanted[2]:
            number = next(numbers)
            if number != int(batch.words[count_at - 1]) + int(batch.words[count_at]):
                count_at = len(batch.words) + 6
                batch.words += [0, 0, wanted[0], wanted[1], prefix, number, 0]
        if new is not None and new.id is not None:
            batch.words.append(check_name("id", new.id))
            batch.ids.append(new.id)
        else:
            batch.ids.append(f"{prefix}{number}")
        batch.words.append(payload)
        batch.words[count_at] = int(batch.words[count_at]) + 1
        batch.size += len(payload)
    if batch.ids:
        yield batch


_PLAIN = ("-", "", False)


def _due(new: NewItem) -> str:
    if new.delay is not None and new.at is not None:
        raise ValueError("an item has a delay or an instant 'at', not both")
    if new.delay is not None:
        delay = seconds("delay", new.delay)
        return f"+{round(delay * 1000)}" if delay > 0 else ""
    if new.at is not None:
        return str(round(instant("at", new.at) * 1000))
    return ""
