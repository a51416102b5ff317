"""Reading a queue's state: numbers, items, workers. Changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq.arguments import choice, is_page, text
from claimq.codec import check_name, read_envelope
from claimq.errors import StoreMisused
from claimq.model import COUNTERS, ClientInfo, Item, Located, MemoryUsage, Snapshot, State, WorkerInfo
from claimq.queue.failed_items import FailedItems, read_fields
from claimq.queue.queue_part import LAST_MS, instant_ms, seconds_until
from claimq.queue.token_groups import BATCH
from claimq.redis_store.scripts import Arg

_STRETCH = 1000
LOOK_AHEAD = 15.0
"""Seconds within which delayed items count as due soon."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search found an item: the client whose list it is in ("-": none), its position from the oldest item, its
    token and score (busy), its score (delayed), and the stored item."""

    client: str | bytes
    position: int
    name: bytes
    score: bytes
    raw: bytes


class Inspecting(FailedItems):
    """Reads a queue's state. Safe on a busy queue at any time: each script call is short and bounded."""

    async def snapshot(self) -> Snapshot:
        """Lengths, ages and counters at one instant. O(log delayed), one round trip."""
        with self._reading("snapshot") as read:
            words: list[Arg] = [round(LOOK_AHEAD * 1000)]
            return _snapshot(await read.reply(self._connection.run("snapshot", [self._keys.main], words)))

    async def exists(self) -> bool:
        """Whether the queue has ever been used since it was last deleted: enqueued to, claimed from, configured or
        paused. O(1), up to four round trips.
        """
        for command, part in (("HLEN", "stats"), ("HLEN", "config"), ("LLEN", "main"), ("ZCARD", "workers")):
            if await self._read(command, self._keys[part]):
                return True
        return False

    async def length(self, state: State | str = State.MAIN) -> int:
        """Number of items in a state. O(1)."""
        return (await self.snapshot()).lengths[_state(state)]

    async def client_length(self, client: str) -> int:
        """Number of items of a client that wait in main. Raises InvalidName. O(1)."""
        args: list[Arg] = [0, 1, check_name("client", client)]
        with self._reading("clients") as read:
            _, _, length = await read.reply(self._connection.run("clients", [self._keys.main], args))
            return _number(length)

    async def has_client(self, client: str) -> bool:
        """Whether an item of the client waits in main. Raises InvalidName. O(1)."""
        return await self.client_length(client) > 0

    async def clients(self) -> list[ClientInfo]:
        """The clients that have items in main, most items first; items without a client count as the client None.

        A client whose turn comes while more than 1,000 clients are read may be missing. O(clients), in calls of bounded
        size.
        """
        lengths: dict[str | None, int] = {}
        with self._reading("clients") as read:
            for skip in itertools.count(0, BATCH):
                words: list[Arg] = [skip, BATCH]
                reply = await read.reply(self._connection.run("clients", [self._keys.main], words))
                without, *rows = reply
                lengths[None] = _number(without)
                for raw, length in zip(rows[::2], rows[1::2], strict=True):
                    if raw != b"-":
                        lengths[raw.decode("utf-8", "replace")] = _number(length)
                if len(rows) < 2 * BATCH:
                    break
        clients = [ClientInfo(client, length) for client, length in lengths.items() if length]
        return sorted(clients, key=lambda info: (-info.length, info.client or ""))

    async def lengths(self) -> dict[State, int]:
        """Number of items in each state, at one instant. O(1)."""
        return (await self.snapshot()).lengths

    async def age(self, state: State | str = State.MAIN) -> float | None:
        """Seconds since the oldest item of the state entered it; None if there is none. See :class:`Snapshot`. O(1)."""
        return (await self.snapshot()).ages[_state(state)]

    async def stats(self) -> dict[str, int]:
        """Totals since the queue was created, one for each name in ``COUNTERS``; docs/operations.md says what they
        count. O(1)."""
        return (await self.snapshot()).counters

    async def peek(self, count: int = 1, *, offset: int = 0, client: str | None = None) -> list[Item]:
        """The next items in the order in which they would be claimed now, but for the turns of lower priorities; with
        ``client`` only that client's.

        Raises InvalidName. O(offset + count).
        """
        if not is_page(count, offset):
            return []
        only: list[Arg] = [] if client is None else [check_name("client", client)]
        items: list[Item] = []
        more, place = 1, str(offset).encode()
        with self._reading("peek") as read:
            while more and len(items) < count:
                args: list[Arg] = [place, min(count - len(items), BATCH), *only]
                reply = await read.reply(self._connection.run("peek", [self._keys.main], args))
                more, place, *page = reply
                items += map(read_envelope, page)
        return items

    async def items(self, state: State | str, count: int = 100, *, offset: int = 0) -> list[Located]:
        """A page of a state's items: main in claim order, busy by lease end, delayed by due time, failed by
        when they failed.

        O(log n + count); for main O(offset + count); for busy also O(claim calls that are live).
        """
        state = _state(state)
        if state is State.MAIN:
            return [Located(item, State.MAIN) for item in await self.peek(count, offset=offset)]
        if state is State.FAILED:
            return await self.failed_items(count, offset=offset)
        if not is_page(count, offset):
            return []
        with self._reading("items"):
            rows = await self._page(state.value, offset, count)
            claimed = await self._claim_times(name for name, _, _ in rows) if state is State.BUSY else {}
            return [
                self._located(state, name, score, raw, claimed)
                for name, score, raw in rows
                if raw is not None
            ]

    @staticmethod
    def _located(
        state: State, name: bytes, score: bytes, raw: bytes, claimed: Mapping[str, float]
    ) -> Located:
        at = instant_ms(score) / 1000
        token = name.decode("utf-8", "replace")
        if state is State.DELAYED:
            return Located(read_envelope(raw), state, due_at=at)
        worker = token.rpartition("/")[0]
        return Located(
            read_envelope(raw, token),
            state,
            token,
            worker,
            claimed_at=claimed.get(token),
            lease_until=at,
        )

    async def find(self, id: str) -> Located | None:  # noqa: A002 - the glossary's word; shadowing is confined to this method
        """The item with its state, its holder and its history; None if it is not in the queue.

        O(1) in failed, otherwise O(n) in calls that read 1,000 items or 2 MiB each, so that none blocks the server for
        long. If items move during the search, it is repeated up to three times.
        """
        text("id", id)
        with self._reading("find", keeps=False):
            return await self._find(id)

    async def _find(self, id: str) -> Located | None:  # noqa: A002 - likewise
        for _ in range(3):
            before = (await self.snapshot()).seq
            if located := await self.failed_item(id):
                return located
            for state in (State.BUSY, State.DELAYED, State.MAIN):
                if located := await self._find_in(state, id):
                    return located
            if (await self.snapshot()).seq == before:
                return None
        return await self.failed_item(id)

    async def _find_in(self, state: State, item_id: str) -> Located | None:
        place = await self._place_in(state, item_id)
        if place is None:
            return None
        if state is State.MAIN:
            return Located(read_envelope(place.raw), state)
        claimed = await self._claim_times([place.name]) if state is State.BUSY else {}
        return self._located(state, place.name, place.score, place.raw, claimed)

    async def _place_in(self, state: State, item_id: str) -> Place | None:
        """Where the item is in main, busy or delayed. It may move at any time."""
        clients: list[str | bytes] = ["-"]
        if state is State.MAIN:
            clients += await self._clients()
        with self._reading("find", keeps=False) as read:
            for client in clients:
                skip = 0
                while True:
                    args: list[Arg] = [item_id, state.value, client, skip, _STRETCH]
                    reply = await read.reply(self._connection.run("find", [self._keys.main], args))
                    if reply[0] == b"FOUND":
                        return Place(client, *reply[1:5])
                    if not reply[2]:
                        break
                    skip += int(reply[1])
        return None

    async def _clients(self) -> list[bytes]:
        """The clients that have items in main; one whose turn came between two pages may be missing."""
        return [name for name in await self._in_pages("LRANGE", "clients") if name != b"-"]

    async def _in_pages(self, command: str, part: str) -> list[bytes]:
        """All members of a list or sorted set, each once, read in calls that block the server for a short time."""
        members: dict[bytes, None] = {}
        with self._reading(part) as read:
            for start in itertools.count(0, BATCH):
                page = await read.reply(self._read(command, self._keys[part], start, start + BATCH - 1))
                members |= dict.fromkeys(page)
                if len(page) < BATCH:
                    break
        return list(members)

    async def workers(self) -> list[WorkerInfo]:
        """Workers that have claimed or renewed within the last hour or hold claims, most claims first. O(workers)."""
        infos: dict[str, WorkerInfo] = {}
        rows: list[Any] = []
        with self._reading("workers") as read:
            for skip in itertools.count(0, BATCH):
                words: list[Arg] = [skip, BATCH]
                rows = await read.reply(self._connection.run("workers", [self._keys.main], words))
                for raw, seen_at, busy in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
                    name = raw.decode("utf-8", "replace")
                    infos[name] = WorkerInfo(name, _number(busy), instant_ms(seen_at) / 1000)
                if len(rows) < 3 * BATCH:
                    break
        return sorted(infos.values(), key=lambda info: (-info.busy, info.worker))

    async def memory_usage(self) -> MemoryUsage:
        """Memory of the queue's keys (sampled by the server), of the server, and its limit, in bytes. O(clients +
        workers)."""
        with self._reading("memory usage") as read:
            sizes = [
                _number(await read.reply(self._read("MEMORY", "USAGE", key, "SAMPLES", 20)) or 0)
                for key in await self._all_keys()
            ]
        return MemoryUsage(sum(sizes), *await self._server_memory())

    async def _all_keys(self) -> list[Arg]:
        """The queue's keys that hold much, also those of each client and worker."""
        ring, names = await self._clients(), await self._in_pages("ZRANGE", "workers")
        parts = [
            "main",
            "high",
            "low",
            "levels",
            "exclusive",
            "clients",
            "heads",
            "delayed",
            "leases",
            "claims",
            "workers",
            "failed",
            "failed:items",
            "removed",
            "audit",
            "ids",
            "stats",
        ]
        keys: list[Arg] = [self._keys[part] for part in parts]
        lists = ("main:", "high:", "low:") if await self._read("HLEN", self._keys["levels"]) else ("main:",)
        keys += [self._keys[part].encode() + name for name in ring for part in lists]
        return keys + [self._keys["busy:"].encode() + name for name in names]

    async def memory_share(self) -> float | None:
        """The used part of the server's ``maxmemory``; None without a limit. O(1)."""
        return MemoryUsage(0, *await self._server_memory()).share

    async def _server_memory(self) -> tuple[int, int]:
        """The used bytes of the queue's server and its limit (0: none)."""
        with self._reading("INFO"):
            info = await self._connection.info("memory", self._keys.main)
            used, limit = (str(info.get(field, "")) for field in ("used_memory", "maxmemory"))
            if not used.isdecimal():
                raise StoreMisused(
                    "INFO memory: the server does not report used_memory, as Redis and Valkey do"
                )
            return _number(used), _number(limit) if limit.isdecimal() else 0


