"""Quick loops of one worker share requests: verdicts that come while one is in flight are in the next one."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State, Verdict
from claimq.worker import Item, Worker
from testkit.programs.processes import Process
from testkit.queues.looking import is_empty
from testkit.waiting import eventually, eventually_sync
from testkit.workers.sidecars import Sidecar
from testkit.workers.step_gate import LOOPS, Crew, Gate, Tasks, body_of, numbers

pytestmark = pytest.mark.usefixtures("every_loop_is_quick", "retries_at_once")


@pytest.fixture
def worker(gate: Gate) -> Iterator[Worker]:
    with claimq.worker.connect(gate.path) as made:
        yield made


@pytest.fixture
def sharing(worker: Worker, gate: Gate, queue: BlockingQueue) -> Crew:
    """Four loops over 40 items: the verdict of one is at the gate, and three wait to share the next request."""
    numbers(queue, 40)
    crew = Crew(worker)
    crew.share(gate)
    return crew


def all_are_done(crew: Crew, worker: Worker, queue: BlockingQueue) -> None:
    eventually_sync(lambda: is_empty(queue))
    crew.end(worker)
    assert crew.texts() == list(range(40))
    assert crew.outcomes() == {Verdict.DONE}
    assert worker.in_flight == []


def test_verdicts_that_come_while_a_request_is_in_flight_share_the_next(
    sharing: Crew, worker: Worker, gate: Gate, queue: BlockingQueue
) -> None:
    assert [len(body["done"]) for body in gate.seen] == [1]
    gate.permit()
    shared = gate.shared()
    assert len(shared["done"]) >= LOOPS - 1
    assert shared["max"] == LOOPS
    gate.open()
    all_are_done(sharing, worker, queue)


def test_tasks_of_an_event_loop_share_requests_too(gate: Gate, queue: BlockingQueue) -> None:
    numbers(queue, 40)

    async def main() -> list[int]:
        async with claimq.worker.connect_async(gate.path) as worker:
            crew = Tasks(worker)
            await crew.share(gate)
            gate.open()
            await eventually(lambda: is_empty(queue))
            await crew.end()
            return crew.seen

    assert sorted(asyncio.run(main())) == list(range(40))
    assert len(gate.seen[0]["done"]) == 1
    assert len(gate.seen[1]["done"]) >= LOOPS - 1


def test_only_the_caller_of_a_lost_item_gets_that_outcome(
    sharing: Crew, worker: Worker, gate: Gate, queue: BlockingQueue
) -> None:
    gate.permit()
    token = gate.shared()["done"][1]["token"]
    queue.done(token)
    gate.open()
    eventually_sync(lambda: is_empty(queue))
    sharing.end(worker)
    outcomes = {item.token: item.outcome.verdict for item in sharing.items if item.outcome}
    assert outcomes.pop(token) is Verdict.LOST
    assert set(outcomes.values()) == {Verdict.DONE}
    assert sharing.texts() == list(range(40))


def test_each_verdict_of_a_refused_request_gets_one_of_its_own(
    sharing: Crew, worker: Worker, gate: Gate, queue: BlockingQueue
) -> None:
    def refused_if_shared(raw: bytes) -> bytes:
        is_shared = raw.startswith(b"POST /v1/next ") and len(body_of(raw)["done"]) > 1
        return raw.replace(b"/v1/next ", b"/v1/nope ") if is_shared else raw

    gate.change = refused_if_shared
    gate.open()
    all_are_done(sharing, worker, queue)


def test_a_failure_shares_a_request_with_the_others(worker: Worker, gate: Gate, queue: BlockingQueue) -> None:
    numbers(queue, 40)

    def work(item: Item) -> None:
        if item.text == "6" and not item.fail_count:
            raise ValueError("broken")

    crew = Crew(worker, work)
    crew.share(gate)
    gate.open()
    eventually_sync(lambda: is_empty(queue))
    crew.end(worker)
    assert crew.texts() == sorted([*range(40), 6])
    assert [item.fail_count for item in crew.items if item.text == "6"] == [0, 1]
    assert crew.outcomes() == {Verdict.DONE, Verdict.REQUEUED}


def test_a_slow_item_holds_up_no_other(worker: Worker, gate: Gate, queue: BlockingQueue) -> None:
    numbers(queue, 40)
    gate.open()
    release = threading.Event()

    def work(item: Item) -> None:
        if item.text == "9":
            release.wait()

    crew = Crew(worker, work)
    crew.start(LOOPS)
    eventually_sync(
        lambda: queue.lengths() == {State.MAIN: 0, State.BUSY: 1, State.DELAYED: 0, State.FAILED: 0}
    )
    release.set()
    all_are_done(crew, worker, queue)


def test_a_reply_that_is_lost_on_the_way_is_made_up_for(
    sharing: Crew, worker: Worker, gate: Gate, queue: BlockingQueue
) -> None:
    gate.permit()
    gate.shared()
    gate.loses_reply = True
    gate.open()
    all_are_done(sharing, worker, queue)
    assert {item.crash_count for item in sharing.items} == {0}


def test_a_sidecar_that_is_killed_in_a_shared_request(
    sharing: Crew, worker: Worker, gate: Gate, queue: BlockingQueue, sidecar: Sidecar
) -> None:
    gate.permit()
    gate.shared()
    sidecar.kill9()
    sidecar.start()
    gate.open()
    all_are_done(sharing, worker, queue)


def test_a_drain_in_a_shared_request_records_its_verdicts_and_claims_nothing(
    sharing: Crew, worker: Worker, gate: Gate, queue: BlockingQueue, sidecar: Sidecar
) -> None:
    gate.permit()
    gate.shared()
    draining = threading.Thread(target=sidecar.drain)
    draining.start()
    eventually_sync(lambda: sidecar.info["draining"] and worker.draining)
    gate.open()
    draining.join()
    sharing.end(worker)
    assert sharing.outcomes() == {Verdict.DONE}
    assert (sidecar.info["in_flight"], worker.in_flight) == (0, [])
    assert queue.lengths()[State.MAIN] == 40 - len(sharing.items)
    assert {item.crash_count for item in queue.peek(40)} == {0}


def test_loops_that_wait_claim_with_one_request(worker: Worker, gate: Gate, queue: BlockingQueue) -> None:
    claims, items, release = list[int](), list[Item](), threading.Event()

    def note(raw: bytes) -> bytes:
        if raw.startswith(b"POST /v1/claim "):
            claims.append(body_of(raw)["max"])
        return raw

    def loop() -> None:
        for item in worker.items(handle_signals=False, wait=30):
            items.append(item)
            release.wait()
            item.done()

    gate.change = note
    with ThreadPoolExecutor(LOOPS) as threads:
        try:
            running = [threads.submit(loop)]
            eventually_sync(lambda: len(claims) == 1)
            running += [threads.submit(loop) for _ in range(LOOPS - 1)]
            eventually_sync(lambda: len(worker.client._loops._shared._line) == LOOPS)
            queue.enqueue("0")
            eventually_sync(lambda: len(claims) == 2)
            queue.enqueue_many(["1", "2", "3"])
            eventually_sync(lambda: len(items) == LOOPS)
        finally:
            worker.stop()
            release.set()
    assert [loop.result() for loop in running] == [None] * LOOPS
    assert (sorted(item.text for item in items), claims) == (["0", "1", "2", "3"], [1, LOOPS - 1])
    assert (worker.in_flight, queue.stats()["done"]) == ([], LOOPS)


APP = """
import claimq.worker, claimq.worker.loops.loop, threading
claimq.worker.loops.loop._QUICK_SECONDS = 1e9
with claimq.worker.connect() as worker:
    def run():
        for item in worker.items(handle_signals=False):
            with item:
                pass
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_an_app_that_is_killed_in_a_shared_request_loses_nothing(
    gate: Gate, queue: BlockingQueue, tmp_path: Path
) -> None:
    numbers(queue, 20)
    app = Process([sys.executable, "-c", APP], log=tmp_path / "log", env={"CLAIMQ_SOCKET": str(gate.path)})
    gate.permit()
    gate.shared()
    app.kill9()
    eventually_sync(lambda: queue.lengths()[State.BUSY] == 0)
    held = len(gate.seen[0]["done"]) + len(gate.seen[1]["done"])
    crashed = [item for item in queue.peek(20) if item.crash_count]
    assert 0 < len(crashed) <= held + LOOPS
    gate.open()
