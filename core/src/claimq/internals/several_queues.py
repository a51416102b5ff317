"""Reads of several queues of a server, with few round trips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from claimq.errors import CrossSlot
from claimq.internals.owner import Owner, owner_on_record
from claimq.limits import Neighbour
from claimq.model import Snapshot, State, WorkerInfo
from claimq.queue.queue_part import LAST_MS, read_neighbours
from claimq.queue.reading.inspecting import (
    NEIGHBOURS_ALONE_WORDS,
    PARTS_OF_USE,
    SNAPSHOT_WORDS,
    WORKERS_WORDS,
    read_lengths,
    read_snapshot,
)
from claimq.queue.reading.listing import number_of_reply, read_workers
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.clients import opening
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys, absent_key
from claimq.redis_store.scripts import Arg, Script, script

Read = tuple[Sequence[str], Sequence[Arg]]
"""The main keys of some queues, on a cluster all in one slot, and a command or the arguments of a script."""
_TOGETHER = 1000
_IN_ONE_CALL = 5
"""Queues in one call: few enough that it is short even if each of them has 1,000 workers."""


async def read_each(
    connection: Connection,
    reads: Sequence[Read],
    lua: Script | None = None,
    *,
    note: Callable[[object], None],
) -> list[Any]:
    """Runs commands that only read and returns their replies: 1,000 in a round trip, or in one round trip to each node
    of a Redis Cluster. ``reads`` have commands, or the arguments of ``lua``. ``note`` is called with each reply when it
    arrives. Raises the first error."""
    are_for_cluster = connection.clients.are_for_cluster
    if are_for_cluster and connection.clients.shared is not None:
        if lua is not None:
            return [await connection.run(lua.name, keys, words) for keys, words in reads]
        return [await connection.read(keys[0], *words) for keys, words in reads]
    replies: list[Any] = []
    while page := reads[len(replies) : len(replies) + _TOGETHER]:
        keys, commands_of = [keys[0] for keys, _ in page], partial(_commands, page, lua, are_for_cluster)
        call = partial(
            opening.read_each, absent=absent_key(keys[0]), keys=keys, commands_of=commands_of, note=note
        )
        replies += await connection.retry(
            call, doing=str(page[0][1][0]) if lua is None else lua.name, use="calls"
        )
    return replies


def _commands(
    reads: Sequence[Read],
    lua: Script | None,
    names_absent: bool,
    places: Sequence[int],
) -> list[Sequence[Arg]]:
    """The commands for a server, at these places of ``reads``. The first one has the text of the script, so that the
    server knows it for the others, also after a failover."""
    if lua is None:
        return [reads[place][1] for place in places]
    commands: list[Sequence[Arg]] = []
    for main_keys, words in (reads[place] for place in places):
        keys = (*main_keys, absent_key(main_keys[0])) if names_absent else main_keys
        call = ("EVALSHA", lua.sha) if commands else ("EVAL", lua.text)
        commands.append((*call, len(keys), *keys, *words))
    return commands


async def used_names(connection: Connection, names: Sequence[str]) -> list[str]:
    """The names of the queues that exist (:meth:`claimq.ReliableQueue.exists`), in their order. It calls
    :func:`read_each` once for queues that have been used, and up to four times for others."""
    unused = list(names)
    with BoundedRead("queues", connection.settings.read_bounds) as read:
        for command, part in PARTS_OF_USE:
            reads = [((Keys(name).main,), (command, Keys(name)[part])) for name in unused]
            sizes = await read.reply(read_each(connection, reads, note=read.add), is_noted=True)
            unused = [name for name, size in zip(unused, sizes, strict=True) if not size]
    gone = set(unused)
    return [name for name in names if name not in gone]


async def snapshots_of(connection: Connection, names: Sequence[str]) -> list[Snapshot]:
    """The snapshots of queues, in their order, with one call of :func:`read_each`."""
    return [read_snapshot(reply) for reply in await _snapshots(connection, names, SNAPSHOT_WORDS)]


async def snapshots_with_workers(
    connection: Connection, names: Sequence[str]
) -> list[tuple[Snapshot, list[WorkerInfo]]]:
    """As :func:`snapshots_of`, each with the workers of the queue: up to 1,000, otherwise as
    :meth:`claimq.ReliableQueue.workers`."""
    replies = await _snapshots(connection, names, WORKERS_WORDS)
    return [(read_snapshot(reply), read_workers(reply[16])) for reply in replies]


async def neighbours_of(connection: Connection, names: Sequence[str]) -> list[tuple[Neighbour, ...]]:
    """The clients of queues that delay others, in the queues' order, with one call of :func:`read_each`."""
    replies = await _snapshots(connection, names, NEIGHBOURS_ALONE_WORDS, most=1)  # each may read 2 MiB
    return [
        read_neighbours(sample, number_of_reply(now, LAST_MS), number_of_reply(busy))
        for now, busy, sample in replies
    ]


