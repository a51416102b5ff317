"""What claim + done cost when a queue is large against when it is small: items waiting, items busy, clients.

Two queues stand on one server, one large and one small, and take turns. Between measurements each gets back as many
items as it gave, so that both keep their size. The server's time is its main thread's: the other threads may still be
writing the log of what came before.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import claimq
from claimq import NewItem, Policy
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import all_done, new_payloads

BATCH = 100
SIZE = 100
LONG = Policy(busy_expiry=3600.0)
"""Claims that stay busy during the measurement must not expire in it."""
HOLDERS = 100
"""Workers that hold the busy items between them."""


@dataclass
class Compared:
    """The large queue's costs over the small one's, round by round."""

    large: list[Cost]
    small: list[Cost]

    @property
    def server(self) -> Spread:
        return ratios(self.large, self.small, lambda cost: cost.server_main_us)

    @property
    def wall(self) -> Spread:
        return ratios(self.large, self.small, lambda cost: cost.wall / cost.items)


@dataclass
class Side:
    """A queue of one size: `slice` items are taken in each round, from clients in turn if there are any, in claims of
    `batch`. `is_keyed`: the names are those of keys. `is_claim_only`: the end of the claims is not measured."""

    queue: claimq.ReliableQueue
    clients: Sequence[str]
    at: int = 0
    batch: int = BATCH
    is_keyed: bool = False
    is_claim_only: bool = False

    def items(self, count: int) -> list[NewItem]:
        """New items, for the clients in the order in which their turn comes."""
        payloads = new_payloads(count, SIZE)
        if not self.clients:
            return [NewItem(payload) for payload in payloads]
        start, self.at = self.at, (self.at + count) % len(self.clients)
        names = itertools.islice(itertools.cycle(self.clients), start, start + count)
        pairs = zip(payloads, names, strict=True)
        if self.is_keyed:
            return [NewItem(payload, key=name) for payload, name in pairs]
        return [NewItem(payload, client=name) for payload, name in pairs]


async def waiting(bed: Bed, *, many: int, few: int, rounds: int) -> Compared:
    """Many items wait, or few."""
    async with claimq.connect(bed.url) as server:
        sides: list[Side] = []
        for count in (many, few):
            side = Side(server.queue(f"waiting-{count}", worker="bench"), ())
            await side.queue.enqueue_many(side.items(count))
            sides.append(side)
        compared = await compare(bed, sides, (many, few), rounds, slice_of=500)
    bed.empty()
    return compared


async def busy(bed: Bed, *, many: int, few: int, rounds: int) -> Compared:
    """Many items are busy in other workers' hands, or few; ten thousand wait."""
    async with claimq.connect(bed.url) as server:
        sides: list[Side] = []
        for count in (many, few):
            side = Side(server.queue(f"busy-{count}", worker="bench"), ())
            await side.queue.set_policy(LONG)
            await hold(server, side.queue.name, count)
            await side.queue.enqueue_many(side.items(10_000))
            sides.append(side)
        compared = await compare(bed, sides, (10_000, 10_000), rounds, slice_of=1000)
        for side, count in zip(sides, (many, few), strict=True):
            must(
                (await side.queue.lengths())[claimq.State.BUSY] == count,
                "a busy item of another worker is gone",
            )
    bed.empty()
    return compared


async def clients(bed: Bed, *, many: int, rounds: int) -> Compared:
    """Items of many clients, a turn each by count, against items of one client; two for each of the many wait."""
    async with claimq.connect(bed.url) as server:
        sides: list[Side] = []
        for count in (many, 1):
            side = Side(
                server.queue(f"clients-{count}", worker="bench"), [f"client-{n}" for n in range(count)]
            )
            await side.queue.update_policy(fairness_by="count")
            await side.queue.enqueue_many(side.items(2 * many))
            sides.append(side)
        compared = await compare(bed, sides, (2 * many, 2 * many), rounds, slice_of=1000)
    bed.empty()
    return compared


async def report_waiting(to: Report, bed: Bed, plan: Plan) -> None:
    to.heading("Claim + done, 1,000,000 items waiting against 1,000 (batches of 100)")
    compared = await waiting(bed, many=1_000_000, few=1_000, rounds=plan.scale_rounds)
    _add_compared(to, "claim_done_cost_1m_vs_1k_waiting", compared, 1.15, "memory further away: cache misses")


async def report_busy(to: Report, bed: Bed, plan: Plan) -> None:
    to.heading("Claim + done, 100,000 items busy against 100 (batches of 100)")
    compared = await busy(bed, many=100_000, few=100, rounds=plan.scale_rounds)
    _add_compared(
        to, "claim_done_cost_100k_vs_100_busy", compared, 1.5, "the leases are a sorted set: O(log busy)"
    )


async def report_clients(to: Report, bed: Bed, plan: Plan) -> None:
    to.heading("Claim + done, items of 10,000 clients in turn against items of one (batches of 100)")
    compared = await clients(bed, many=10_000, rounds=plan.scale_rounds)
    limit = "each item comes from a list of its own, where one client's come from one list with one command"
    _add_compared(to, "claim_done_cost_10k_vs_1_clients", compared, 2.0, limit)


def _add_compared(to: Report, name: str, compared: Compared, most: float, limit: str) -> None:
    to.of_rounds(
        name, "server time for an item, large against small", compared.server, most=most, limit=limit
    )
    to.of_rounds(f"{name}_wall", "wall time, large against small", compared.wall)
    large = Spread.of([cost.server_main_us for cost in compared.large])
    to.of_rounds(f"{name}_us", "server time for an item, large", large, unit="us")


async def hold(server: claimq.Server, name: str, count: int) -> None:
    """Makes `count` items busy, in the hands of up to a hundred workers."""
    each = max(count // HOLDERS, 1)
    for number in range(min(HOLDERS, count)):
        queue = server.queue(name, worker=f"holder-{number}")
        await queue.enqueue_many(new_payloads(each, SIZE))
        claims = [claim for _ in range(0, each, 1000) for claim in await queue.claim(min(each, 1000), wait=0)]
        must(len(claims) == each, f"{name}: {each} items were enqueued, {len(claims)} could be claimed")


async def compare(
    bed: Bed, sides: list[Side], sizes: tuple[int, int], rounds: int, *, slice_of: int
) -> Compared:
    """The cost of slices of two sides, which take turns; `sizes`: how many items wait in each at the end."""
    costs: list[list[Cost]] = [[], []]
    for number in range(rounds + 1):  # the first round warms up
        for which in (0, 1) if number % 2 else (1, 0):
            cost = await _slice(bed, sides[which], slice_of)
            if number:
                costs[which].append(cost)
    for side, size in zip(sides, sizes, strict=True):
        length = (await side.queue.lengths())[claimq.State.MAIN]
        must(length == size, f"{side.queue.name}: {size} items should wait, not {length}")
    return Compared(*costs)


async def _slice(bed: Bed, side: Side, count: int) -> Cost:
    new, held = side.items(count), list[claimq.Claim]()
    with bed.measured(count) as cost:
        for _ in range(0, count, side.batch):
            claims = await side.queue.claim(side.batch, wait=0)
            must(len(claims) == side.batch, f"{side.queue.name}: a claim of {side.batch} got {len(claims)}")
            if side.is_claim_only:
                held += claims
            else:
                await _end(side, claims)
    await _end(side, held)
    await side.queue.enqueue_many(new)
    return cost


async def _end(side: Side, claims: list[claimq.Claim]) -> None:
    must(all_done(await side.queue.done(claims)), f"{side.queue.name}: a claim of this process was lost")
