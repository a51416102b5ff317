"""Reading a queue's state: numbers, items, workers. Changes nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from claimq.arguments import choice, of_type
from claimq.codec import check_name
from claimq.errors import StoreMisused
from claimq.model import COUNTERS, ClientInfo, Snapshot, State, WorkerInfo
from claimq.queue.queue_part import (
    LAST_MS,
    counter,
    instant_ms,
    read_hold,
    read_neighbours,
    seconds_until,
    waiting_bytes,
)
from claimq.queue.reading.listing import Listing, number_of_reply, read_workers
from claimq.queue.token_groups import BATCH
from claimq.redis_store.keys import TYPES
from claimq.redis_store.scripts import Arg

LOOK_AHEAD = 15.0
"""Seconds within which delayed items count as due soon."""
SNAPSHOT_WORDS: list[Arg] = [round(LOOK_AHEAD * 1000)]
NEIGHBOURS_WORDS: list[Arg] = [*SNAPSHOT_WORDS, "neighbours"]
NEIGHBOURS_ALONE_WORDS: list[Arg] = [0, "alone"]
WORKERS_WORDS: list[Arg] = [*SNAPSHOT_WORDS, "workers"]
PARTS_OF_USE = (("HLEN", "stats"), ("HLEN", "config"), ("LLEN", "main"), ("ZCARD", "workers"))
"""A queue has been used if one of these is not 0."""


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory in bytes: of the queue's keys (sampled), of the server, and the server's limit (0: none)."""

    queue_bytes: int
    used_bytes: int
    limit_bytes: int

    @property
    def share(self) -> float | None:
        """``used_bytes`` over ``limit_bytes``; None without a limit."""
        return self.used_bytes / self.limit_bytes if self.limit_bytes else None


class Inspecting(Listing):
    """Reads a queue's state. Safe on a busy queue at any time: each script call is short and bounded."""

    async def snapshot(self, *, neighbours: bool = False) -> Snapshot:
        """Lengths, ages and counters at one instant; with ``neighbours`` also the clients that take many slots while
        others wait. O(log delayed), one round trip."""
        words = (
            NEIGHBOURS_WORDS if of_type("neighbours", neighbours, bool, "True or False") else SNAPSHOT_WORDS
        )
        with self._reading("snapshot") as read:
            call = self._connection.run("snapshot", [self._keys.main], [1, *words])
            return read_snapshot((await read.reply(call))[0])

    async def exists(self) -> bool:
        """Whether the queue has ever been used since it was last deleted: enqueued to, claimed from, configured or
        paused. O(1), up to four round trips.
        """
        for command, part in PARTS_OF_USE:
            if await self._read(command, self._keys[part]):
                return True
        return False

    async def length(self, state: State | str = State.MAIN) -> int:
        """Number of items in a state. O(1)."""
        return (await self.lengths())[choice("state", state, State)]

    async def client_length(self, client: str) -> int:
        """Number of items of a client that wait in main. Raises InvalidName. O(1)."""
        args: list[Arg] = [0, 1, check_name("client", client)]
        with self._reading("clients") as read:
            _, _, length = await read.reply(self._connection.run("clients", [self._keys.main], args))
            return number_of_reply(length)

    async def has_client(self, client: str) -> bool:
        """Whether an item of the client waits in main. Raises InvalidName. O(1)."""
        return await self.client_length(client) > 0

    async def clients(self) -> list[ClientInfo]:
        """The clients that have items in main, most items first; items without a client count as the client None.

        A client whose turn comes while more than 1,000 clients are read may be missing. O(clients), in calls of bounded
        size.
        """
        with self._reading("clients"):
            without, ring = await self._ring()
            lengths: dict[str | None, int] = {raw.decode("utf-8", "replace"): length for raw, length in ring}
        lengths.pop("-", None)
        clients = [
            ClientInfo(client, length) for client, length in ({None: without} | lengths).items() if length
        ]
        return sorted(clients, key=lambda info: (-info.length, info.client or ""))

    async def lengths(self) -> dict[State, int]:
        """Number of items in each state, at one instant. O(1)."""
        with self._reading("lengths") as read:
            return read_lengths(await read.reply(self._connection.run("lengths", [self._keys.main], [])))

    async def age(self, state: State | str = State.MAIN) -> float | None:
        """Seconds since the oldest item of the state entered it; None if there is none. See :class:`Snapshot`. O(1)."""
        return (await self.snapshot()).ages[choice("state", state, State)]

    async def stats(self) -> dict[str, int]:
        """Totals since the queue was created, one for each name in ``COUNTERS``. O(1).

        ``enqueued``, ``adopted`` (bare payloads), ``claimed``, ``done``, ``fails``, ``crashes``, ``expired`` (of these,
        leases that ran out), ``requeued``, ``delayed``, ``due``, ``unclaimed``, ``postponed`` (of those requeued and
        delayed), ``failed`` (given up), ``past_deadline`` (of these, late), ``dropped``, ``failed_requeued``,
        ``failed_removed``, ``flushed``, ``lost`` (verdicts on claims that were not held, in calls in which others
        were), ``repaired``.
        """
        return (await self.snapshot()).counters

    async def _clients(self) -> list[bytes]:
        """The clients that have items in main; one whose turn came between two pages may be missing."""
        return [name for name in await self._in_pages("clients") if name != b"-"]

    async def _in_pages(self, part: str) -> list[bytes]:
        """All members of a sorted set, each once, the highest score first: one whose score rises while they are read in
        calls that block the server for a short time was read before, or is missing."""
        members: dict[bytes, None] = {}
        with self._reading(part) as read:
            for start in itertools.count(0, BATCH):
                page = await read.reply(
                    self._read("ZRANGE", self._keys[part], start, start + BATCH - 1, "REV")
                )
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
                infos |= {info.worker: info for info in read_workers(rows)}
                if len(rows) < 3 * BATCH:
                    break
        return sorted(infos.values(), key=lambda info: (-info.busy, info.worker))

    async def memory_usage(self) -> MemoryUsage:
        """Memory of the queue's keys (sampled by the server), of the server, and its limit, in bytes. O(clients +
        workers)."""
        with self._reading("memory usage") as read:
            sizes = [
                number_of_reply(await read.reply(self._read("MEMORY", "USAGE", key, "SAMPLES", 20)) or 0)
                for key in await self._all_keys()
            ]
        return MemoryUsage(sum(sizes), *await self.server_memory())

    async def _all_keys(self) -> list[Arg]:
        """The queue's keys, also those of each client and worker."""
        ring, names = await self._clients(), await self._in_pages("workers")
        keys: list[Arg] = [self._keys[part] for part in TYPES]
        lists = ("main:", "high:", "low:") if await self._read("HLEN", self._keys["levels"]) else ("main:",)
        keys += [self._keys[part].encode() + name for name in ring for part in lists]
        return keys + [self._keys["busy:"].encode() + name for name in names]

    async def memory_share(self) -> float | None:
        """The used part of the server's ``maxmemory``; None without a limit. O(1)."""
        return MemoryUsage(0, *await self.server_memory()).share

    async def server_memory(self) -> tuple[int, int]:
        """The used bytes of the queue's server and its ``maxmemory`` (0: none). O(1)."""
        with self._reading("INFO"):
            info = await self._connection.ask(self._keys.main, "INFO", "memory")
            used, limit = (str(info.get(field, "")) for field in ("used_memory", "maxmemory"))
            if not used.isdecimal():
                raise StoreMisused(
                    "INFO memory: the server does not report used_memory, as Redis and Valkey do"
                )
            return number_of_reply(used), number_of_reply(limit) if limit.isdecimal() else 0


