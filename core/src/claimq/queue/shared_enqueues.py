"""Single enqueues that are made at the same time: those that come while a call is in flight share the next call."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass
from typing import Any

from claimq.concurrency.calls_in_flight import CallsInFlight
from claimq.errors import ClaimqError, StoreFull, StoreUnavailable
from claimq.model import EnqueuedItem, construct
from claimq.queue.batches import Batch, Stored, call_enqueue
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys

_MOST_ITEMS, _MOST_BYTES = 200, 256 * 1024
"""Of one shared call. A larger payload has a call of its own."""

Answer = tuple[EnqueuedItem, str]
"""The result of one enqueue, and what is missing of the durability that its queue requires ("" for nothing)."""


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    answer: asyncio.Future[Answer]


async def enqueue_one(connection: Connection, keys: Keys, batch: Batch) -> Answer:
    """Enqueues a batch of one item. Raises as if it had a call of its own.

    A caller that is cancelled leaves the others alone: its item is not sent, or has been sent and may be stored.
    """
    under_way = connection.shared_enqueues
    if under_way is None or batch.size > _MOST_BYTES:
        return _answer_to(batch, await call_enqueue(connection, (keys.main,), batch.words))
    shared: SharedEnqueues | None = under_way.get(keys.main)
    if shared is None:
        shared = under_way[keys.main] = SharedEnqueues(connection, keys, under_way)
    return await shared.add(batch)


class SharedEnqueues:
    """The enqueues of one queue on one connection. It exists while a call is in flight."""

    def __init__(self, connection: Connection, keys: Keys, under_way: dict[str, Any]) -> None:
        self._connection = connection
        self._keys = keys
        self._under_way = under_way
        self._waiting: list[_Waiting] = []
        self._calls = CallsInFlight(self._send)

    async def add(self, batch: Batch) -> Answer:
        """Sends the batch now if no call is in flight, or all are late; else with the next call."""
        if not self._waiting and self._calls.may_begin():
            number = self._calls.begin()
            try:
                return _answer_to(
                    batch, await call_enqueue(self._connection, (self._keys.main,), batch.words)
                )
            finally:
                self._calls.end(number)
        waiting = _Waiting(batch, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        return await waiting.answer

    def _send(self) -> None:
        """Begins a call with those that wait, as many as fit."""
        while self._waiting and self._calls.may_begin():
            # A cancelled caller's is not sent.
            if together := self._next([caller for caller in self._waiting if not caller.answer.done()]):
                self._connection.in_background(self._call(self._calls.begin(), together))
        if not self._calls.count and self._under_way.get(self._keys.main) is self:
            del self._under_way[self._keys.main]

    def _next(self, waiting: list[_Waiting]) -> list[_Waiting]:
        """Takes the first of those that wait, as many as fit in a call."""
        count = size = 0
        for caller in waiting[:_MOST_ITEMS]:
            size += caller.batch.size
            if count and size > _MOST_BYTES:
                break
            count += 1
        self._waiting = waiting[count:]
        return waiting[:count]

    async def _call(self, number: int, together: list[_Waiting]) -> None:
        try:
            await self._answer(together)
        except Exception as error:  # noqa: BLE001 - a defect, which its callers are to see
            for caller in together:
                _refuse(caller, error)
        finally:
            for caller in together:
                caller.answer.cancel()  # of those without an answer, when the event loop ends
            # A turn later: those that have their answer now may enqueue the next item at once.
            asyncio.get_running_loop().call_soon(self._calls.end, number)

    async def _answer(self, together: list[_Waiting]) -> None:
        try:
            done = await call_enqueue(self._connection, (self._keys.main,), _merged(together).words)
        except (StoreUnavailable, StoreFull) as error:
            for caller in together:
                _refuse(caller, error)
        except ClaimqError as error:
            # Nothing was stored: one item may be too large, one client's key of a wrong type.
            if len(together) == 1:
                _refuse(together[0], error)
                return
            for caller in together:
                await self._answer([caller])
        else:
            for position, caller in enumerate(together):
                if not caller.answer.done():
                    caller.answer.set_result(_answer_to(caller.batch, done, position))


def _refuse(caller: _Waiting, error: Exception) -> None:
    if not caller.answer.done():
        caller.answer.set_exception(_copied(error))


def _copied(error: Exception) -> Exception:
    """A caller's own error, whose traceback grows alone; the same one if its class cannot be copied."""
    try:
        copied = copy.copy(error)
    except Exception:  # noqa: BLE001 - a foreign class, whose constructor may raise anything
        return error
    copied.__cause__ = error.__cause__
    return copied.with_traceback(error.__traceback__)


def _merged(together: list[_Waiting]) -> Batch:
    """The items of these callers, in order, as one batch."""
    whole = Batch([], [], 0)
    for caller in together:
        whole.append(caller.batch)
    return whole


def _answer_to(batch: Batch, done: Stored, position: int = 0) -> Answer:
    """The answer to a batch of one item. ``position``: its place among the items of the call."""
    item = construct(EnqueuedItem, (batch.ids[0], done.lengths[0], position in done.duplicates))
    return item, done.missing
