"""Reads that several commands and the web page share."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import claimq
from claimq.address import local_mode
from claimq.internals.operations import internals
from claimq.model import Item, Located, Snapshot, State, WorkerInfo
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq.tokens import number_of
from claimq_admin.changes.by_hand import is_by_hand
from claimq_admin.remote.remote_queue import RemoteQueue

LIVE_SECONDS = 15.0
"""An idle worker that was last seen longer ago does not count as live: a waiting worker asks every second."""
_PAGE = 500
"""How many items are read at once, if they are small."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes of items after which a list ends early. The last call may exceed it by one item of the largest size."""
_FIRST, _LARGEST = 1, 250
ReadableQueue = claimq.ReliableQueue | RemoteQueue
"""A queue whose state can be read: of the library, or through the API of a web page."""


def reading(queue: ReadableQueue, doing: str) -> BoundedRead:
    """For a ``with`` block around a loop of reads that keeps no more than it has been asked for: it ends by the time
    that the server takes. Raises ReadTooLarge."""
    if isinstance(queue, claimq.ReliableQueue):
        return internals(queue).reading(doing, keeps=False)
    return walking(doing)


def walking(doing: str) -> BoundedRead:
    """For a walk through all items of a queue, whatever bounds the connection has for what is shown: an hour of the
    server's time. The block is entered for each call, so that the work on the items does not count."""
    return BoundedRead(doing, DEFAULT_BOUNDS, keeps=False, parses=False)


async def workers_of(queue: ReadableQueue) -> list[WorkerInfo]:
    """The workers that hold claims or were seen within the last hour. A command or a web page that acts on an item is
    among them only while it holds it."""
    return [worker for worker in await queue.workers() if worker.busy or not is_by_hand(worker.worker)]


def live_workers(workers: list[WorkerInfo], now: float) -> list[WorkerInfo]:
    """Those that hold claims or have asked for some within LIVE_SECONDS."""
    return [worker for worker in workers if worker.busy or worker.last_seen_at > now - LIVE_SECONDS]


async def status_of(queue: ReadableQueue) -> tuple[Snapshot, list[WorkerInfo]]:
    """The snapshot of a queue, and its live workers."""
    if isinstance(queue, RemoteQueue):
        return await queue.status()
    snapshot = await queue.snapshot()
    return snapshot, live_workers(await workers_of(queue), snapshot.now)


async def items_within_bytes(
    queue: ReadableQueue,
    state: State,
    begin: int,
    end: int,
    *,
    client: str | None = None,
    backward: bool = False,
) -> tuple[list[Located], bool]:
    """The items of a state from ``begin`` to before ``end``, or from the end to the beginning, and whether the bytes
    cut them off. Positions are those of :meth:`claimq.ReliableQueue.items`; with ``client``, those among this client's
    items in main.

    Reads one item first, and more at a time if it is small.
    """
    items: list[Located] = []
    used, size = 0, _FIRST
    with reading(queue, "items"):
        while begin < end:
            size = min(size, end - begin)
            page = await _read(queue, state, size, end - size if backward else begin, client)
            items += reversed(page) if backward else page
            used += sum(bytes_of(located.item) for located in page)
            begin, end = (begin, end - size) if backward else (begin + size, end)
            if len(page) < size and not backward:
                break
            if used >= MOST_BYTES:
                return items, begin < end
            size = max(1, min(_LARGEST, (MOST_BYTES - used) * len(items) // max(1, used)))
    return items, False


async def _read(
    queue: ReadableQueue, state: State, count: int, offset: int, client: str | None
) -> Sequence[Located]:
    if client is None:
        return await queue.items(state, count, offset=offset)
    return [Located(item, State.MAIN) for item in await queue.peek(count, offset=offset, client=client)]


async def newest_failed(
    queue: ReadableQueue, total: int, skip: int, count: int
) -> tuple[list[Located], bool]:
    """Failed items, latest failure first, after ``skip`` of ``total``, and whether the bytes cut them off.
    O(log failed + count)."""
    end = max(0, total - skip)
    return await items_within_bytes(queue, State.FAILED, max(0, end - count), end, backward=True)


async def longest_claims(queue: ReadableQueue, number: int, length: int) -> list[Located]:
    """The oldest claims of a queue with ``length`` busy items; those whose instant is unknown come last."""
    oldest: dict[str, Located] = {}
    offset = 0
    with reading(queue, "longest claims"):
        while page := (await items_within_bytes(queue, State.BUSY, offset, min(offset + _PAGE, length)))[0]:
            by_token = oldest | {claim.name: claim for claim in page}
            oldest = {
                claim.name: claim for claim in heapq.nsmallest(number, by_token.values(), key=_claim_order)
            }
            offset += len(page)
    return list(oldest.values())


async def page_of(queue: ReadableQueue, state: State, begin: int, client: str | None = None) -> list[Located]:
    """Some items of a state in the order of :meth:`claimq.ReliableQueue.items`, after the first ``begin``; none at the
    end. With ``client`` only those of this client in main.
    """
    return (await items_within_bytes(queue, state, begin, begin + _PAGE, client=client))[0]


async def first_matching(
    queue: ReadableQueue, matches: Callable[[Located], bool], number: int, offset: int
) -> list[Located]:
    """The failed items that match, oldest failure first, after the first ``offset`` of these. Items that leave failed
    during the search can hide others."""
    matching: list[Located] = []
    start = 0
    with reading(queue, "failed items that match"):
        while len(matching) < offset + number and (page := await page_of(queue, State.FAILED, start)):
            matching += filter(matches, page)
            start += len(page)
    return matching[offset : offset + number]


def _claim_order(claim: Located) -> tuple[float, int]:
    return (float("inf") if claim.claimed_at is None else claim.claimed_at, number_of(claim.name))


def local_decisions(directory: Path | None) -> dict[str, dict[str, Any]]:
    """The last scaling decisions of the running local modes by queue, each with the ``source`` that it was read from.

    With ``directory`` only of the one with this state directory. If several run a queue, the nearest one counts.
    """
    places = [directory] if directory else [*local_mode.running_near(), *local_mode.running_anywhere()]
    decisions_by_queue: dict[str, dict[str, Any]] = {}
    for place in places:
        state = local_mode.read_state(place) if local_mode.is_running(place) else None
        decisions: Mapping[str, dict[str, Any]] = (state or {}).get("decisions") or {}
        decisions_by_queue = {
            name: {"source": str(place), **decision} for name, decision in decisions.items()
        } | decisions_by_queue
    return decisions_by_queue


def bytes_of(item: Item) -> int:
    """About how many bytes an item has in a list."""
    texts = [item.last_error, item.error_detail, *(entry.error for entry in item.history)]
    return len(item.payload) + sum(len(text) for text in texts if text) + 200
