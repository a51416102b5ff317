"""Enqueueing one by one beside a raw blocking LPUSH: the blocking library, its script on a bare socket, and 50 asyncio
tasks at the same time."""

import asyncio
import socket
from dataclasses import dataclass, field

import claimq
import claimq.blocking
from claimq.redis_store.clients.direct_client import packed
from claimq.redis_store.keys import Keys
from claimq.redis_store.scripts import script
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import new_payloads

SIZE = 100
TASKS = 50


@dataclass
class Found:
    """What each way cost, round by round."""

    lpush: list[Cost] = field(default_factory=list[Cost])
    blocking: list[Cost] = field(default_factory=list[Cost])
    script_alone: list[Cost] = field(default_factory=list[Cost])
    concurrent: list[Cost] = field(default_factory=list[Cost])

    def against_lpush(self, costs: list[Cost]) -> Spread:
        return ratios(costs, self.lpush, lambda cost: cost.rate)


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All figures of single enqueues."""
    to.heading(f"Enqueueing one by one: {plan.consume_rounds} rounds of {plan.single_items:,} items each way")
    found = await measure(bed, items=plan.single_items, rounds=plan.consume_rounds)
    lpush = Spread.of([cost.rate for cost in found.lpush])
    to.of_rounds("lpush_single_per_second", "items/s of a blocking LPUSH", lpush, unit="/s")
    to.of_costs("lpush_single", found.lpush)
    to.of_costs("enqueue_single_blocking", found.blocking)
    to.of_costs("enqueue_50_concurrent", found.concurrent)
    to.of_rounds(
        "enqueue_single_blocking_vs_lpush",
        "items/s of claimq.blocking against it",
        found.against_lpush(found.blocking),
        least=0.8,
        limit="the script's fixed cost, and the client's checks",
    )
    to.of_rounds(
        "enqueue_script_alone_vs_lpush",
        "items/s of its script on a bare socket against it",
        found.against_lpush(found.script_alone),
    )
    to.of_rounds(
        "enqueue_50_concurrent_vs_lpush",
        "items/s of 50 asyncio tasks against it",
        found.against_lpush(found.concurrent),
        least=4.0,
        limit="Python's time for a task and a call",
    )


async def measure(bed: Bed, *, items: int, rounds: int) -> Found:
    """The ways in turns, after a round to warm up. Raises WrongResult when items do not add up."""
    found = Found()
    for number in range(rounds + 1):
        costs = [
            _lpush(bed, items),
            _blocking(bed, items),
            _script_alone(bed, items),
            await _concurrent(bed, items),
        ]
        ways = (found.lpush, found.blocking, found.script_alone, found.concurrent)
        if number:
            for way, cost in zip(ways, costs, strict=True):
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


def _script_alone(bed: Bed, items: int) -> Cost:
    """A client that checks nothing, repeats nothing, and only looks whether a reply is good."""
    main, sha = Keys("alone").main, bed.control.script_load(script("enqueue").text)
    with socket.socket(socket.AF_UNIX) as bare:
        bare.connect(bed.control.connection_pool.connection_kwargs["path"])
        with bed.measured(items) as cost:
            for number, payload in enumerate(new_payloads(items, SIZE), start=1):
                group = (1, 0, "-", "", "alone-", number, 1, payload)
                call = ("EVALSHA", sha, 1, main, "alone", 0, number, *group)
                bare.sendall(b"".join(packed(bare, call)))
                must(bare.recv(4096).startswith(b"*2\r\n$2\r\nOK\r\n"), "the script refuses an item")
    must(bed.control.llen(main) == items, "the script alone: an item is lost or repeated")
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
