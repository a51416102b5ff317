"""Workers in simulation: items end when their time is over, on a queue whose clock stands still."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping

from claimq import Claim, ReliableQueue
from testkit.queues.frozen_clock import FrozenClock


class Slots:
    """Workers that work on several items at once, each for as long as an item of its client takes (ms).

    ``is_named``: whether claims name the slots. ``used``: ms of ended items by client. ``waits``: ms from enqueue to
    claim by client.
    """

    def __init__(
        self, queue: ReliableQueue, clock: FrozenClock, service: Mapping[str, int], slots: int
    ) -> None:
        self.queue, self.clock, self.service, self.slots = queue, clock, service, slots
        self.is_named = True
        self.busy: list[tuple[int, int, Claim]] = []
        self.number = 0
        self.used: Counter[str] = Counter()
        self.waits: dict[str, list[int]] = defaultdict(list)

    @property
    def now(self) -> int:
        """The queue's clock, in ms."""
        return self.clock.now[self.queue.name]

    async def start(self) -> None:
        """Claims items for the free slots."""
        if len(self.busy) == self.slots:
            return
        slots = self.slots if self.is_named else None
        for claim in await self.queue.claim(self.slots - len(self.busy), wait=0, slots=slots):
            client = claim.item.client or "-"
            self.number += 1
            self.waits[client].append(self.now - round(claim.item.enqueued_at * 1000))
            heapq.heappush(self.busy, (self.now + self.service[client], self.number, claim))

    async def end_next(self, before: int) -> bool:
        """Ends what ends next, if that is before the instant; else the clock stands at it."""
        end = min(self.busy[0][0], before) if self.busy else before
        self.clock.move(self.queue.name, end - self.now)
        if end == before:
            return False
        ended: list[Claim] = []
        while self.busy and self.busy[0][0] == end:
            ended.append(heapq.heappop(self.busy)[2])
        for claim in ended:
            self.used[claim.item.client or "-"] += self.service[claim.item.client or "-"]
        await self.queue.done(ended)
        return True

    async def run(self, milliseconds: int) -> None:
        """Works for so long."""
        until = self.now + milliseconds
        await self.start()
        while await self.end_next(until):
            await self.start()

    async def shares_off(self, milliseconds: int, weights: Mapping[str, float]) -> dict[str, float]:
        """By client: by how much its share of the processing time of a run differs from that of its weight (1 unless
        given), beyond one of its items. Begins when each client has ended an item."""
        await self.run(max(self.service.values()) + 1000)
        self.used.clear()
        await self.run(milliseconds)
        total, weight = sum(self.used.values()), sum(weights.get(client, 1.0) for client in self.service)
        return {
            client: abs(self.used[client] / total - weights.get(client, 1.0) / weight) - takes / total
            for client, takes in self.service.items()
        }