def read_lengths(reply: Any) -> dict[State, int]:
    """The lengths in a reply."""
    states = (State.MAIN, State.BUSY, State.DELAYED, State.FAILED)
    return dict(zip(states, map(number_of_reply, reply), strict=True))


def read_snapshot(reply: Any) -> Snapshot:
    """The snapshot in a reply."""
    now = number_of_reply(reply[0], LAST_MS)
    lengths = read_lengths(reply[1:5])
    due = _ms(reply[8])
    ages: dict[State, float | None] = {
        State.MAIN: _age(now, reply[5]),
        State.BUSY: _age(now, reply[6]),
        State.DELAYED: None if due is None else max(now - due, 0) / 1000,
        State.FAILED: _age(now, reply[7]),
    }
    oldest_claim, oldest_item = (raw.decode("utf-8", "replace") for raw in reply[11:13])
    hold, words = read_hold(reply[9], now), reply[17].decode("utf-8", "replace").split("\0")
    stats = dict(zip(words[::2], words[1::2], strict=False))
    longest, _, ended_at = (stats.get("longest") or "").partition(" ")  # lua/lib/longest.lua
    moved = max(counter(stats.get("number")) // 1000, counter(ended_at))
    return Snapshot(
        now=now / 1000,
        seq=counter(stats.get("seq")),
        lengths=lengths,
        ages=ages,
        counters={name: counter(stats.get(name)) for name in COUNTERS},
        next_due_in=seconds_until(reply[8], now),
        paused=hold.paused,
        pauses=hold.pauses,
        due_soon=number_of_reply(reply[10]),
        moved_at=min(moved, now) / 1000 if moved else None,
        longest=counter(longest) / 1000,
        oldest_claim=oldest_claim,
        oldest_item=oldest_item,
        key_busy=number_of_reply(reply[13]),
        limits=hold.limits,
        temporary_limits=hold.temporary,
        waiting_bytes=waiting_bytes(stats.get("bound"), lengths[State.MAIN] + lengths[State.DELAYED]),
        neighbours=read_neighbours(reply[14], now, lengths[State.BUSY]),
        holders=tuple(name.decode("utf-8", "replace") for name in reply[15]),
    )


def _ms(raw: bytes | str) -> int | None:
    return int(instant_ms(raw)) if raw else None


def _age(now: int, since: bytes | str) -> float | None:
    entered = _ms(since)
    return None if entered is None else max(now - entered, 0) / 1000
