"""The reaper: keeps a queue in order while no worker claims from it."""

from __future__ import annotations

import asyncio

from claimq.arguments import Duration, seconds
from claimq.concurrency.background_work import run_every
from claimq.queue.reliable_queue import ReliableQueue


class Reaper:
    """Reaps a queue every ``period`` seconds: expired leases, due items and repairs, and every tenth time the policy
    for failed items.

    Safe in any number of processes at once. Not needed for safety: claims reap too. It can be killed at any time: each
    step is atomic.
    """

    def __init__(self, queue: ReliableQueue, *, period: Duration = 1.0, limit: int = 500) -> None:
        self._queue = queue
        self._period = seconds("period", period)
        self._limit = limit
        self._sweeps = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Reaps until ``stop`` is set. Outages of the server are logged and waited out."""
        await run_every(self._period, self.sweep, name=f"reaper of {self._queue.name}", stop=stop)

    async def sweep(self) -> bool:
        """Reaps once; True if there is more to do at once. Raises ClaimqError."""
        reaped = await self._queue.reap(self._limit)
        self._sweeps += 1
        if reaped.more:
            return True
        if self._sweeps % 10 == 1:
            done = await self._queue.apply_failed_policy(limit=self._limit)
            return done.requeued >= self._limit or done.removed >= self._limit
        return False
