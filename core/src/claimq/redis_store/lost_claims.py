"""Recovery of claims whose reply was lost.

A claim call may have run on the server, or may still run there, when its caller was cancelled or got StoreUnavailable.
The recovery withdraws the call, and moves the claimed items back to the head of main.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq.redis_store.lanes import Lanes
from claimq.redis_store.scripts import Arg, Call
from claimq.tokens import make_token

LIMIT_CANCELLED, LIMIT_UNAVAILABLE = 1000, 100
"""How many recoveries of one queue may be running when another begins: for a claim that was cancelled, and for one that
ended with StoreUnavailable. A claim beyond the limit is left to its lease."""
RETRY_FOR = 600.0
"""Seconds for which a recovery is retried through an outage; after that the lease decides."""


class _Connection(Protocol):
    """What a recovery uses of the connection."""

    lanes: Lanes
    is_closed: bool

    def in_background(self, work: Coroutine[Any, Any, None], *, close_waits: bool) -> asyncio.Task[None]: ...
    async def run(
        self, name: str, keys: Sequence[str], args: Sequence[Arg], *, use: str, retry_for: float | None
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class LostClaim:
    """A claim call without a reply. ``main_key`` is that of its queue; its call still occupies its lane."""

    call: Call
    main_key: str
    worker: str
    nonce: str


class LostClaims:
    """The recoveries that run on one connection. Those of one queue run one after another."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._running: dict[str, set[asyncio.Task[None]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def recover(self, lost: LostClaim, *, in_outage: bool) -> None:
        """Starts the recovery in the background, unless there are too many; the call's lane is free when it has ended.

        ``in_outage``: the recovery may take as long as the outage, so closing the connection cancels it instead of
        waiting for it.
        """
        count = len(self._running.get(lost.main_key, ()))
        limit = LIMIT_UNAVAILABLE if in_outage else LIMIT_CANCELLED
        if count >= limit or (in_outage and self._connection.is_closed):
            self._connection.lanes.give(lost.call)
            return
        task = self._connection.in_background(self._recover(lost), close_waits=not in_outage)
        self._running.setdefault(lost.main_key, set()).add(task)
        task.add_done_callback(lambda _: self._ended(lost.main_key, task))

    async def recovered(self, main_key: str) -> None:
        """Waits for the recoveries of a queue that are running now."""
        if running := self._running.get(main_key):
            await asyncio.wait(set(running))

    async def close(self) -> None:
        """Cancels all recoveries; their claims are left to their leases."""
        running = {task for tasks in self._running.values() for task in tasks}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _ended(self, main_key: str, task: asyncio.Task[None]) -> None:
        running = self._running[main_key]
        running.discard(task)
        if not running:
            del self._running[main_key]
            self._locks.pop(main_key, None)

    async def _recover(self, lost: LostClaim) -> None:
        try:
            async with self._locks.setdefault(lost.main_key, asyncio.Lock()):
                await self._give_back(lost, await self._withdraw(lost))
        finally:
            self._connection.lanes.give(lost.call)

    async def _withdraw(self, lost: LostClaim) -> list[str]:
        """Makes sure that the call runs no more; returns the tokens of what it claimed."""
        reply = await self._run("withdraw", lost, [lost.call[2]])
        if not reply[1]:
            return []
        first, count = map(int, reply[1].split()[2:4])
        return [make_token(lost.worker, number, lost.nonce) for number in range(first, first + count)]

    async def _give_back(self, lost: LostClaim, tokens: list[str]) -> None:
        read = BoundedRead("give_back", DEFAULT_BOUNDS, keeps=False)
        while tokens:
            words: list[Arg] = ["interrupt", "", "", "", 1, lost.worker, len(tokens), *tokens]
            reply = await read.reply(self._run("give_back", lost, words))
            verdicts = reply[1].decode().partition("|")[0].split()
            tokens = [token for token, verdict in zip(tokens, verdicts, strict=True) if verdict == "later"]

    async def _run(self, name: str, lost: LostClaim, words: list[Arg]) -> Any:
        """Runs a script on the lane of the lost call: with a higher number, so that the call itself is refused."""
        call = self._connection.lanes.next_on(lost.call)
        return await self._connection.run(
            name, [lost.main_key], [*call, *words], use="verdicts", retry_for=RETRY_FOR
        )
