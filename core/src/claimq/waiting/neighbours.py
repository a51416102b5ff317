"""Which clients of a queue take many of its slots while others wait. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from claimq.limits import Neighbour

MOST_NEIGHBOURS: Final = 5
SHARE: Final = 0.1
"""A client with a larger share of the slots, and of the time, may be a neighbour."""
LEAST_WAIT: Final = 1.0
"""A client that has waited for fewer seconds is not delayed."""


@dataclass(frozen=True, slots=True)
class ClientUse:
    """A client in a sample: its items in progress, how many seconds these have been so, for how many seconds its oldest
    item has waited (None: none waits for a turn), and its weight."""

    client: str | None
    busy: int
    seconds: float
    waited: float | None
    weight: float = 1.0


def neighbours(uses: Sequence[ClientUse], waiting_clients: int) -> tuple[Neighbour, ...]:
    """Those that delay others, the one with most slots first, at most ``MOST_NEIGHBOURS``. ``uses``: all clients with
    items in progress in a sample, and those that wait for their turns, the next ones; ``waiting_clients``: how many
    wait, also beyond the sample."""
    busy = sum(use.busy for use in uses)
    seconds = sum(use.seconds for use in uses)
    large = [use for use in uses if use.busy > SHARE * busy and use.seconds > SHARE * seconds]
    named: list[Neighbour] = []
    for use in sorted(large, key=lambda use: (-use.busy, use.client or "")):
        waiting = [other for other in uses if other.waited is not None]
        delayed = [other for other in waiting if 2 * other.busy / other.weight < use.busy / use.weight]
        count = waiting_clients - (len(waiting) - len(delayed))
        delay = max((other.waited or 0.0 for other in delayed), default=0.0)
        if delay >= LEAST_WAIT:
            named.append(Neighbour(use.client, use.busy / busy, use.seconds / seconds, count, delay))
    return tuple(named[:MOST_NEIGHBOURS])
