"""Reads that several commands and the web page share."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import claimq
from claimq import local_mode
from claimq.model import Located, State, WorkerInfo
from claimq.tokens import number_of

LIVE_SECONDS = 15.0
"""An idle worker that was last seen longer ago does not count as live: a waiting worker asks every second."""
_PAGE = 500
"""How many busy or failed items are in memory at once, beside those to show."""


def live_workers(workers: list[WorkerInfo], now: float) -> list[WorkerInfo]:
    """The workers that hold claims or have asked for some within LIVE_SECONDS."""
    return [one for one in workers if one.busy or one.last_seen_at > now - LIVE_SECONDS]


async def longest_claims(queue: claimq.ReliableQueue, number: int, length: int) -> list[Located]:
    """The oldest claims of a queue with ``length`` busy items; those whose instant is unknown come last."""
    found: dict[str, Located] = {}
    for offset in range(0, length, _PAGE):
        page = await queue.items(State.BUSY, _PAGE, offset=offset)
        by_token = found | {one.name: one for one in page}
        found = {one.name: one for one in heapq.nsmallest(number, by_token.values(), key=_claim_order)}
    return list(found.values())


async def first_matching(
    queue: claimq.ReliableQueue, matches: Callable[[Located], bool], number: int, offset: int
) -> list[Located]:
    """The failed items that match, oldest failure first, after the first ``offset`` of these. Items that leave failed
    during the search can hide others."""
    found: list[Located] = []
    for start in itertools.count(0, _PAGE):
        page = await queue.failed_items(_PAGE, offset=start)
        found += filter(matches, page)
        if len(page) < _PAGE or len(found) >= offset + number:
            break
    return found[offset : offset + number]


def _claim_order(one: Located) -> tuple[float, int]:
    return (float("inf") if one.claimed_at is None else one.claimed_at, number_of(one.name))


def local_decisions(data: Path | None) -> dict[str, dict[str, Any]]:
    """The last scaling decisions of the running local modes by queue, each with the ``source`` that it was read from.

    With ``data`` only of the one with this state directory. If several run a queue, the nearest one counts.
    """
    places = [data] if data else [*local_mode.running_near(), *local_mode.running_anywhere()]
    found: dict[str, dict[str, Any]] = {}
    for place in places:
        state = local_mode.read_state(place) if local_mode.is_running(place) else None
        decisions: Mapping[str, dict[str, Any]] = (state or {}).get("decisions") or {}
        found = {name: {"source": str(place), **one} for name, one in decisions.items()} | found
    return found
