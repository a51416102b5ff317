"""Reads that several commands and the web page share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from pathlib import Path
from typing import Any

import claimq
from claimq.address import local_mode
from claimq.internals.operations import internals
from claimq.internals.several_queues import neighbours_of, snapshots_of, snapshots_with_workers, used_names
from claimq.model import Item, Located, Snapshot, State, WorkerInfo
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq_admin.by_hand import is_by_hand
from claimq_admin.reads.decisions import with_conditions
from claimq_control.decide.neighbours_note import neighbours_note
from claimq_control.decide.pauses import pause_note
from claimq_control.decide.standstill import held_back_note, standstill, still_since

LIVE_SECONDS = 20.0
"""An idle worker that was last seen longer ago does not count as live: a waiting worker asks every 15 s or more
often."""
_PAGE = 500
"""How many items are read at once, if they are small."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes of items after which a list ends early. The last call may exceed it by one item of the largest size."""
SHOWN_PAYLOAD = 64 * 1024
"""Lists for people show the size of a payload that has more bytes."""
_FIRST, _LARGEST = 1, 250
_MOST_WITH_NEIGHBOURS = 20


def reading(queue: claimq.ReliableQueue, doing: str) -> BoundedRead:
    """For a ``with`` block around a loop of reads that keeps no more than it has been asked for: it ends by the time
    that the server takes. Raises ReadTooLarge."""
    return internals(queue).reading(doing, keeps=False)


def walking(doing: str) -> BoundedRead:
    """For a walk through all items of a queue, whatever bounds the connection has for what is shown: an hour of the
    server's time. The block is entered for each call, so that the work on the items does not count."""
    return BoundedRead(doing, DEFAULT_BOUNDS, keeps=False, parses=False)


async def workers_of(queue: claimq.ReliableQueue) -> list[WorkerInfo]:
    """The workers that hold claims or were seen within the last hour. A command or a web page that acts on an item is
    among them only while it holds it."""
    return _but_by_hand(await queue.workers())


def _but_by_hand(workers: list[WorkerInfo]) -> list[WorkerInfo]:
    return [worker for worker in workers if worker.busy or not is_by_hand(worker.worker)]


def live_workers(workers: list[WorkerInfo], now: float) -> list[WorkerInfo]:
    """Those that hold claims or have asked for some within LIVE_SECONDS."""
    return [worker for worker in workers if worker.busy or worker.last_seen_at > now - LIVE_SECONDS]


async def workers_and_live(queue: claimq.ReliableQueue) -> tuple[list[WorkerInfo], list[WorkerInfo]]:
    """The workers of :func:`workers_of`, and those of them that have not ended."""
    workers = await workers_of(queue)
    return workers, live_workers(workers, (await queue.snapshot()).now)


def attention(snapshot: Snapshot, command: Callable[[str], str]) -> str:
    """What a user should know about a queue beside its numbers, as a sentence; empty if there is nothing.
    ``command``: makes the user's command of a verb, such as ``resume``."""
    return (
        standstill(snapshot, command("drain"))
        or pause_note(snapshot, command("resume"))
        or held_back_note(snapshot)
        or neighbours_note(snapshot, command("limits"))
    )


def note_of(snapshot: Snapshot) -> str:
    """The same in a word or two, for a list of queues."""
    if snapshot.paused:
        return "paused"
    if held_back_note(snapshot) and not standstill(snapshot, ""):
        return "held back"
    if still_since(snapshot) is not None:
        return "no progress"
    return "noisy neighbour" if snapshot.neighbours else ""


def has_problem(snapshot: Snapshot) -> bool:
    """Whether a list of queues begins with this one and its like."""
    return bool(note_of(snapshot) or snapshot.lengths[State.FAILED])


async def status_of(queue: claimq.ReliableQueue) -> tuple[Snapshot, list[WorkerInfo]]:
    """The snapshot of a queue, and its live workers."""
    snapshot = await queue.snapshot(neighbours=True)
    return snapshot, live_workers(await workers_of(queue), snapshot.now)


async def statuses_of(server: claimq.Server, names: Sequence[str]) -> list[tuple[Snapshot, list[WorkerInfo]]]:
    """As :func:`status_of`, of several queues with few round trips. Neighbours are read, with one round trip more, of
    the queues whose items wait longest for those in progress."""
    statuses = dict(zip(names, await snapshots_with_workers(server.connection, names), strict=True))
    waits = {
        name: snapshot.ages[State.MAIN] or 0.0
        for name, (snapshot, _) in statuses.items()
        if snapshot.claimable and snapshot.lengths[State.BUSY]
    }
    delayed = nlargest(_MOST_WITH_NEIGHBOURS, waits, waits.__getitem__)
    for name, neighbours in zip(delayed, await neighbours_of(server.connection, delayed), strict=True):
        snapshot, workers = statuses[name]
        statuses[name] = replace(snapshot, neighbours=neighbours), workers
    return [
        (snapshot, live_workers(_but_by_hand(workers), snapshot.now))
        for snapshot, workers in map(statuses.__getitem__, names)
    ]


