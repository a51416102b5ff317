"""What idle queues and idle workers cost: an operator that looks at queues together, and workers that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial

import claimq
from claimq import Policy, ReliableQueue
from claimq.internals.idle_queues import IdleQueue, IdleQueues
from claimq.policy import PolicyFields
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, Cost, Spread, must
from claimq_bench.plan import Plan
from claimq_control.passes.maintenance import Maintenance
from claimq_operator.reconcile.reconciler import QUIET_PERIODS

_QUEUES, _WORKERS = 1_000, 1_000
_HOUR = 3600.0
_SETTLING, _WATCHED = 25.0, 30.0
"""Seconds until idle workers have seen how many they are, and for which their cost is measured."""
_FIELDS: PolicyFields = {"busy_expiry": 60.0}


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    rounds = plan.scale_rounds
    to.heading(f"{_QUEUES:,} idle queues under an operator, {_WORKERS:,} idle workers")
    async with claimq.connect(bed.url) as server:
        queues = [server.queue(f"queue-{number}") for number in range(_QUEUES)]
        for queue in queues:
            await queue.set_policy(Policy(**_FIELDS))
        passes, looks = await _passes(bed, queues, rounds), await _looks(bed, server, queues, rounds)
    bed.empty()
    _add(to, "server", passes, looks, lambda cost: cost.server_main_us)
    _add(to, "operator", passes, looks, lambda cost: cost.client_us)
    share = await _share_of_workers(bed)
    to.add(
        Figure("idle_workers_core_share", "the server's share of a core for idle workers", share, most=0.01)
    )
    bed.empty()


def _add(
    to: Report, side: str, passes: Sequence[Cost], looks: Sequence[Cost], of: Callable[[Cost], float]
) -> None:
    """A quiet queue has a pass in six periods, and a look in each; other queues a pass in each."""
    ratios = [of(look) / of(alone) + 1 / QUIET_PERIODS for alone, look in zip(passes, looks, strict=True)]
    for name, says, costs in (
        ("pass", "pass over an idle queue", passes),
        ("look", "its part of a look", looks),
    ):
        spread = Spread.of([of(cost) for cost in costs])
        to.of_rounds(f"idle_{name}_{side}_us", f"{says}, {side}", spread, unit="us")
    says = f"looks and the rare passes over passes, {side}"
    to.of_rounds(f"idle_queue_{side}_vs_passes", says, Spread.of(ratios), most=0.25)


async def _passes(bed: Bed, queues: Sequence[ReliableQueue], rounds: int) -> list[Cost]:
    """The calls of passes over each queue alone, without what the operator then decides and writes."""
    maintained = [(queue, Maintenance()) for queue in queues]

    async def run() -> None:
        for queue, maintenance in maintained:
            await maintenance.run(queue, _FIELDS, (), now=0.0, has_workers=False)

    return await _costs(bed, run, rounds)


async def _looks(bed: Bed, server: claimq.Server, queues: Sequence[ReliableQueue], rounds: int) -> list[Cost]:
    idle, changed = IdleQueues(server.connection, _HOUR), list[str]()
    watched = [IdleQueue(queue.name) for queue in queues]
    with ExitStack() as watches:  # after the first look at a queue its watch ends at a random instant
        for queue in watched:
            watches.enter_context(idle.watch(queue, lambda: None))
        await idle.look()
    with ExitStack() as watches:
        for queue in watched:
            watches.enter_context(idle.watch(queue, partial(changed.append, queue.name)))
        costs = await _costs(bed, idle.look, rounds)
    must(not changed, "a look has found a change of an idle queue")
    await idle.close()
    return costs


async def _costs(bed: Bed, run: Callable[[], Awaitable[None]], rounds: int) -> list[Cost]:
    """Those of each queue. The first run loads the scripts and writes the policy."""
    await run()
    costs: list[Cost] = []
    for _ in range(rounds):
        with bed.measured(_QUEUES) as cost:
            await run()
        costs.append(cost)
    return costs


async def _share_of_workers(bed: Bed) -> float:
    """Beside the same server without connections."""
    with bed.measured(1) as empty:
        await asyncio.sleep(_WATCHED)
    async with claimq.connect(bed.url) as server:
        workers = [
            asyncio.ensure_future(server.queue("idle", worker=f"worker-{number}").claim(wait=None))
            for number in range(_WORKERS)
        ]
        await asyncio.sleep(_SETTLING)
        with bed.measured(1) as waiting:
            await asyncio.sleep(_WATCHED)
        must(not any(worker.done() for worker in workers), "a worker has got an item of an empty queue")
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return waiting.server_main / waiting.wall - empty.server_main / empty.wall
