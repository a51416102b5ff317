"""Divides items into calls, and encodes them as arguments of a script."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from claimq.arguments import several
from claimq.codec import check_name, due_word, payload_bytes
from claimq.errors import ItemTooCostly, ItemTooLarge, QueueFull
from claimq.item_options import options_word
from claimq.model import NewItem, construct
from claimq.queue.index import note_use
from claimq.queue.token_groups import BATCH
from claimq.redis_store.connection import Connection
from claimq.redis_store.durable import run_durably
from claimq.redis_store.keys import queue_of
from claimq.redis_store.scripts import Arg

_CALL_BYTES = 2 * 1024 * 1024
_CALL_QUEUES, _CALL_CLIENTS = 100, 200
_OPTIONS_WEIGHT = 16
"""How much longer the server takes for a byte of options than for one of a payload (HEADER_WEIGHT in
``lua/lib/envelope.lua``)."""


class _Ids:
    """Ids of items: a prefix that no other process has, and a number."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Takes another prefix."""
        self._pid = os.getpid()
        self.prefix = f"{secrets.token_hex(6)}-"
        self.numbers = itertools.count(1)

    def of_this_process(self) -> _Ids:
        """Itself. In the child of a fork, also one that runs no hooks, with another prefix: the child would otherwise
        make the same ids as its parent."""
        if self._pid != os.getpid():
            self.renew()
        return self


_ids = _Ids()


@dataclass(slots=True)
class Batch:
    """Items of one call: the words for the script (for a call with this queue first in KEYS and no guard;
    :func:`queue_words` changes both), the ids in order, and the size in bytes of the payloads and, as the script counts
    them, of the options."""

    words: list[Arg]
    ids: list[str]
    size: int
    _last: int = 0

    def append(self, other: Batch) -> None:
        """Adds the items of a batch that has one group. It becomes a part of the last group if that goes on with it."""
        words, group = self.words, other.words
        if (
            words
            and words[self._last + 2 : self._last + 5] == group[2:5]
            and (int(words[self._last + 6]) < 0) == (int(group[6]) < 0)
            and (group[4] == "" or int(words[self._last + 5]) + abs(int(words[self._last + 6])) == group[5])
        ):
            words[self._last + 6] = int(words[self._last + 6]) + int(group[6])
            words += group[7:]
        else:
            self._last = len(words)
            words += group
        self.ids += other.ids
        self.size += other.size


class Stored(NamedTuple):
    """Reply to an enqueue call: the length of main of each queue, and the positions of items that were enqueued before.

    ``missing``: what is missing where a queue's ``durability`` asks for more than the primary ("" for nothing).
    """

    lengths: Sequence[int]
    duplicates: set[int]
    missing: str


async def call_enqueue(connection: Connection, main_keys: Sequence[str], words: Sequence[Arg]) -> Stored:
    """Enqueues batches for one or several queues in one atomic call. ``words``: those of all batches; each group begins
    with the position of its queue in ``main_keys``, from 1 (:func:`queue_words`)."""
    with connection.lanes.new_call() as call:
        reply, missing = await run_durably(connection, "enqueue", main_keys, (*call, *words))
    raise_refusal(reply, main_keys)
    numbers, duplicate_places, *_ = reply[1].split(b"|")
    seq, _, *lengths = map(int, numbers.split())
    # With the first item of a queue: one that was deleted took its name along.
    if seq == 1 or not connection.noted_queues.issuperset(main_keys):
        await note_use(connection, main_keys)
    duplicates = {*map(int, duplicate_places.split())}
    return construct(Stored, (lengths, duplicates, missing))


def raise_refusal(reply: Sequence[Any], main_keys: Sequence[str] = ()) -> None:
    """Raises ItemTooLarge or ItemTooCostly for an item that the script refused, and QueueFull for a full queue."""
    if reply[0] == b"TOO_LARGE":
        raise ItemTooLarge(index=int(reply[1]), size=int(reply[2]), limit=int(reply[3]))
    if reply[0] == b"COSTLY":
        index, cost, limit = map(int, reply[1:4])
        raise ItemTooCostly(cost=cost, limit=limit, name=reply[4].decode(), index=index)
    if reply[0] == b"FULL":
        queue = queue_of(main_keys[int(reply[1]) - 1])
        waiting, limit, adding = map(int, reply[4:7])
        raise QueueFull(queue, waiting, limit, adding, reply[2].decode() or None, reply[3].decode())


