"""What limits and turns by time cost beside the same queue without them, and how fair these turns are.

Two queues of equal items stand on one server and take turns, as in ``scale``. Fairness is measured in simulated time:
the scripts are real, and the queue's clock moves from one end of an item to the next.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import redis.asyncio

import claimq
from claimq import Fairness, Limit, NewItem, Policy
from claimq_bench.calls.scale import SIZE, Compared, Side, compare
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, must, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import new_payloads
from testkit.queues.frozen_clock import BEGIN_MS, FrozenClock
from testkit.queues.slots import Slots

_LONG = 36_000.0
_CLIENTS, _AT_LIMIT = 10_000, 9_000
_MOST_ROUNDS = 20
"""Each round starts an item of each client that is not at its limit, which therefore grows with the rounds."""
_WORKERS, _SECONDS = 10, 0.02
_LEAST_WAITS = 1_000
"""With fewer waits the p99 of the quiet client says little."""
_NEVER = Limit("never", rate="1000000/s", burst=1_000_000)
_BY_COUNT = Fairness(by="count")


@dataclass(frozen=True)
class Pair:
    """A queue with a policy beside one by count: items of ``clients`` in turn, or of ``keys``; claims of ``batch``."""

    name: str
    says: str
    most: float
    limit: str
    policy: Policy
    clients: int = 0
    keys: int = 0
    batch: int = 100
    is_claim_only: bool = False

    async def measure(self, bed: Bed, rounds: int) -> Compared:
        """The cost of both in turns."""
        async with claimq.connect(bed.url) as server:
            sides: list[Side] = []
            count = 2 * max(self.clients, self.keys, 1_000)
            names = [f"{number}" for number in range(self.clients or self.keys)]
            for kind, policy in (
                ("with", self.policy),
                ("none", Policy(busy_expiry=_LONG, fairness=_BY_COUNT)),
            ):
                is_keyed = bool(self.keys) and kind == "with"
                side = Side(
                    server.queue(f"{kind}-{self.name}", worker="bench"),
                    names if self.clients or is_keyed else (),
                    batch=self.batch,
                    is_keyed=is_keyed,
                    is_claim_only=self.is_claim_only,
                )
                await side.queue.set_policy(policy)
                await side.queue.enqueue_many(side.items(count))
                sides.append(side)
            slice_of = 200 if self.batch == 1 else 1_000
            compared = await compare(bed, sides, (count, count), rounds, slice_of=slice_of)
        bed.empty()
        return compared


PAIRS = (
    Pair(
        "limits_queue_claim_vs_none",
        "claim of 100 with a rate, to none",
        1.05,
        "the field of the levels is read and written",
        Policy(busy_expiry=_LONG, limits=(_NEVER,)),
        is_claim_only=True,
    ),
    Pair(
        "limits_queue_claim_vs_none_b1",
        "claim of one item with a rate, to none",
        1.10,
        "the same for each call",
        Policy(busy_expiry=_LONG, limits=(_NEVER,)),
        batch=1,
        is_claim_only=True,
    ),
    Pair(
        "limits_keys_claim_done_vs_none",
        "claim + done of 100 with 10,000 keys, to none",
        1.8,
        "each end takes the next item of its key out of delayed",
        Policy(busy_expiry=_LONG),
        keys=_CLIENTS,
    ),
    *(
        Pair(
            f"fair_time_claim_done_vs_count_{name}",
            f"claim + done of {says} by time, to by count",
            most,
            "each client's share is read and written at both ends",
            Policy(busy_expiry=_LONG),
            clients=clients,
            batch=batch,
        )
        for name, says, most, clients, batch in (
            ("one_item", "one item of ten clients", 1.3, 10, 1),
            ("10_clients", "100 items of ten clients", 1.05, 10, 100),
            ("100_clients", "100 items of 100 clients", 1.75, 100, 100),
        )
    ),
)


@dataclass
class Found:
    """``costs``: by the name of the pair. ``capacity``: items a second with a limit and without, round by round."""

    costs: dict[str, Compared] = field(default_factory=dict[str, Compared])
    clients: Compared = field(default_factory=lambda: Compared([], []))
    capacity: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    share_error: float = 0.0
    quiet: float = 0.0


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All figures of limits and turns by time."""
    to.heading("Limits and turns by time, beside queues without them (batches of 100)")
    found = await measure(bed, rounds=plan.scale_rounds, items=plan.single_items // 10)
    for pair in PAIRS:
        to.of_rounds(pair.name, pair.says, found.costs[pair.name].server, most=pair.most, limit=pair.limit)
    to.of_rounds(
        "limits_9000_of_10000_keys_vs_none",
        "claim + done, 9,000 of 10,000 clients at a limit",
        found.clients.server,
        most=1.25,
        limit="the level of each item's client is read and written",
    )
    to.of_rounds(
        "limit_at_capacity_vs_none",
        "items/s at a limit equal to the capacity, to none",
        ratios([limited for limited, _ in found.capacity], [free for _, free in found.capacity], float),
        least=0.95,
        limit="a start is late by the delay of a timer",
    )
    shares = "share of time beyond that of the weight"
    to.add(Figure("fair_time_share_error_max", shares, found.share_error, most=0.05))
    says = "p99 wait of a quiet client, by its service time"
    to.add(Figure("quiet_client_p99_over_service", says, found.quiet, most=2.0))


async def measure(bed: Bed, *, rounds: int, items: int) -> Found:
    """All of it. Raises WrongResult when items do not add up."""
    found = Found()
    for pair in PAIRS:
        found.costs[pair.name] = await pair.measure(bed, rounds)
    found.clients = await _clients_at_limits(bed, min(rounds, _MOST_ROUNDS))
    found.capacity = [await _at_capacity(bed, items) for _ in range(max(3, rounds // 8))]
    for service, weights in (
        ({"fast": 100, "slow": 3000}, {"fast": 3.0}),
        ({"a": 200, "b": 1000, "c": 5000}, {"c": 2.0}),
    ):
        found.share_error = max(found.share_error, await _share_error(bed, service, weights))
    found.quiet = await _quiet_client(bed, max(items, _LEAST_WAITS))
    return found


async def _clients_at_limits(bed: Bed, rounds: int) -> Compared:
    """Each client may start as many items as there are rounds, and most have started them."""
    burst = rounds + 2
    names = [f"{number}" for number in range(_CLIENTS)]
    at_limit, free = names[:_AT_LIMIT], names[_AT_LIMIT:]
    async with claimq.connect(bed.url) as server:
        limited = Side(server.queue("limited", worker="bench"), free)
        other = Side(server.queue("unlimited", worker="bench"), names)
        limit = Limit("each", rate="1/d", burst=burst, per="client")
        await limited.queue.set_policy(Policy(busy_expiry=_LONG, limits=(limit,), fairness=_BY_COUNT))
        await other.queue.set_policy(Policy(busy_expiry=_LONG, fairness=_BY_COUNT))
        for _ in range(burst + 1):
            payloads = new_payloads(len(at_limit), SIZE)
            await limited.queue.enqueue_many(
                [NewItem(payload, client=name) for payload, name in zip(payloads, at_limit, strict=True)]
            )
        started = 0
        while claims := await limited.queue.claim(1_000, wait=0):
            started += len(claims)
            await limited.queue.done(claims)
        must(started == burst * _AT_LIMIT, f"{started} items started, not {burst * _AT_LIMIT}")
        for side in (limited, other):
            await side.queue.enqueue_many(side.items(2 * len(side.clients)))
        sizes = (_AT_LIMIT + 2 * len(free), 2 * _CLIENTS)
        compared = await compare(bed, [limited, other], sizes, rounds, slice_of=1_000)
    bed.empty()
    return compared


async def _at_capacity(bed: Bed, items: int) -> tuple[float, float]:
    """Items a second through ten handlers of 20 ms each: with a limit of what they did without, and without."""

    async def rate() -> float:
        await queue.enqueue_many(new_payloads(items, SIZE))
        with bed.measured(items) as cost:
            consumed = await queue.consume(
                lambda _: asyncio.sleep(_SECONDS), concurrency=_WORKERS, return_when_empty=True
            )
        must(consumed.done == items, "an item was lost or repeated")
        return cost.rate

    async with claimq.connect(bed.url) as server:
        queue = server.queue("capacity", worker="bench")
        free = await rate()
        await queue.set_policy(Policy(limits=(Limit("capacity", rate=f"{round(free)}/s", burst=_WORKERS),)))
        limited = await rate()
    bed.empty()
    return limited, free


@asynccontextmanager
async def _slots(bed: Bed, service: Mapping[str, int], weights: Mapping[str, float]) -> AsyncGenerator[Slots]:
    """Ten slots, for items that take so many ms by client."""
    async with redis.asyncio.Redis(unix_socket_path=bed.path, protocol=2) as client:
        clock = FrozenClock(client, fair=BEGIN_MS)
        queue = claimq.connect(client=clock).queue("fair", worker="bench")
        await queue.set_policy(Policy(busy_expiry=_LONG, fairness=Fairness(weights=weights)))
        yield Slots(queue, clock, service, _WORKERS)
    bed.empty()


async def _share_error(bed: Bed, service: Mapping[str, int], weights: Mapping[str, float]) -> float:
    """In 60 mean service times, with work waiting for all."""
    async with _slots(bed, service, weights) as slots:
        for client, takes in service.items():
            payloads = new_payloads(1_500_000 // takes, SIZE)
            await slots.queue.enqueue_many([NewItem(payload, client=client) for payload in payloads])
        mean = sum(service.values()) / len(service)
        return max((await slots.shares_off(round(60 * mean), weights)).values())


async def _quiet_client(bed: Bed, items: int) -> float:
    """The p99 wait of a client with a load of 0.3 of a slot, beside three whose items take a hundred times as long.
    They leave slots free for it, when their items end, from its first item on."""
    takes, rng = 1_000, random.Random(1)
    service = {"quiet": takes, **dict.fromkeys(("a", "b", "c"), 100 * takes)}
    async with _slots(bed, service, {}) as slots:
        payloads = new_payloads(items, SIZE)
        await slots.queue.enqueue_many(
            [NewItem(payload, client=client) for payload in payloads for client in ("a", "b", "c")]
        )
        await slots.run(200 * takes)
        await slots.queue.enqueue(b"first", client="quiet")
        await slots.run(200 * takes)
        slots.waits.clear()
        for payload in new_payloads(items, SIZE):
            await slots.run(round(rng.expovariate(0.3 / takes)))
            await slots.queue.enqueue_many([NewItem(payload, client="quiet")])
        await slots.run(200 * takes)
        waits = sorted(slots.waits["quiet"])
    must(len(waits) == items, f"{items} items of the quiet client were enqueued, {len(waits)} started")
    return waits[int(0.99 * items)] / takes
