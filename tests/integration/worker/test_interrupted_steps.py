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
from testkit.queues.looking import is_empty
from testkit.waiting import eventually, eventually_sync
from testkit.workers.step_gate import LOOPS, Crew, Gate, Tasks, numbers, pending

pytestmark = pytest.mark.usefixtures("every_loop_is_quick")


@pytest.fixture
def worker(gate: Gate) -> Iterator[Worker]:
    with claimq.worker.connect(gate.path) as made:
        yield made


def run_natural_loop(worker: Worker) -> None:
    for item in worker.items(handle_signals=False):
        with item:
            pass


def test_an_interrupt_of_a_thread_that_waits_for_its_verdict_stops_no_other(
    worker: Worker, gate: Gate, queue: BlockingQueue
) -> None:
    numbers(queue, 40)
    crew = Crew(worker)
    crew.start(1)
    eventually_sync(lambda: len(gate.seen) == 1)
    main = threading.get_ident()

    def interrupt() -> None:
        eventually_sync(lambda: pending(worker) == 2)  # the main thread's too
        crew.start(LOOPS - 2)
        eventually_sync(lambda: pending(worker) == LOOPS)
        signal.pthread_kill(main, signal.SIGINT)
        gate.open()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_natural_loop(worker)
    thread.join()
    eventually_sync(lambda: is_empty(queue))
    crew.end(worker)
    assert worker.in_flight == []
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
            crew.by_token[gate.seen[1]["done"][place]["token"]].cancel()
            gate.open()
            await eventually(lambda: is_empty(queue))
            await crew.end()
            assert worker.in_flight == []
            return crew.seen

    assert sorted(asyncio.run(main())) == list(range(20))
