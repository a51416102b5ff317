"""`consume` with a handler per item beside lists in pipelines of 100; two processes beside one."""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection

import redis

import claimq
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import Lists, new_payloads

BATCH, SIZE = 100, 100
CONCURRENCY = 4
LONGEST = 300.0


@dataclass
class Found:
    """What lists and consume cost, round by round; items per second in one and in two processes, of each."""

    lists: list[Cost] = field(default_factory=list[Cost])
    inline: list[Cost] = field(default_factory=list[Cost])
    defaults: dict[str, list[Cost]] = field(default_factory=dict[str, list[Cost]])
    """`consume` with a handler and nothing else, by the kind of handler."""
    one: list[float] = field(default_factory=list[float])
    two: list[float] = field(default_factory=list[float])
    lists_one: list[float] = field(default_factory=list[float])
    lists_two: list[float] = field(default_factory=list[float])

    def against_lists(self, costs: list[Cost]) -> Spread:
        return ratios(costs, self.lists, lambda cost: cost.rate)

    def two_against_one(self) -> Spread:
        return ratios(self.two, self.one, float)

    def lists_two_against_one(self) -> Spread:
        return ratios(self.lists_two, self.lists_one, float)


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All figures of `consume`."""
    items, rounds = plan.consume_items, plan.consume_rounds
    to.heading(f"consume(), a handler per item, chunks of 100: {rounds} rounds of {items:,}")
    found = await measure(bed, items=items, rounds=rounds)
    to.of_costs("lists_b100", found.lists)
    to.of_costs("consume", found.inline)
    rate = Spread.of([cost.rate for cost in found.inline])
    to.of_rounds("consume_per_item_per_second", "items/s in this process", rate, unit="/s")
    to.of_rounds(
        "consume_per_item_vs_lists_b100",
        "items/s against lists in pipelines of 100",
        found.against_lists(found.inline),
        least=0.6,
        limit="Python's time for an item, and the scripts' where other programs run",
    )
    for kind, costs in found.defaults.items():
        says = f"with nothing but a {kind} as the handler, against lists"
        to.of_rounds(f"consume_default_{kind}_vs_lists_b100", says, found.against_lists(costs))
    to.of_rounds(
        "consume_two_processes_vs_one",
        "items/s of two processes against one",
        found.two_against_one(),
    )
    to.of_rounds("lists_two_processes_vs_one", "the same for lists", found.lists_two_against_one())


async def measure(bed: Bed, *, items: int, rounds: int) -> Found:
    """The ways in turns. Raises WrongResult when items do not add up."""
    found = Found()
    lists = Lists(bed.client())
    async with claimq.connect(bed.url) as server:
        queue = server.queue("consume", worker="bench")
        for number in range(rounds + 1):
            costs = await of_lists(bed, lists, items), await _inline(bed, queue, items, _consume)
            defaults = {
                kind: await _inline(bed, queue, items, consume) for kind, consume in _DEFAULTS.items()
            }
            work = partial(_work, bed.url)
            rates = [await _in_processes(items, count, work, queue.enqueue_many) for count in (1, 2)]
            of_lists_in = [
                await _in_processes(
                    items,
                    count,
                    partial(_work_lists, bed.path, items // count),
                    partial(lists.enqueue, batch=BATCH),
                )
                for count in (1, 2)
            ]
            if number:  # the first round warms up
                found.lists.append(costs[0])
                found.inline.append(costs[1])
                for kind, cost in defaults.items():
                    found.defaults.setdefault(kind, []).append(cost)
                found.one.append(rates[0])
                found.two.append(rates[1])
                found.lists_one.append(of_lists_in[0])
                found.lists_two.append(of_lists_in[1])
    bed.empty()
    return found


async def of_lists(bed: Bed, lists: Lists, items: int) -> Cost:
    """Items that were enqueued before, taken and ended in pipelines of 100."""
    payloads = new_payloads(items, SIZE)
    await lists.enqueue(payloads, BATCH)
    with bed.measured(items) as cost:
        took = await lists.work_off(items, BATCH)
    must(took == payloads, "lists: other items came out")
    return cost


async def of_default(bed: Bed, queue: claimq.ReliableQueue, items: int) -> Cost:
    """Items that were enqueued before, to a coroutine as the handler of `consume` without further arguments."""
    return await _inline(bed, queue, items, _consume_in_coroutine)


async def _inline(bed: Bed, queue: claimq.ReliableQueue, items: int, consume: "Consume") -> Cost:
    payloads = new_payloads(items, SIZE)
    await queue.enqueue_many(payloads)
    with bed.measured(items) as cost:
        took = await consume(queue)
    must(sorted(took) == payloads, "consume: an item is lost or repeated")
    return cost


async def _consume(queue: claimq.ReliableQueue) -> list[bytes]:
    took: list[bytes] = []

    async def handler(item: claimq.Item) -> None:
        took.append(item.payload)

    consumed = await queue.consume(handler, concurrency=CONCURRENCY, chunk=BATCH, return_when_empty=True)
    must(consumed.done == len(took), "consume: a claim was lost")
    return took


async def _consume_in_coroutine(queue: claimq.ReliableQueue) -> list[bytes]:
    took: list[bytes] = []

    async def handler(item: claimq.Item) -> None:
        took.append(item.payload)

    await queue.consume(handler, return_when_empty=True)
    return took


async def _consume_in_function(queue: claimq.ReliableQueue) -> list[bytes]:
    took: list[bytes] = []
    await queue.consume(lambda item: took.append(item.payload), return_when_empty=True)
    return took


Consume = Callable[[claimq.ReliableQueue], Awaitable[list[bytes]]]
_DEFAULTS: dict[str, Consume] = {"coroutine": _consume_in_coroutine, "function": _consume_in_function}


async def _in_processes(
    items: int,
    count: int,
    work: Callable[[Connection], None],
    enqueue: Callable[[list[bytes]], Awaitable[object]],
) -> float:
    """Each process is connected before the first begins; the clock stops when the last one is done."""
    payloads = new_payloads(items, SIZE)
    spawning = multiprocessing.get_context("spawn")
    pipes = [spawning.Pipe() for _ in range(count)]
    processes = [
        spawning.Process(target=work, args=(theirs,), daemon=True, name=f"bench-{number}")
        for number, (_, theirs) in enumerate(pipes)
    ]
    try:
        for process in processes:
            process.start()
        for ours, theirs in pipes:
            theirs.close()
            must(ours.poll(LONGEST), "a consuming process does not start")
            ours.recv()
        await enqueue(payloads)
        start = time.perf_counter()
        for ours, _ in pipes:
            ours.send("go")
        took: list[bytes] = []
        ends: list[float] = []
        for ours, _ in pipes:
            must(ours.poll(LONGEST), "a consuming process does not end")
            end, own = ours.recv()
            ends.append(end)
            took += own
    finally:
        for process in processes:
            process.join(5)
            process.kill()
    must(sorted(took) == payloads, f"{count} processes: an item is lost or repeated")
    return items / (max(ends) - start)


def _work(url: str, results: Connection) -> None:
    """A process that consumes: says that it is connected, waits for its go, sends the instant of its end and what it
    took (the clock is the machine's, the same for all processes)."""

    async def main() -> None:
        async with claimq.connect(url) as server:
            queue = server.queue("consume")
            await queue.consume(print, return_when_empty=True)
            results.send("ready")
            results.recv()
            took = await _consume(queue)
            results.send((time.perf_counter(), took))

    asyncio.run(main())


def _work_lists(path: str, items: int, results: Connection) -> None:
    """The same with lists, for its part of the items."""
    client = redis.Redis(unix_socket_path=path, protocol=2, socket_timeout=60)
    client.ping()
    results.send("ready")
    results.recv()
    took = asyncio.run(Lists(client).work_off(items, BATCH))
    results.send((time.perf_counter(), took))
