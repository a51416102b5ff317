"""Enqueueing items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from claimq.arguments import several
from claimq.codec import payload_bytes
from claimq.errors import ItemTooCostly, ItemTooLarge, NotReplicated, QueueFull
from claimq.item_options import ItemOptions, new_item
from claimq.limits import Limits, limit_below, limits_at
from claimq.model import Enqueued, EnqueuedItem, NewItem
from claimq.queue.batches import Batch, batch_of, batch_of_payload, batches_of, call_enqueue, queue_words
from claimq.queue.queue_part import QueuePart
from claimq.queue.shared_enqueues import enqueue_one
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys
from claimq.redis_store.scripts import Arg
from claimq.tracing import Sending, is_active


class Producing(QueuePart):
    """Adds items. After StoreUnavailable a call may be repeated without harm if its items have ids of the producer's
    own."""

    async def enqueue(
        self,
        payload: object,
        **options: Unpack[ItemOptions],
    ) -> EnqueuedItem:
        """Adds one item at the tail of main, or to delayed, for ``delay`` seconds or until the instant ``at``.

        ``payload``: bytes as they are, text as UTF-8, a dict or list as JSON. ``options``: those of :class:`NewItem`,
        ``id``, ``client``, ``delay`` and the others. An ``id`` of the producer's own is enqueued once
        within the queue's id window (one hour unless set); a repeat adds nothing and returns ``is_duplicate``. When
        this returns, the server has stored the item as safely as its persistence allows (docs/guarantees.md), and on a
        replica too if the policy's ``durability`` asks for that. If no replica confirms it in time, NotReplicated is
        raised.

        Raises ItemTooLarge, ItemTooCostly, QueueFull, StoreFull, StoreUnavailable (the item may have been stored or
        not), StoreMisused, InvalidName, TypeError. Costs one round trip, O(1) on the server; O(log n) with a delay or
        an id. Calls that are made while one is in flight share the next one; each has its own result or error.
        """
        if not options and not is_active():
            done, missing = await enqueue_one(self._connection, self._keys, batch_of_payload(payload))
        else:
            with Sending(self.name, 1) as span:
                batch = batch_of(span.carrying([new_item(payload, options)]))
                done, missing = await enqueue_one(self._connection, self._keys, batch)
                span.note_id(done.id)
        if missing:
            raise NotReplicated(missing, done)
        return done

    async def enqueue_many(self, items: Iterable[object]) -> Enqueued:
        """Adds payloads or :class:`NewItem` in order. All are checked before the first is stored.

        They go in calls of up to 1,000 items, 200 clients or 2 MiB, each of them atomic; after an error the items of
        earlier calls are stored. A single item shares calls with others as in :meth:`enqueue`. Errors as there.
        O(items).
        """
        new_items = several("items", items)
        with Sending(self.name, len(new_items)) as span:
            return await self._enqueue_all(span.carrying(new_items))

    async def _enqueue_all(self, items: Iterable[object]) -> Enqueued:
        new_items = list(items)
        batches = list(batches_of(new_items))
        if len(new_items) == 1:
            return await self._enqueue_single(batches[0])
        if len(batches) > 1:
            await self._check_each(new_items)
        ids: list[str] = []
        duplicates: list[str] = []
        length = 0
        for batch in batches or [Batch([], [], 0)]:
            try:
                done, missing = await run_enqueue(self._connection, {self._keys: batch})
            except QueueFull as error:
                error.stored_count = len(ids)
                raise
            enqueued = done[self.name]
            ids += enqueued.ids
            duplicates += enqueued.duplicates
            length = enqueued.length
            if missing:
                raise NotReplicated(missing, Enqueued(tuple(ids), length, tuple(duplicates)))
        return Enqueued(tuple(ids), length, tuple(duplicates))

    async def _enqueue_single(self, batch: Batch) -> Enqueued:
        done, missing = await enqueue_one(self._connection, self._keys, batch)
        enqueued = Enqueued((done.id,), done.length, (done.id,) if done.is_duplicate else ())
        if missing:
            raise NotReplicated(missing, enqueued)
        return enqueued

    async def _check_each(self, items: Sequence[object]) -> None:
        stored, text = await self._read("HMGET", self._keys.config, "max_payload", "limits")
        limit = int(stored) if stored and stored.isdigit() else 1024 * 1024
        limits: Limits = ()
        if text and b" cost" in text:
            now, _ = await self._read("TIME")
            limits, _ = limits_at(text.decode("utf-8", "replace"), int(now))
        for index, item in enumerate(items):
            if isinstance(item, NewItem) and (
                lowest := limit_below(limits, item.cost, item.client, item.key)
            ):
                raise ItemTooCostly(cost=item.cost, limit=lowest.at_once, name=lowest.name, index=index)
            size = len(payload_bytes(item.payload if isinstance(item, NewItem) else item))
            if size > limit:
                raise ItemTooLarge(size=size, limit=limit, index=index)


async def run_enqueue(
    connection: Connection, batches: Mapping[Keys, Batch]
) -> tuple[dict[str, Enqueued], str]:
    """Enqueues a batch for each of several queues in one atomic call. Returns the results by queue, and what is missing
    where a queue's ``durability`` asks for more than the primary ("" for nothing)."""
    words: list[Arg] = []
    for number, batch in enumerate(batches.values(), start=1):
        words += queue_words(batch, number)
    stored = await call_enqueue(connection, [keys.main for keys in batches], words)
    done: dict[str, Enqueued] = {}
    start = 0
    for (keys, batch), length in zip(batches.items(), stored.lengths, strict=True):
        duplicates = tuple(
            batch.ids[i - start] for i in sorted(stored.duplicates) if start <= i < start + len(batch.ids)
        )
        done[keys.queue] = Enqueued(tuple(batch.ids), length, duplicates)
        start += len(batch.ids)
    return done, stored.missing
