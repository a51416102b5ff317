"""An interrupt or a cancellation in a request that several loops share stops no other loop."""

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import Verdict
from claimq.worker import Worker
from testkit.step_gate import LOOPS, Crew, Gate, Tasks, numbers, waiting
from testkit.waiting import eventually, eventually_sync

pytestmark = pytest.mark.usefixtures("every_loop_is_quick")


@pytest.fixture
def worker(gate: Gate) -> Iterator[Worker]:
    with claimq.worker.connect(gate.path) as made:
        yield made


def run_natural_loop(worker: Worker) -> None:
    for item in worker.items(handle_signals=False):
        with item:
            pass


def test_an_interrupt_of_the_thread_that_sends_stops_no_other(
    worker: Worker, gate: Gate, queue: BlockingQueue
) -> None:
    numbers(queue, 40)
    crew = Crew(worker)
    crew.start(1)
    eventually_sync(lambda: len(gate.seen) == 1)
    main = threading.get_ident()

    def interrupt() -> None:
        eventually_sync(lambda: waiting(worker) == 1)  # the main thread, which sends the next request
        crew.start(LOOPS - 2)
        eventually_sync(lambda: waiting(worker) == LOOPS - 1)
        gate.permit()
        gate.shared()
        signal.pthread_kill(main, signal.SIGINT)
        eventually_sync(lambda: len(gate.seen) == 3)
        gate.open()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_natural_loop(worker)
    thread.join()
    eventually_sync(lambda: sum(queue.lengths().values()) == 1)  # the item of the main thread
    crew.end(worker)
    assert [item.token for item in worker.in_hand] == [gate.seen[1]["done"][0]["token"]]
    first, second = gate.seen[1]["done"], gate.seen[2]["done"]
    assert second[: len(first) - 1] == first[1:]
    assert crew.outcomes() == {Verdict.DONE}


@pytest.mark.parametrize("place", [0, 1])
def test_a_task_that_is_cancelled_in_a_shared_request_leaves_the_others_alone(
    gate: Gate, queue: BlockingQueue, place: int
) -> None:
    numbers(queue, 20)

    async def main() -> list[int]:
        async with claimq.worker.connect_async(gate.path) as worker:
            crew = Tasks(worker)
            await crew.share(gate)
            gate.permit()
            await eventually(lambda: len(gate.seen) == 2)
            await crew.cancel(gate.seen[1]["done"][place]["token"])
            gate.open()
            await eventually(lambda: sum(queue.lengths().values()) == 0)
            await crew.end()
            assert worker.in_hand == []
            return crew.seen

    assert sorted(asyncio.run(main())) == list(range(20))


@pytest.mark.parametrize("turns", range(4))
def test_a_task_that_is_cancelled_at_its_turn_to_send_leaves_the_turn_to_the_next(
    gate: Gate, queue: BlockingQueue, turns: int
) -> None:
    numbers(queue, 20)

    async def main() -> list[int]:
        async with claimq.worker.connect_async(gate.path) as worker:
            crew = Tasks(worker)
            await crew.share(gate)
            first = worker._steps._waiting[0]
            gate.permit()
            while worker._steps._leader is not first:  # noqa: ASYNC110 - one turn of the event loop matters here
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await crew.cancel(first.token)
            gate.open()
            await eventually(lambda: sum(queue.lengths().values()) <= 1)
            await crew.end()
            return crew.seen

    assert sorted(asyncio.run(main())) == list(range(20))
    assert sum(queue.lengths().values()) <= 1
    assert {(item.crash_count, item.fail_count) for item in queue.peek(2)} <= {(0, 0)}


def test_a_step_that_is_cancelled_before_it_is_sent_is_not_sent(gate: Gate, queue: BlockingQueue) -> None:
    numbers(queue, 20)

    async def main() -> list[int]:
        async with claimq.worker.connect_async(gate.path) as worker:
            crew = Tasks(worker)
            await crew.share(gate)
            own = worker._steps._waiting[0].token
            await crew.cancel(own)
            gate.open()
            await eventually(lambda: sum(queue.lengths().values()) == 1)
            await eventually(lambda: [item.token for item in worker.in_hand] == [own])
            await crew.end()
            return crew.seen

    assert sorted(asyncio.run(main())) == list(range(20))
    assert [(item.crash_count, item.fail_count) for item in queue.peek(2)] == [(0, 0)]