def _snapshot(reply: Any) -> Snapshot:
    now = _number(reply[0], LAST_MS)
    lengths = dict(
        zip((State.MAIN, State.BUSY, State.DELAYED, State.FAILED), map(_number, reply[1:5]), strict=True)
    )
    due = _ms(reply[8])
    ages: dict[State, float | None] = {
        State.MAIN: _age(now, reply[5]),
        State.BUSY: _age(now, reply[6]),
        State.DELAYED: None if due is None else max(now - due, 0) / 1000,
        State.FAILED: _age(now, reply[7]),
    }
    stats = read_fields(reply[11:])
    return Snapshot(
        now=now / 1000,
        seq=_counter(stats.get("seq")),
        lengths=lengths,
        ages=ages,
        counters={name: _counter(stats.get(name)) for name in COUNTERS},
        next_due_in=seconds_until(reply[8], now),
        paused=bool(reply[9]),
        due_soon=_number(reply[10]),
    )


def _number(value: object, most: int = 2**63 - 1) -> int:
    """A number of a reply. Raises ValueError for one that no queue has."""
    number = int(value) if isinstance(value, int | bytes | str) else -1
    if not 0 <= number <= most:
        raise ValueError("a number out of bounds")
    return number


def _state(state: State | str) -> State:
    return choice("state", state, State)


def _ms(raw: bytes | str) -> int | None:
    return int(instant_ms(raw)) if raw else None


def _counter(text: str | None) -> int:
    """A field of stats; 0 if it is missing, or no whole number: another Redis client may have set it."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _age(now: int, since: bytes | str) -> float | None:
    entered = _ms(since)
    return None if entered is None else max(now - entered, 0) / 1000
