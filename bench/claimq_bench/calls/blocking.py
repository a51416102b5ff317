"""How long one command blocks the server, for each operation on a queue of the worst content.

A script runs alone, so its time is the wait of every other client. Two clocks have it, and both err upwards only: the
server's statistics have the wall time of its commands, with what another program takes of the processor in between; the
processor time of the server's main thread around a call includes the server's work beside the command. The smaller
one counts.

Both also grow by chance where the machine is virtual: memory that its host has to provide first costs many times the
usual. So the same calls are made in several rounds. Of each call the shortest round counts, and of these the longest
call.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import claimq
from claimq import Claim, FailedPolicy, NewItem, OnExpiry, Policy, Reason, ReliableQueue, State
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, must
from claimq_bench.plan import Plan
from testkit.queues.clock import move_clock

LIMIT_MS = 20.0
_EXPIRY = 3600.0
_POLICY = Policy(busy_expiry=_EXPIRY, max_payload=2**24, requeue_limit=10_000)


@dataclass(frozen=True)
class Content:
    """What a queue holds: `items` of `size` bytes, of `clients` clients in turn (0: of none).

    They are claimed by `workers` workers, `claim_batch` items in a call.
    """

    name: str
    says: str
    items: int
    size: int
    clients: int = 0
    workers: int = 1
    claim_batch: int = 1000


FULL = (
    Content("large", "2,000 items of 1 MiB", 2_000, 2**20),
    Content("large_clients", "2,000 items of 1 MiB, 1,000 clients", 2_000, 2**20, clients=1_000),
    Content("small", "100,000 small items", 100_000, 100),
    Content("claims", "20,000 claims of 2,000 workers", 20_000, 100, workers=2_000, claim_batch=1),
    Content("clients", "50,000 clients", 100_000, 100, clients=50_000),
)
QUICK = (
    Content("large", "200 items of 1 MiB", 200, 2**20),
    Content("large_clients", "200 items of 1 MiB, 100 clients", 200, 2**20, clients=100),
    Content("small", "10,000 small items", 10_000, 100),
    Content("claims", "2,000 claims of 200 workers", 2_000, 100, workers=200, claim_batch=1),
    Content("clients", "5,000 clients", 10_000, 100, clients=5_000),
)


@dataclass
class Stage:
    """A queue with its content on a measured server, and the milliseconds of each call by operation so far."""

    bed: Bed
    store: claimq.Server
    queue: ReliableQueue
    content: Content
    tokens: list[str] = field(default_factory=list[str])
    times: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    operation: str = ""
    _one_call: asyncio.Lock = field(default_factory=asyncio.Lock)

    def meter_calls(self) -> None:
        """Notes the time of each call that the store makes from now on. One runs at a time."""
        connection = self.store._connection  # noqa: SLF001 - each call of an operation, not the operation
        for name in ("run", "command", "read"):
            setattr(connection, name, self._metered(getattr(connection, name)))

    def _metered(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def metered(*args: Any, **options: Any) -> Any:
            async with self._one_call:
                before = self.bed.command_times()
                reply = await call(*args, **options)
                after = self.bed.command_times()
            spent = {name: seconds - before.get(name, 0) for name, seconds in after.items()}
            processor, _ = spent.pop("main"), spent.pop("cmdstat_info", 0)
            self.times.setdefault(self.operation, []).append(1000 * min(processor, max(spent.values())))
            return reply

        return metered

    @contextlib.contextmanager
    def measured(self, operation: str) -> Generator[None]:
        """Calls inside belong to this operation."""
        self.operation = operation
        yield
        self.operation = ""

    async def fill(self) -> None:
        content, payload = self.content, b"x" * self.content.size
        with self.measured("enqueue"):
            for start in range(0, content.items, 1000):
                numbers = range(start, min(start + 1000, content.items))
                await self.queue.enqueue_many([self._item(number, payload) for number in numbers])

    def _item(self, number: int, payload: bytes) -> NewItem:
        clients = self.content.clients
        return NewItem(payload, client=f"client-{number % clients}") if clients else NewItem(payload)

    async def claim_all(self) -> None:
        """Claims all items, for the workers in turn."""
        number = 0
        with self.measured("claim"):
            while claims := await self.worker(number).claim(self.content.claim_batch, wait=0):
                self.tokens += [claim.token for claim in claims]
                number += 1
        must(len(self.tokens) == self.content.items, f"{len(self.tokens)} of {self.content.items} claimed")

    def worker(self, number: int) -> ReliableQueue:
        return self.store.queue(self.queue.name, worker=f"worker-{number % self.content.workers}")

    def take_tokens(self) -> list[str]:
        tokens, self.tokens = self.tokens, []
        return tokens

    async def reap_all(self) -> None:
        await move_clock(self.queue, _EXPIRY + 1)
        with self.measured("reap"):
            while (await self.queue.reap(1000)).more:
                pass


async def _look(stage: Stage, state: State) -> None:
    """The reads, on a queue whose items are all in one state."""
    queue, items = stage.queue, stage.content.items
    calls: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("snapshot", queue.snapshot),
        ("workers", queue.workers),
        ("clients", queue.clients),
        ("memory_usage", queue.memory_usage),
        (f"items({state.value})", lambda: queue.items(state, 50)),
        (f"items({state.value})", lambda: queue.items(state, 10, offset=items - 10)),
        (f"find in {state.value}", lambda: queue.find("none")),
        ("explain", lambda: internals(queue).explain("worker-0", "OOMKilled: 137")),
        ("recount", lambda: internals(queue).recount("worker-0", "evicted: memory")),
    ]
    for operation, call in calls:
        with stage.measured(operation):
            await call()


async def _main_and_busy(stage: Stage) -> None:
    queue = stage.queue
    await _look(stage, State.MAIN)
    await stage.claim_all()
    await _look(stage, State.BUSY)
    with stage.measured("renew"):
        await queue.renew(stage.tokens)
    with stage.measured("unclaim"):
        await queue.unclaim(stage.take_tokens(), why="stopped")
    await stage.claim_all()
    for worker in range(stage.content.workers):
        with stage.measured("release_worker"):
            await queue.release_worker(f"worker-{worker}", Reason.INTERRUPTED)
    stage.tokens.clear()


async def _failed(stage: Stage) -> None:
    queue, items = stage.queue, stage.content.items
    await queue.update_policy(on_expiry=OnExpiry.FAIL)
    await stage.claim_all()
    stage.tokens.clear()
    await stage.reap_all()
    await _look(stage, State.FAILED)
    with stage.measured("requeue_failed"):
        must(await queue.requeue_failed(chunk=1000) == items, "not all failed items were requeued")
    await stage.claim_all()
    with stage.measured("fail"):
        await queue.fail(stage.take_tokens(), "broken", permanent=True)
    await queue.update_policy(failed=FailedPolicy(max_items=items // 2))
    await _fail_over_max_items(stage)
    with stage.measured("policy of failed items"):
        for _ in range(3):
            await queue.apply_failed_policy(limit=1000)
    with stage.measured("remove_failed"):
        await queue.remove_failed(chunk=1000)
    await queue.update_policy(failed=FailedPolicy())
    await stage.fill()


async def _fail_over_max_items(stage: Stage) -> None:
    """Each failed item may remove several of those that are too many."""
    await stage.queue.enqueue_many(["x"] * 500)
    claims: list[Claim] = await stage.queue.claim(500, wait=0)
    with stage.measured("fail over max_items"):
        await stage.queue.fail(claims, "broken", permanent=True)


async def _delayed(stage: Stage) -> None:
    await stage.claim_all()
    with stage.measured("requeue with a delay"):
        await stage.queue.requeue(stage.take_tokens(), delay=_EXPIRY)
    await _look(stage, State.DELAYED)
    await stage.reap_all()


async def _ends(stage: Stage) -> None:
    """With half of the items claimed."""
    queue, content = stage.queue, stage.content
    await stage.claim_all()
    tokens = stage.take_tokens()
    with stage.measured("done"):
        await queue.done(tokens[::2])
    await stage.fill()
    for start in range(1, content.items, 2000):
        with stage.measured("done_claim"):
            await next_claims(queue).done_and_claim(tokens[start : start + 2000 : 2], 1000)
    with stage.measured("flush_client"):
        await queue.flush_client("client-0")
    with stage.measured("flush"):
        await queue.flush()
    must(sum((await queue.lengths()).values()) == 0, "something is left after the flush")
    await stage.fill()
    await stage.claim_all()
    stage.tokens.clear()
    await stage.fill()
    with stage.measured("delete"):
        removed = await queue.delete()
    must(removed is not None and sum(removed.values()) == 2 * content.items, f"delete returned {removed}")
    must(not await queue.exists(), "something is left after the deletion")


async def measure(bed: Bed, content: Content) -> dict[str, list[float]]:
    """Milliseconds of each call by operation, in the order of the calls."""
    async with claimq.connect(bed.url) as store:
        stage = Stage(bed, store, store.queue(f"blocking-{content.name}", worker="worker-0"), content)
        stage.meter_calls()
        await stage.queue.set_policy(_POLICY)
        await stage.fill()
        for part in (_main_and_busy, _delayed, _failed, _ends):
            await part(stage)
            await asyncio.to_thread(bed.rewrite_log)  # which would have 40 GB in the end
    bed.empty()
    del stage.times[""]
    return stage.times


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """A table of each operation on each content, and the longest of each content as a figure."""
    contents, rounds = (QUICK, 2) if plan.is_quick else (FULL, 3)
    bed.control.config_set("appendonly", "no")  # gigabytes that need not be written
    to.heading(f"Longest call of an operation in ms, each call by the shortest of {rounds} rounds")
    for content in contents:
        runs = [await measure(bed, content) for _ in range(rounds)]
        to.heading(content.says)
        to.note(f"{'':<24}{'ms':>9}{'with chance':>15}")
        found = {operation: _longest([run[operation] for run in runs]) for operation in runs[0]}
        for operation, (ms, by_chance) in sorted(found.items(), key=lambda row: -row[1][0]):
            over = "  over the limit" if ms > LIMIT_MS else ""
            to.note(f"{operation:<24}{ms:>9.1f}{by_chance:>15.1f}{over}")
        worst, operation = max((ms, operation) for operation, (ms, _) in found.items())
        name = f"blocking_{content.name}_ms"
        to.add(Figure(name, f"longest: {operation}", worst, "ms", most=LIMIT_MS, limit=operation))


def _longest(rounds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The longest call by the shortest of its rounds, and the longest in any round."""
    calls = itertools.zip_longest(*rounds, fillvalue=math.inf)
    return max(min(call) for call in calls), max(max(one) for one in rounds)
