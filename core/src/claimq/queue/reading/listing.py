"""Lists of a queue's items: by state, in claim order, by the age of their claims. Changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from claimq.arguments import choice, is_page, optional_count
from claimq.codec import check_name
from claimq.model import Item, Located, State, WorkerInfo
from claimq.queue.failed.failed_items import FailedItems
from claimq.queue.queue_part import Stored, instant_ms, read_row
from claimq.queue.token_groups import BATCH
from claimq.redis_store.scripts import Arg

PlaceInTurn = tuple[bytes, int]
"""A client ("-": none), and how many of its items come before."""
_SHOWN_BYTES, _READ_BYTES, _MOST_CALLS = 768 * 1024, 3 * 1024 * 1024, 8


@dataclass(slots=True)
class _Bounds:
    """What a list may still read. Without a limit of payloads it reads all of them."""

    payload_limit: int | None
    room: int = _SHOWN_BYTES
    unread: int = _READ_BYTES
    calls: int = _MOST_CALLS
    row_bytes: int = 0

    @property
    def words(self) -> list[Arg]:
        """For a script that makes outlines."""
        return ["", ""] if self.payload_limit is None else [self.payload_limit, self.room]

    @property
    def is_over(self) -> bool:
        return self.payload_limit is not None and (self.calls <= 0 or self.unread <= 0)

    def next_size(self, count: int) -> int:
        """How many of so many rows the next call asks for: those that fit if they are as large as in the last call."""
        if self.payload_limit is not None and self.row_bytes:
            count = min(count, max(self.unread // self.row_bytes, 1))
        return min(count, BATCH)

    def note(self, page: Sequence[Stored | None]) -> None:
        """A call has returned these items."""
        shown = sum(len(stored) for stored in page if isinstance(stored, bytes))
        size = shown + sum(int(stored[1]) for stored in page if isinstance(stored, list))
        self.calls -= 1
        self.room = max(self.room - shown, 0)
        self.unread -= size
        self.row_bytes = size // max(len(page), 1)


class Listing(FailedItems):
    """Reads lists of items."""

    async def items(
        self,
        state: State | str,
        count: int = 100,
        *,
        offset: int = 0,
        client: str | None = None,
        newest_first: bool = False,
        payload_limit: int | None = None,
    ) -> list[Located]:
        """A page of a state's items: main in claim order (with ``client`` only that client's), busy by lease end,
        delayed by due time, failed by when they failed (with ``newest_first`` from the latest one on).

        With ``payload_limit``, for people who look, payloads with more bytes are left out (``payload_size`` has their
        size), and so are those beyond 768 KiB in all; the page ends after eight calls, or after 3 MiB of items.
        O(log n + count); for main O(offset + count), or O(clients + count) after the first turn of the clients; for
        busy also O(claim calls that are live). Raises InvalidName.
        """
        state = choice("state", state, State)
        bounds = _Bounds(optional_count("payload_limit", payload_limit))
        only: list[Arg] = [] if client is None else [check_name("client", client)]
        if client is not None and state is not State.MAIN:
            raise ValueError("client: only the items in main are listed by client; leave it out")
        if newest_first and state is not State.FAILED:
            raise ValueError("newest_first: only failed items are listed so; leave it out")
        if not is_page(count, offset):
            return []
        with self._reading("items"):
            if state is State.MAIN:
                stored = await self._next(count, offset, only, bounds)
                return [read_row(state, envelope) for envelope in stored]
            rows = await self._page("newest" if newest_first else state.value, offset, count, bounds)
            tokens = [name for name, _, _ in rows] if state is State.BUSY else []
            claimed = await self._claim_times(tokens)
            return [
                read_row(state, raw, name, score, claimed.get(name.decode("utf-8", "replace")))
                for name, score, raw in rows
                if raw is not None
            ]

    async def peek(self, count: int = 1, *, offset: int = 0, client: str | None = None) -> list[Item]:
        """The next items in the order in which they would be claimed now, but for the turns of lower priorities. With
        ``client`` only that client's.

        Raises InvalidName. Costs as :meth:`items`.
        """
        return [row.item for row in await self.items(State.MAIN, count, offset=offset, client=client)]

    async def failed_items(self, count: int = 100, *, offset: int = 0) -> list[Located]:
        """A page of failed items, oldest failure first. O(log failed + count)."""
        return await self.items(State.FAILED, count, offset=offset)

    async def longest_claims(self, count: int = 100, *, payload_limit: int | None = None) -> list[Located]:
        """The busy items that were claimed first, oldest claim first; those whose instant is unknown come last.

        ``payload_limit``: as in :meth:`items`. O(count log busy), and O(claim calls that have just ended).
        """
        bounds = _Bounds(optional_count("payload_limit", payload_limit))
        if not is_page(count, 0):
            return []
        rows: dict[bytes, Located] = {}
        more: bool = True
        place: list[Arg] = [0, 0]
        with self._reading("longest claims") as read:
            while more and len(rows) < count and bounds.calls > 0 and not bounds.is_over:
                words = [*place, bounds.next_size(count - len(rows)), *bounds.words]
                reply = await read.reply(self._connection.run("longest", [self._keys.main], words))
                more, place, page = bool(reply[0]), reply[1:3], reply[3:]
                bounds.note(page[2::4])
                for token, lease_end, stored, at in zip(*[iter(page)] * 4, strict=True):
                    rows[token] = read_row(State.BUSY, stored, token, lease_end, float(at) / 1000)
        if len(rows) < count and not bounds.is_over:
            for row in await self.items(State.BUSY, count - len(rows), payload_limit=payload_limit):
                rows.setdefault(row.name.encode(), row)
        return list(rows.values())

    async def _next(self, count: int, offset: int, only: Sequence[Arg], bounds: _Bounds) -> list[Stored]:
        """The next items of main: those of the clients' first turn one after another, and the others by their
        places."""
        items: list[Stored] = []
        more = 1
        with self._reading("peek") as read:
            while more == 1 and len(items) < count and not bounds.is_over:
                size = bounds.next_size(count - len(items))
                args: list[Arg] = [offset + len(items), size, *bounds.words, *only]
                more, *page = await read.reply(self._connection.run("peek", [self._keys.main], args))
                bounds.note(page)
                items += page
            if more == 2 and len(items) < count:
                places = places_in_turn(await self._lengths_in_turn(), offset + len(items))
                rest = itertools.islice(places, count - len(items))
                while not bounds.is_over and (chunk := list(itertools.islice(rest, bounds.next_size(BATCH)))):
                    items += await self._at_places(chunk, bounds)
        return items

    async def _lengths_in_turn(self) -> list[tuple[bytes, int]]:
        """The clients in the order of their turns, each once, with the numbers of their items."""
        without, rows = await self._ring()
        lengths = dict(reversed(rows))
        lengths.setdefault(b"-", without)
        return list(lengths.items())

    async def _ring(self) -> tuple[int, list[tuple[bytes, int]]]:
        """How many items in main have no client, and the clients with the numbers of their items. The next one is the
        last. A client whose turn comes while more than 1,000 clients are read may be missing."""
        ring: list[tuple[bytes, int]] = []
        with self._reading("clients") as read:
            while True:
                words: list[Arg] = [len(ring), BATCH]
                without, *page = await read.reply(self._connection.run("clients", [self._keys.main], words))
                ring += zip(page[::2], map(number_of_reply, page[1::2]), strict=True)
                if len(page) < 2 * BATCH:
                    return number_of_reply(without), ring

    async def _at_places(self, places: Sequence[PlaceInTurn], bounds: _Bounds) -> list[Stored]:
        """The items at places of main, without those that are gone."""
        positions: dict[bytes, list[int]] = {}
        for client, position in places:
            positions.setdefault(client, []).append(position)
        pending = [(client, of_client[0], len(of_client)) for client, of_client in positions.items()]
        by_place: dict[PlaceInTurn, Stored] = {}
        with self._reading("peek") as read:
            while pending and not bounds.is_over:
                args: list[Arg] = [*bounds.words]
                for words in pending:
                    args += words
                more, *pages = await read.reply(self._connection.run("places", [self._keys.main], args))
                for (client, first, _), page in zip(pending, pages, strict=False):
                    bounds.note(page)
                    by_place |= {(client, first + at): stored for at, stored in enumerate(page)}
                client, first, size = pending[len(pages) - 1]
                first, size = first + len(pages[-1]), size - len(pages[-1])
                pending = pending[len(pages) :]
                if more and size and pages[-1]:
                    pending.insert(0, (client, first, size))
        return [by_place[place] for place in places if place in by_place]

    async def _page(
        self, state: str, offset: int, count: int, bounds: _Bounds
    ) -> list[tuple[bytes, bytes, Stored | None]]:
        """Name, score and item of rows of a state, or of the newest in failed. The bytes of a call are bounded."""
        rows: list[tuple[bytes, bytes, Stored | None]] = []
        with self._reading("items") as read:
            while len(rows) < count and not bounds.is_over:
                size = bounds.next_size(count - len(rows))
                args: list[Arg] = [state, offset + len(rows), size, *bounds.words]
                reply = await read.reply(self._connection.run("items", [self._keys.main], args))
                more, *words = reply
                bounds.note(words[2::3])
                rows += zip(words[::3], words[1::3], words[2::3], strict=True)
                if not more and len(words) < 3 * size:
                    break
        return rows


def places_in_turn(lengths: Sequence[tuple[bytes, int]], skip: int) -> Iterator[PlaceInTurn]:
    """The places after the first ``skip`` in the order of claims. ``lengths``: how many items each client has, in the
    order of their turns."""
    turn, shortest_first = 0, sorted(length for _, length in lengths)
    for at, length in enumerate(shortest_first):
        having = len(shortest_first) - at  # clients that have items up to the turn of this length
        passed = min(length - turn, skip // having)
        turn, skip = turn + passed, skip - passed * having
        if turn < length:
            break
    while having_more := [(client, length) for client, length in lengths if length > turn]:
        yield from ((client, turn) for client, _ in having_more[skip:])
        lengths, skip, turn = having_more, 0, turn + 1


def number_of_reply(raw: Any, most: int = 2**63 - 1) -> int:
    """A number of a reply. Raises ValueError for one that no queue has."""
    number = int(raw) if isinstance(raw, int | bytes | str) else -1
    if not 0 <= number <= most:
        raise ValueError("a number out of bounds")
    return number


def read_workers(rows: Sequence[Any]) -> list[WorkerInfo]:
    """The workers in a reply, most claims first."""
    infos = [
        WorkerInfo(raw.decode("utf-8", "replace"), number_of_reply(busy), instant_ms(seen_at) / 1000)
        for raw, seen_at, busy in zip(rows[::3], rows[1::3], rows[2::3], strict=True)
    ]
    return sorted(infos, key=lambda info: (-info.busy, info.worker))
