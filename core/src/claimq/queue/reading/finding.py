"""Searching a queue for an item, and where it waits. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from claimq.arguments import Instant, instant, of_type, text
from claimq.codec import check_name
from claimq.errors import SearchEnded
from claimq.model import Located, State
from claimq.queue.queue_part import instant_ms, read_hold, read_row
from claimq.queue.reading.inspecting import Inspecting
from claimq.queue.reading.listing import number_of_reply
from claimq.queue.token_groups import BATCH
from claimq.redis_store.scripts import Arg
from claimq.waiting.reasons import Between, Facts, Where, where

_STRETCH, _FIRST_ITEMS = 1000, 500


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search found an item: the client whose list it is in ("-": none), its position from the oldest item, its
    token and score (busy), its score (delayed), and the stored item."""

    client: str | bytes
    position: int
    name: bytes
    score: bytes
    raw: bytes


class Finding(Inspecting):
    """Finds items by their ids. Safe on a busy queue at any time: each script call is short and bounded."""

    async def find(self, id: str, *, everywhere: bool = True) -> Located | None:  # noqa: A002 - the glossary's word; shadowing is confined to this method
        """The item with its state, its holder and its history; None if it is not in the queue.

        O(1) in failed, otherwise O(n) in calls that read 1,000 items or 2 MiB each, so that none blocks the server for
        long. If items move during the search, it is repeated up to three times. With ``everywhere=False`` it searches
        the first 500 items or 2 MiB of each of busy, delayed and main, and raises SearchEnded if there are more.
        """
        text("id", id)
        of_type("everywhere", everywhere, bool, "True or False")
        with self._reading("find", keeps=False):
            located, _ = await self._find(id, everywhere)
            return located

    async def _find(self, item_id: str, everywhere: bool) -> tuple[Located | None, Place | None]:
        """The item, and its place unless it has failed."""
        for _ in range(3):
            snapshot, is_partial = await self.snapshot(), False
            if located := await self.failed_item(item_id):
                return located, None
            for state in (State.BUSY, State.DELAYED, State.MAIN):
                try:
                    if place := await self._place_in(state, item_id, everywhere):
                        return await self._at(state, place), place
                except SearchEnded:
                    is_partial = True
            if is_partial:
                total = sum(snapshot.lengths.values()) - snapshot.lengths[State.FAILED]
                raise SearchEnded(
                    f"{item_id} is not among the first {_FIRST_ITEMS} items of {self.name} in each of busy, delayed "
                    f"and main; search all {total:,} of them (`claimq item show --all`)"
                )
            if (await self.snapshot()).seq == snapshot.seq:
                return None, None
        return await self.failed_item(item_id), None

    async def where(
        self,
        id: str,  # noqa: A002 - as in find()
        *,
        client: str | None = None,
        enqueued_at: Instant | None = None,
        everywhere: bool = True,
    ) -> Where | None:
        """Where the item is, why it waits and how many others come before it. None if it is not in the queue.

        The reason, the numbers and the item are those of one instant. ``client`` and ``enqueued_at``, as the item has
        them, save the search of an item that waits in main: it then takes one call of O(log n). An item whose id its
        producer gave needs no ``enqueued_at`` until that is forgotten or the item was requeued. Otherwise
        ``everywhere``, errors and cost are as of :meth:`find`, with SearchEnded if the item moves too fast to be seen
        twice.
        """
        text("id", id)
        of_type("everywhere", everywhere, bool, "True or False")
        at = "" if enqueued_at is None else round(instant("enqueued_at", enqueued_at) * 1000)
        by_instant: list[Arg] = [id, "main", check_name("client", client) if client else "-", "", at]
        with self._reading("where", keeps=False) as read:
            reply = await read.reply(self._connection.run("where", [self._keys.main], by_instant))
            if reply[0] == b"OK":
                return where(_facts(State.MAIN, reply[1:]))
            for _ in range(5):
                located, place = await self._find(id, everywhere)
                if located is None or place is None or located.state is State.BUSY:
                    return None if located is None else Where(located)
                words: list[Arg] = [id, located.state.value, place.client, place.position]
                reply = await read.reply(self._connection.run("where", [self._keys.main], words))
                if reply[0] == b"OK":
                    return where(_facts(located.state, reply[1:]))
        raise SearchEnded(f"{id} moved while {self.name} was read; try again")

    async def _at(self, state: State, place: Place) -> Located:
        claimed = await self._claim_times([place.name]) if state is State.BUSY else {}
        return read_row(
            state, place.raw, place.name, place.score, claimed.get(place.name.decode("utf-8", "replace"))
        )

    async def _place_in(self, state: State, item_id: str, everywhere: bool = True) -> Place | None:
        """Where the item is in main, busy or delayed. It may move at any time. SearchEnded if it is not among the first
        items, and only those are searched."""
        count = _STRETCH if everywhere else _FIRST_ITEMS + 1  # one more shows whether there are more
        clients: list[str | bytes] = ["-"]
        if state is State.MAIN:
            clients += await (self._clients() if everywhere else self._next_clients(count))
        is_partial = not everywhere and len(clients) > count
        skip = 0
        with self._reading("find", keeps=False) as read:
            while clients:
                args: list[Arg] = [item_id, state.value, skip, count, *clients[:BATCH]]
                reply = await read.reply(self._connection.run("find", [self._keys.main], args))
                if reply[0] == b"FOUND":
                    return Place(clients[int(reply[1])], *reply[2:6])
                clients, skip = clients[number_of_reply(reply[1]) :], int(reply[2])
                if clients and not everywhere:
                    is_partial = True
                    break
        if is_partial:
            raise SearchEnded(f"{item_id} is not among the first items in {state.value}")
        return None

    async def _next_clients(self, count: int) -> list[bytes]:
        """Up to so many clients that have items in main, the next one first."""
        with self._reading("clients") as read:
            page = await read.reply(self._read("ZRANGE", self._keys["clients"], 0, count - 1))
            return [name for name in page if name != b"-"]


def _facts(state: State, reply: list[Any]) -> Facts:
    now, raw, due, before, length, waiting, busy, hold, *rest = reply
    limit, until, per, workers, is_free, token, item, kept = rest
    return Facts(
        read_row(state, raw, b"", due),
        int(now) / 1000,
        read_hold(hold, int(now)),
        ahead=Between(before, before),
        ahead_of_all=Between(before, before + max(waiting - length, 0)),  # another client may have set it
        busy=busy,
        workers=workers,
        is_worker_free=bool(is_free),
        holder=token.decode("utf-8", "replace"),
        held_item=item.decode("utf-8", "replace"),
        limit=limit.decode("ascii", "replace"),
        limit_until=instant_ms(until) / 1000 if until else None,
        limit_per=per.decode(),
        kept_slots=kept,
    )
