"""The loop that operator and local mode share, over a platform without workers, on a real server."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

import claimq
from claimq.errors import ClaimqError
from claimq.model import Reason, ServerReport, State, WorkerInfo
from claimq_control.decide.observed import DeclaredQueue, Observed
from claimq_control.decide.plan import Plan
from claimq_control.fault import Fault, described
from claimq_control.manifest import FailedItemsSpec, QueueSpec
from claimq_control.passes.queue_loop import QueueLoop
from claimq_control.passes.worker_platform import Maintained, ServerAccessError
from claimq_control.workers import Termination, WorkersState
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

QUEUE = DeclaredQueue(spec=QueueSpec(queue_name="q"), generation=1)
ENDED = Termination("c1", "w", is_sidecar=False, cause="it was killed", is_last=True)


class Recorder:
    """A platform that records what the loop asks of it."""

    retry_after = 0.0

    def __init__(self, queue: claimq.ReliableQueue) -> None:
        self.queue = queue
        self.opened = 0
        self.hangs = False
        self.accepts = True
        self.ends: tuple[Termination, ...] = ()
        self.handled: list[Termination] = []
        self.passes: list[tuple[Observed, Plan, Maintained | None]] = []

    async def open(self) -> claimq.ReliableQueue:
        self.opened += 1
        if self.hangs:
            await asyncio.Event().wait()
        return self.queue

    async def server_report(self, now: float) -> ServerReport | None:
        return None

    def fault(self, error: ClaimqError | TimeoutError | ServerAccessError) -> Fault:
        return error.fault if isinstance(error, ServerAccessError) else described(error)

    def large_read(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def has_workers(self) -> bool:
        return True

    def ended(self) -> tuple[Termination, ...]:
        return self.ends

    def mark_handled(self, ended: Iterable[Termination]) -> None:
        self.handled += ended

    def workers(self, claims: Iterable[WorkerInfo]) -> WorkersState:
        return WorkersState(ordered=0)

    async def order(self, observed: Observed, planned: Plan) -> bool:
        return self.accepts

    async def report(self, observed: Observed, planned: Plan, maintained: Maintained | None) -> None:
        self.passes.append((observed, planned, maintained))


@pytest.fixture
async def platform(valkey: Server) -> AsyncGenerator[Recorder]:
    async with open_queue(valkey.url, worker="w") as queue:
        yield Recorder(queue)


def loop_over(platform: Recorder, timeout: float = 30.0) -> QueueLoop:
    periods = {"busy_period": 1.0, "idle_period": 7.0}
    return QueueLoop(platform, time.monotonic, lambda: 0.0, timeout=timeout, **periods)


async def test_a_number_that_was_not_accepted_is_not_reported_and_planned_again(platform: Recorder) -> None:
    await platform.queue.enqueue("a")
    loop, platform.accepts = loop_over(platform), False
    assert await loop.run(QUEUE) == 1.0
    platform.accepts = True
    await loop.run(QUEUE)
    assert [planned.replicas for _, planned, _ in platform.passes] == [None, 1]
    assert not loop.waits_for_work, "there is an item"


async def test_without_items_and_workers_a_pass_waits_for_work(platform: Recorder) -> None:
    loop = loop_over(platform)
    assert await loop.run(QUEUE) == 7.0
    assert loop.waits_for_work


async def test_a_quiet_queue_has_few_passes_while_the_platform_watches_it(platform: Recorder) -> None:
    loop = QueueLoop(
        platform, time.monotonic, lambda: 0.0, busy_period=1.0, idle_period=7.0, quiet_period=42.0
    )
    assert (await loop.run(QUEUE), loop.is_quiet) == (42.0, True)
    await platform.queue.enqueue("later", delay=40)
    assert 7.0 < await loop.run(QUEUE) <= 40.0
    await platform.queue.pause(until=timedelta(hours=1))
    assert (await loop.run(QUEUE), loop.is_quiet) == (7.0, False), "the pause ends by itself"
    await platform.queue.resume()
    await platform.queue.enqueue("failed")
    await platform.queue.fail(await platform.queue.claim(wait=0), "broken", permanent=True)
    assert 7.0 < await loop.run(QUEUE) <= 40.0
    removed = replace(QUEUE, spec=QueueSpec(queue_name="q", failed_items=FailedItemsSpec(max_items=10)))
    assert (await loop.run(removed), loop.is_quiet) == (7.0, False), "failed items have a policy"
    assert loop.waits_for_work


async def test_a_server_that_hangs_is_left_alone_until_the_queue_changes(platform: Recorder) -> None:
    loop, platform.hangs = loop_over(platform, timeout=0.1), True
    pauses = [await loop.run(QUEUE) for _ in range(2)]
    assert (platform.opened, loop.is_failing, min(pauses) >= 1.0) == (1, True, True)
    faults = [observed.redis_fault for observed, _, _ in platform.passes]
    assert {fault.message for fault in faults if fault} == {"the server has not responded within 0.1 s"}
    platform.hangs = False
    loop._server._timeout = PATIENCE
    await loop.run(replace(QUEUE, generation=2))
    assert (platform.opened, loop.is_failing) == (2, False)


async def test_an_end_is_handled_by_a_pass_that_reaches_the_server(platform: Recorder) -> None:
    await platform.queue.enqueue("a")
    await platform.queue.claim(1, wait=0)
    loop, platform.ends, platform.hangs = loop_over(platform, timeout=0.1), (ENDED,), True
    await loop.run(QUEUE)
    assert platform.handled == []
    platform.hangs = False
    loop = loop_over(platform)
    await loop.run(QUEUE)
    assert platform.handled == [ENDED]
    maintained = platform.passes[-1][2]
    assert maintained is not None
    assert [(claims.termination.reason, claims.count) for claims in maintained.released] == [
        (Reason.CRASHED, 1)
    ]
    assert maintained.snapshot.lengths[State.MAIN] == 1


async def test_an_invalid_spec_opens_no_server(platform: Recorder) -> None:
    await loop_over(platform).run(replace(QUEUE, spec=None))
    ((observed, planned, _),) = platform.passes
    assert (platform.opened, observed.redis_fault, planned.applies) == (0, None, False)


async def test_a_refused_order_delays_the_next_pass(platform: Recorder) -> None:
    platform.retry_after = 5.0
    assert await loop_over(platform).run(QUEUE) == 5.0