async def snapshots_together(server: claimq.Server, names: Sequence[str]) -> dict[str, Snapshot | None]:
    """The snapshots of queues with few round trips, None for one that does not exist."""
    snapshots = dict(zip(names, await snapshots_of(server.connection, names), strict=True))
    unchanged = [
        name for name, snapshot in snapshots.items() if not (snapshot.seq or any(snapshot.lengths.values()))
    ]
    gone = {*unchanged} - {*await used_names(server.connection, unchanged)}
    return {name: None if name in gone else snapshot for name, snapshot in snapshots.items()}


async def items_within_bytes(
    queue: claimq.ReliableQueue, state: State, begin: int, end: int, client: str | None = None
) -> list[Located]:
    """The items of a state from ``begin`` to before ``end``, fewer if they are large. Positions are those of
    :meth:`claimq.ReliableQueue.items`; with ``client``, those among this client's items in main.

    Reads one item first, and more at a time if it is small.
    """
    items: list[Located] = []
    used, size = 0, _FIRST
    with reading(queue, "items"):
        while begin < end and used < MOST_BYTES:
            size = min(size, end - begin)
            page = await queue.items(state, size, offset=begin, client=client)
            items += page
            used += sum(bytes_of(located.item) for located in page)
            begin += size
            if len(page) < size:
                break
            size = max(1, min(_LARGEST, (MOST_BYTES - used) * len(items) // max(1, used)))
    return items


async def page_of(
    queue: claimq.ReliableQueue, state: State, begin: int, client: str | None = None
) -> list[Located]:
    """Some items of a state in the order of :meth:`claimq.ReliableQueue.items`, after the first ``begin``; none at the
    end. With ``client`` only those of this client in main.
    """
    return await items_within_bytes(queue, state, begin, begin + _PAGE, client)


async def first_matching(
    queue: claimq.ReliableQueue, state: State, matches: Callable[[Located], bool], number: int, offset: int
) -> list[Located]:
    """The items of a state that match, in the order of :meth:`claimq.ReliableQueue.items`, after the first ``offset``
    of these. Items that leave the state during the search can hide others."""
    matching: list[Located] = []
    start = 0
    with reading(queue, "items that match"):
        while len(matching) < offset + number and (page := await page_of(queue, state, start)):
            matching += filter(matches, page)
            start += len(page)
    return matching[offset : offset + number]


def local_decisions(directory: Path | None, url: str = "") -> dict[str, dict[str, Any]]:
    """The last scaling decisions of the running local modes, by queue. Each has its ``source`` and its conditions
    (:func:`with_conditions`).

    With ``directory`` only of the one with this state directory, with ``url`` only of queues on this server. If several
    run a queue, the nearest one counts.
    """
    decisions: dict[str, dict[str, Any]] = {}
    for place, state in _states(directory):
        conditions_of, urls = _by_queue(state, "conditions"), _by_queue(state, "queues")
        for name, decision in _by_queue(state, "decisions").items():
            if not url or urls.get(name) == url:
                conditions = conditions_of.get(name, ())
                decisions[name] = with_conditions({"source": str(place), **decision}, conditions)
    return decisions


def local_conditions(directory: Path | None) -> dict[str, list[dict[str, Any]]]:
    """The conditions of the queues of the running local modes; the others as for :func:`local_decisions`."""
    return {
        name: conditions
        for _, state in _states(directory)
        for name, conditions in _by_queue(state, "conditions").items()
    }


def _by_queue(state: Mapping[str, Any], field: str) -> dict[str, Any]:
    return state.get(field) or {}


def _states(directory: Path | None) -> list[tuple[Path, Mapping[str, Any]]]:
    """The state files of the running local modes, the nearest one last."""
    return [(place, local_mode.read_state(place) or {}) for place in reversed(local_mode.running(directory))]


def bytes_of(item: Item) -> int:
    """About how many bytes an item has in a list."""
    texts = [item.last_error, item.error_detail, *(entry.error for entry in item.history)]
    return len(item.payload) + sum(len(text) for text in texts if text) + 200