async def _snapshots(
    connection: Connection, names: Sequence[str], words: Sequence[Arg], *, most: int = _IN_ONE_CALL
) -> list[Any]:
    """The replies for queues. Up to ``most`` share a call, which takes a tenth less of the server's time; on a cluster
    each has its own, since the keys of a call must be in one slot."""
    size = 1 if connection.clients.are_for_cluster else most
    keys = [Keys(name).main for name in names]
    groups = [keys[first : first + size] for first in range(0, len(keys), size)]
    reads = [(group, (len(group), *words)) for group in groups]
    try:
        replies = await _bounded(connection, "snapshot", reads, script("snapshot"))
    except CrossSlot:  # a node of a cluster whose address does not say so
        if size == 1:
            raise
        return await _snapshots(connection, names, words, most=1)
    # A wrong number of replies is an odd reply.
    with BoundedRead("snapshot", connection.settings.read_bounds):
        pairs = [
            pair
            for group, of_group in zip(groups, replies, strict=True)
            for pair in zip(group, of_group, strict=True)
        ]
    return [reply for _, reply in pairs]


async def lengths_of(connection: Connection, names: Sequence[str]) -> list[dict[State, int]]:
    """How many items queues have in each state, in their order, with one call of :func:`read_each`. A fifth of the
    server's time of :func:`snapshots_of`."""
    reads: list[Read] = [((Keys(name).main,), ()) for name in names]
    return [read_lengths(reply) for reply in await _bounded(connection, "lengths", reads, script("lengths"))]


async def owners_of_each(connection: Connection, names: Sequence[str]) -> list[Owner | None]:
    """The recorded owners of queues, in their order; None where there is none. Raises StoreMisused for a record that
    cannot be read."""
    reads = [((Keys(name).main,), ("HGET", Keys(name).config, "owner")) for name in names]
    records = await _bounded(connection, "owner", reads)
    return [
        None if record is None else owner_on_record(record, name)
        for name, record in zip(names, records, strict=True)
    ]


async def marks_of_each(connection: Connection, names: Sequence[str]) -> list[object]:
    """The marks of queues, in their order. A queue's marks change with each call that changes its items, each raw push
    to main, each pause, and a new owner. A tenth of the server's time of :func:`snapshots_of`."""
    reads: list[Read] = []
    for keys in map(Keys, names):
        commands = (
            ("HGET", keys.stats, "seq"),
            ("LLEN", keys.main),
            ("HMGET", keys.config, "owner", "pauses", "suspended"),
        )
        reads += (((keys.main,), command) for command in commands)
    replies = await _bounded(connection, "marks", reads)
    return [replies[begin : begin + 3] for begin in range(0, len(replies), 3)]


async def _bounded(
    connection: Connection, kind: str, reads: Sequence[Read], lua: Script | None = None
) -> list[Any]:
    """As :func:`read_each`, within the bounds of a read."""
    with BoundedRead(kind, connection.settings.read_bounds) as read:
        return await read.reply(read_each(connection, reads, lua, note=read.add), is_noted=True)