def queue_words(batch: Batch, queue: int, guard: int = 0) -> Iterator[Arg]:
    """A batch's words. The positions in KEYS count from 1: that of its queue, and of the claim that guards it."""
    at = 0
    while at < len(batch.words):
        count = int(batch.words[at + 6])
        count = abs(count) * (1 + (batch.words[at + 4] == "") + (count < 0))
        yield queue
        yield guard
        yield from batch.words[at + 2 : at + 7 + count]
        at += 7 + count


def check_one_step(batches: Iterable[tuple[str, Batch]]) -> None:
    """Raises ValueError for more items or queues than one atomic call takes, so that none blocks the server for long.

    ``batches``: each with the name of its queue.
    """
    names, all_batches = set[str](), list[Batch]()
    for name, batch in batches:
        names.add(name)
        all_batches.append(batch)
    if len(names) > _CALL_QUEUES:
        raise ValueError(f"one atomic step takes {_CALL_QUEUES} queues, not {len(names)}; make several calls")
    count, size = sum(len(batch.ids) for batch in all_batches), sum(batch.size for batch in all_batches)
    if count > BATCH or (count > 1 and size > _CALL_BYTES):
        raise ValueError(
            f"one atomic step takes {BATCH} items or {_CALL_BYTES >> 20} MiB, not {count} items of {size} bytes "
            f"(headers count {_OPTIONS_WEIGHT} times); make several calls"
        )


def batch_of_payload(payload: object) -> Batch:
    """One payload without options of its own as a batch. As :func:`batch_of`, in a third of the time."""
    client, due, *_ = _PLAIN
    raw, ids = payload_bytes(payload), _ids.of_this_process()
    prefix, number = ids.prefix, next(ids.numbers)
    return Batch([1, 0, client, due, prefix, number, 1, raw], [f"{prefix}{number}"], len(raw))


def batch_of(items: Iterable[object]) -> Batch:
    """All items as one batch. Raises TypeError, ValueError or InvalidName for invalid items."""
    whole = Batch([], [], 0)
    for batch in batches_of(items, limit=None):
        return batch
    return whole


def batches_of(items: Iterable[object], limit: int | None = BATCH) -> Iterator[Batch]:
    """Items in order, cut into calls. Raises TypeError, ValueError or InvalidName for invalid items."""
    batch = Batch([], [], 0)
    shape: _Shape | None = None
    clients, count_at, number = set[str](), 0, 0
    ids = _ids.of_this_process()
    prefix, numbers = ids.prefix, ids.numbers
    for item in several("items", items):
        new = item if isinstance(item, NewItem) else None
        payload = payload_bytes(item if new is None else new.payload)
        options = "" if new is None else options_word(new)
        size = len(payload) + _OPTIONS_WEIGHT * len(options)
        item_shape = _PLAIN if new is None else _shape(new, has_options=options != "")
        if batch.ids and not _fits(batch, size, item_shape[0], clients, limit):
            yield batch
            batch, shape, clients = Batch([], [], 0), None, set[str]()
        if item_shape != shape:
            clients.add(item_shape[0])
            shape, count_at = item_shape, len(batch.words) + 6
            first = next(numbers)
            batch.words += [1, 0, item_shape[0], item_shape[1], "" if item_shape[2] else prefix, first, 0]
            number = first
        elif not item_shape[2]:
            number = next(numbers)
            if number != int(batch.words[count_at - 1]) + abs(int(batch.words[count_at])):
                count_at = len(batch.words) + 6
                batch.words += [1, 0, item_shape[0], item_shape[1], prefix, number, 0]
        if new is not None and new.id is not None:
            batch.words.append(check_name("id", new.id))
            batch.ids.append(new.id)
        else:
            batch.ids.append(f"{prefix}{number}")
        if options:
            batch.words.append(options)
        batch.words.append(payload)
        batch.words[count_at] = int(batch.words[count_at]) + (-1 if options else 1)
        batch.size += size
    if batch.ids:
        yield batch


def _fits(batch: Batch, size: int, client: str, clients: set[str], limit: int | None) -> bool:
    """Whether a call takes one more item, of so many bytes and of this client. ``clients``: those of the batch."""
    if limit is None:
        return True
    has_room = len(batch.ids) < limit and batch.size + size <= _CALL_BYTES
    return has_room and (client in clients or len(clients) < _CALL_CLIENTS)


_Shape = tuple[str, str, bool, bool]
"""What the items of a group share: the client, when they are due, whether they have ids of their own, and options."""
_PLAIN: _Shape = ("-", "", False, False)


def _shape(new: NewItem, *, has_options: bool) -> _Shape:
    client = "-" if new.client is None else check_name("client", new.client)
    return client, due_word(new), new.id is not None, has_options
