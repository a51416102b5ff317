"""Enqueueing one by one beside a raw blocking LPUSH: the blocking library, and 50 asyncio tasks at the same time."""

import asyncio
from dataclasses import dataclass, field

import claimq
import claimq.blocking
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.rivals import new_payloads

SIZE = 100
TASKS = 50


@dataclass
class Found:
    """What each way cost, round by round."""

    lpush: list[Cost] = field(default_factory=list[Cost])
    blocking: list[Cost] = field(default_factory=list[Cost])
    concurrent: list[Cost] = field(default_factory=list[Cost])

    def against_lpush(self, costs: list[Cost]) -> Spread:
        return ratios(costs, self.lpush, lambda cost: cost.rate)


async def measure(bed: Bed, *, items: int, rounds: int) -> Found:
    """The ways in turns, after a round to warm up. Raises WrongResult when items do not add up."""
    found = Found()
    for number in range(rounds + 1):
        costs = [_lpush(bed, items), _blocking(bed, items), await _concurrent(bed, items)]
        if number:
            for way, cost in zip((found.lpush, found.blocking, found.concurrent), costs, strict=True):
                way.append(cost)
        bed.empty()
    return found


def _lpush(bed: Bed, items: int) -> Cost:
    client = bed.client()
    with bed.measured(items) as cost:
        for payload in new_payloads(items, SIZE):
            client.lpush("raw:single", payload)
    must(client.llen("raw:single") == items, "lists: an item is lost")
    client.close()
    return cost


def _blocking(bed: Bed, items: int) -> Cost:
    with claimq.blocking.connect(bed.url) as server:
        queue = server.queue("single")
        with bed.measured(items) as cost:
            for payload in new_payloads(items, SIZE):
                queue.enqueue(payload)
        must(queue.length() == items, "claimq.blocking: an item is lost or repeated")
    return cost


async def _concurrent(bed: Bed, items: int) -> Cost:
    async with claimq.connect(bed.url) as server:
        queue = server.queue("concurrent")
        payloads = iter(new_payloads(items, SIZE))

        async def producer() -> None:
            for payload in payloads:
                await queue.enqueue(payload)

        with bed.measured(items) as cost:
            await asyncio.gather(*(producer() for _ in range(TASKS)))
        must(await queue.length() == items, "claimq: an item is lost or repeated")
    return cost
