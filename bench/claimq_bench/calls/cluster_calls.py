"""What a call costs on a Redis Cluster beside the same call on a single server: in the server and in the client."""

from __future__ import annotations

import claimq
from claimq import NewItem, ReliableQueue
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must
from claimq_bench.plan import Plan
from testkit.servers.cluster import RedisCluster
from testkit.servers.server import Server

_ITEMS = 1_000


async def report(to: Report, _: Bed, plan: Plan) -> None:
    rounds = plan.consume_rounds
    to.heading(
        f"A Redis Cluster of three beside a single server: {_ITEMS:,} items one by one, {rounds} rounds"
    )
    with Server("valkey", tcp=True) as single, RedisCluster() as cluster:
        costs: list[tuple[Cost, Cost]] = []
        async with claimq.connect(single.tcp_url) as alone, claimq.connect(cluster.url) as sharded:
            pairs = [
                (Bed.of(single), alone.queue("calls")),
                (Bed.of(cluster.owner("cq:{calls}:main")), sharded.queue("calls")),
            ]
            for number in range(rounds + 1):  # the first one connects and loads the scripts
                pair = [
                    await _cost(bed, queue, _ITEMS) for bed, queue in (pairs if number % 2 else pairs[::-1])
                ]
                costs.append((pair[0], pair[1]) if number % 2 else (pair[1], pair[0]))
        for name, of, most in (("client", "client_us", 1.2), ("server", "server_main_us", 1.1)):
            ratios = [getattr(on_cluster, of) / getattr(beside, of) for beside, on_cluster in costs[1:]]
            to.of_rounds(
                f"cluster_{name}_vs_single",
                f"enqueue, claim and done, time of the {name}",
                Spread.of(ratios),
                most=most,
            )


async def _cost(bed: Bed, queue: ReliableQueue, items: int) -> Cost:
    with bed.measured(items) as cost:
        for _ in range(items):
            await queue.enqueue_many([NewItem(b"x" * 100)])
            (claim,) = await queue.claim(1, wait=0)
            await queue.done([claim])
    must((await queue.length()) == 0, "items are left over")
    return cost
