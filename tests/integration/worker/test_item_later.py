"""item.later and claimq.Later, through a sidecar."""

import threading
from datetime import timedelta

import pytest

from claimq import Later
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.worker import Refused, Worker
from testkit.waiting import eventually_sync


def test_a_postponed_item_counts_no_attempt(worker: Worker, queue: BlockingQueue) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many(["a", "b", "c"])
    a, b, c = worker.claim(3, wait=0)
    assert (a.postponed_count, a.later(60).delay) == (0, 60.0)
    assert b.later(timedelta(minutes=2)).delay == 120.0
    with c:
        raise Later(0)
    assert c.outcome is not None
    assert c.outcome.verdict == "requeued"
    (again,) = worker.claim(wait=0)
    assert (again.text, again.postponed_count, again.requeue_count, again.fail_count) == ("c", 1, 0, 0)
    with pytest.raises(TypeError, match=r"^delay is None; give a number of seconds"):
        again.later(None)  # type: ignore[arg-type]  # what it refuses


@pytest.mark.usefixtures("every_loop_is_quick")
def test_what_the_worker_has_not_begun_goes_back_when_it_closes_the_queue(
    worker: Worker, queue: BlockingQueue
) -> None:
    queue.enqueue_many([f"{number}" for number in range(300)])
    begun = 0

    def stop_when_all_is_back() -> None:
        eventually_sync(lambda: queue.snapshot().paused and queue.length(State.BUSY) == 0)
        worker.stop()

    watch = threading.Thread(target=stop_when_all_is_back)
    watch.start()
    for item in worker.items(handle_signals=False):
        with item:
            begun += 1
            if begun == 50:
                raise Later(60, close="queue")
            if begun == 51:
                eventually_sync(lambda: queue.stats()["unclaimed"])
    watch.join()
    assert queue.length(State.MAIN) == 300 - begun


def test_an_unknown_unit_is_refused_by_the_sidecar(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    (item,) = worker.claim(wait=0)
    with pytest.raises(Refused, match=r"^/close: is not valid; give one of: queue, client, key"):
        item.later(60, close="world")
    item.done()
