"""The public classes: one queue on one server, under one worker's name, and the reaper that keeps it in order."""

from __future__ import annotations

import asyncio

from claimq.arguments import Duration, seconds
from claimq.concurrency.background_work import run_every
from claimq.consuming.consume import Consuming
from claimq.queue.audit_log import AuditLog
from claimq.queue.claiming_items import ClaimingItems
from claimq.queue.maintaining import Maintaining
from claimq.queue.producing import Producing


class ReliableQueue(Producing, Consuming, ClaimingItems, Maintaining, AuditLog):
    """A reliable FIFO queue. :meth:`claimq.Server.queue` makes it; it is cheap, so make as many as you like.

    ======================  ====================================================================================
    to produce              ``enqueue``, ``enqueue_many``
    to work                 ``claim``, ``renew``, ``done``, ``fail``, ``requeue``, ``later``, ``unclaim``, ``drop``,
                            ``crash``; or ``consume``, which does all of it; ``claim_item`` for a chosen item
    to look                 ``snapshot``, ``length``, ``lengths``, ``age``, ``stats``, ``peek``, ``items``,
                            ``longest_claims``, ``find``, ``where``, ``workers``, ``exists``, ``clients``,
                            ``client_length``, ``has_client``, ``memory_usage``, ``memory_share``,
                            ``server_memory``
    failed items            ``failed_items``, ``failed_item``, ``failed_reasons``, ``requeue_failed``,
                            ``requeue_failed_item``, ``remove_failed``, ``remove_failed_item``,
                            ``drain_failed``, ``removed_items``, ``apply_failed_policy``
    policy                  ``policy``, ``set_policy``, ``update_policy``, ``pause``, ``resume``,
                            ``set_limit``, ``remove_limit``, ``reset_limits``
    to keep it in order     ``reap``, ``release_worker``, ``flush``, ``flush_client``, ``delete``, ``add_to_index``
    what people did         ``record_action``, ``audit_log``
    ======================  ====================================================================================

    An item is in exactly one of main, busy, delayed and failed, and every method moves it between them in one atomic
    step on the server. The object holds no state of the queue: if the process dies, nothing is lost, and the items that
    it held go back when their leases run out. All methods are coroutines; :mod:`claimq.blocking` has the same ones for
    synchronous programs.
    """


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
