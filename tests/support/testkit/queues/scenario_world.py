"""The servers and queues that the scenarios of refused calls begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import claimq
from claimq import ReliableQueue
from testkit.servers.server import Server

FIXED = (
    "main", "clients", "heads", "delayed", "leases", "claims", "workers", "present", "failed", "failed:items",
    "failed:reasons", "config", "stats", "wake", "ids", "removed", "audit", "added",
)  # fmt: skip
CANDIDATES = [
    *FIXED, "main:ann", "main:bob", "main:cid", "busy:w1", "busy:w2", "calls:INSTANCE",
    "high", "low", "levels", "high:ann", "keys", "held", "starts", "in_progress", "pauses",
    *(f"other:{part}" for part in (*FIXED, "main:ann")),
]  # fmt: skip
"""Keys by their part of the name; `other:` is a second queue, `INSTANCE` the calling connection's."""


STATS_AND_CALLS = "stats calls:INSTANCE "
GIVING_BACK = "stats config wake delayed failed failed:items failed:reasons removed leases busy:w1 main "


@dataclass
class World:
    """Two queues and two workers of one server."""

    server: Server
    store: claimq.Server
    first: ReliableQueue
    second: ReliableQueue
    other: ReliableQueue
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    def key(self, part: str) -> str:
        queue = "cq:{other}:" if part.startswith("other:") else "cq:{q}:"
        return queue + part.removeprefix("other:").replace("INSTANCE", self.store._connection.lanes.instance)

    def put_in_the_way(self, part: str) -> None:
        self.server.call("DEL", self.key(part))
        self.server.call("SET", self.key(part), "in the way")

    async def start_again(self) -> None:
        """An empty server, once what a claim found to be due has been done."""
        await asyncio.gather(*self.store._connection._background)
        self.server.call("FLUSHALL")
        calls = self.store._connection.lanes._calls
        self.store._connection.lanes._calls = {lane: number + 1 for lane, number in calls.items()}


Call = Callable[[], Awaitable[object]]
Prepare = Callable[[World], Awaitable[Call]]


class Scenarios(dict[str, tuple[Prepare, frozenset[str]]]):
    """States of the world and a call in each, by name, with the keys without which the call must be refused."""

    def register(self, needs: str) -> Callable[[Prepare], None]:
        """Adds a state and a call in it. `needs`: those keys."""

        def register(prepare: Prepare) -> None:
            self[prepare.__name__] = (prepare, frozenset(needs.split()))

        return register
