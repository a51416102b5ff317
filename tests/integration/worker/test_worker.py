"""The client for threads, against a real sidecar and a real store."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import claimq
import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.worker import EnqueuedItem, Item, Refused, SidecarUnavailable, Worker
from claimq.worker.wire import ANSWER_SECONDS
from testkit.queues.looking import is_empty
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Sidecar

pytestmark = pytest.mark.usefixtures("retries_at_once")


def test_a_full_queue_is_an_error_of_its_own_with_the_numbers(worker: Worker, queue: BlockingQueue) -> None:
    queue.update_policy(max_waiting_items=2)
    worker.enqueue("a")
    with pytest.raises(claimq.QueueFull, match="1 of at most 2 items wait, and this call adds 2") as caught:
        worker.enqueue_many(["b", "c"])
    error = caught.value
    assert (error.queue, error.waiting, error.limit, error.adding) == (queue.name, 1, 2, 2)
    assert (error.client, error.stored_count, queue.length()) == (None, 0, 1)


def test_each_verdict_has_its_effect(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    a, b, c, d = worker.claim(4, wait=0)
    assert a.fail("no").verdict == "requeued"
    assert b.fail(ValueError("broken"), permanent=True).verdict == "failed"
    assert (c.requeue(delay=60).delay, c.outcome and c.outcome.verdict) == (60.0, "delayed")
    assert d.renew().lease_until is not None
    assert d.unclaim().verdict == "unclaimed"
    assert queue.lengths() == {State.MAIN: 2, State.BUSY: 0, State.DELAYED: 1, State.FAILED: 1}
    assert [item.payload for item in queue.peek(2)] == [b"d", b"a"]
    assert queue.items(State.FAILED, 1)[0].item.last_error == "ValueError: broken"
    assert a.done().is_lost


def test_a_block_ends_in_done_or_fail(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue_many(["good", "bad", "own"])
    good, bad, own = worker.claim(3, wait=0)
    with good:
        pass
    with bad:
        raise ValueError("cannot")
    with own:
        own.requeue()
    assert good.outcome is not None
    assert good.outcome.verdict == "done"
    back = queue.peek(2)
    assert [(item.payload, item.last_error) for item in back] == [
        (b"bad", "ValueError: cannot"),
        (b"own", None),
    ]
    assert (back[0].error_detail or "").endswith("in test_a_block_ends_in_done_or_fail")


def test_types_and_errors_are_those_of_the_library(sidecar: Sidecar) -> None:
    shared = ("NewItem", "Outcome", "Enqueued", "PayloadError", "StoreUnavailable", "Verdict")
    assert all(getattr(claimq.worker, name) is getattr(claimq, name) for name in shared)
    with claimq.worker.connect(sidecar.socket) as worker, pytest.raises(claimq.ClaimqError):
        worker.claim(5000)
    with pytest.raises(claimq.ClaimqError):
        claimq.worker.connect("/nowhere", within=0)


def test_a_stop_ends_a_loop_of_another_thread_while_it_waits(worker: Worker, sidecar: Sidecar) -> None:
    got: list[Item] = []
    loop = threading.Thread(target=lambda: got.extend(worker.items(wait=300)))
    loop.start()
    eventually_sync(lambda: bool(worker.client._calls.stopping._waiting))
    worker.stop()
    loop.join(PATIENCE)
    assert not loop.is_alive()
    assert got == []


def test_an_interrupt_in_a_block_is_no_failure(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    (item,) = worker.claim(wait=0)
    with pytest.raises(KeyboardInterrupt), item:
        raise KeyboardInterrupt
    (back,) = queue.peek(1)
    assert (back.fail_count, back.crash_count, back.interrupted_count) == (0, 0, 1)


def test_enqueue_of_one_item_returns_what_the_library_returns(worker: Worker, queue: BlockingQueue) -> None:
    assert worker.enqueue([1], id="own", client="ann", delay=60) == EnqueuedItem("own", 0)
    assert worker.enqueue([1], id="own") == EnqueuedItem("own", 0, is_duplicate=True)
    made = worker.enqueue("a")
    assert (made.length, made.is_duplicate) == (1, False)
    assert [(item.id, item.payload, item.client) for item in queue.peek(9)] == [(made.id, b"a", None)]
    (own,) = queue.items(State.DELAYED)
    assert (own.item.id, own.item.payload, own.item.client) == ("own", b"[1]", "ann")


def test_a_refusal_says_what_is_wrong(worker: Worker) -> None:
    with pytest.raises(Refused, match="whole number from 1 to 1000") as caught:
        worker.claim(5000)
    assert (caught.value.status, caught.value.kind, caught.value.errors[0][0]) == (
        400,
        "invalid-field",
        "/max",
    )


def test_leaving_gives_back_uncounted_and_an_exception_counts(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    with claimq.worker.connect(sidecar.socket) as worker:
        worker.claim(wait=0)
    assert (queue.peek(1)[0].crash_count, queue.peek(1)[0].interrupted_count) == (0, 1)

    def work() -> None:
        with claimq.worker.connect(sidecar.socket) as worker:
            worker.claim(wait=0)
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        work()
    eventually_sync(lambda: queue.length(State.MAIN) == 1)
    assert queue.peek(1)[0].crash_count == 1


def test_a_verdict_waits_for_a_sidecar_that_restarts(
    sidecar: Sidecar, worker: Worker, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    (item,) = worker.claim(wait=0)
    sidecar.kill9()
    starting = threading.Timer(0.3, sidecar.start)
    starting.start()
    assert item.done().verdict == "done"
    starting.join()


def test_patience_has_an_end_and_no_call_gives_up_before_it(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    worker = claimq.worker.connect(sidecar.socket, patience=0.3)
    (item,) = worker.claim(wait=0)
    sidecar.kill9()
    for call in (item.done, lambda: item.fail("x"), lambda: worker.enqueue("b")):
        began = time.monotonic()
        with pytest.raises(SidecarUnavailable, match="no process answers on the socket"):
            call()
        assert time.monotonic() - began >= 0.3
    assert worker.in_flight == [item]
    worker.close()


@pytest.mark.parametrize("session", [True, False])
def test_a_loop_waits_for_the_sidecar_as_long_as_its_patience(session: bool, sidecar: Sidecar) -> None:
    worker = claimq.worker.connect(sidecar.socket, session=session, patience=0.5)
    sidecar.kill9()
    began = time.monotonic()
    with pytest.raises(SidecarUnavailable, match="no process answers on the socket"):
        next(worker.items(handle_signals=False))
    assert 0.5 <= time.monotonic() - began < ANSWER_SECONDS
    worker.close()


def test_signals_mean_what_they_meant_before_when_the_loop_is_over(
    worker: Worker, queue: BlockingQueue
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    queue.enqueue("a")
    for item in worker.items():
        with item:
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_threads_share_a_worker(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue_many([str(number) for number in range(400)])
    seen: list[str] = []

    def work() -> None:
        while items := worker.claim(7, wait=0):
            seen.extend(item.text for item in items)
            worker.done(items)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, seen)) == list(range(400))
    assert is_empty(queue)


def test_without_a_session_a_claim_has_a_plain_lease(
    sidecar: Sidecar, queue: BlockingQueue, hasty: Policy
) -> None:
    queue.enqueue("a")
    with claimq.worker.connect(sidecar.socket, session=False) as worker:
        (item,) = worker.claim(wait=0)

        def expired() -> bool:
            queue.reap()
            return queue.length(State.MAIN) == 1

        eventually_sync(expired)
        assert item.done().is_lost
        assert sidecar.info["sessions"] == 0


def test_a_child_of_a_fork_does_not_keep_the_session(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    program = """
import os, time, claimq.worker
worker = claimq.worker.connect()
worker.claim()
if os.fork():
    os.kill(os.getpid(), 9)
try:
    worker.claim()
except claimq.worker.SidecarUnavailable as error:
    print(error, flush=True)
time.sleep(60)
"""
    app = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "CLAIMQ_SOCKET": str(sidecar.socket)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert app.stdout is not None
        assert "connect again in the child process" in app.stdout.readline()
        eventually_sync(lambda: queue.length(State.MAIN) == 1, why="the parent's death ended the session")
    finally:
        os.killpg(app.pid, signal.SIGKILL)
        app.wait()
        if app.stdout is not None:
            app.stdout.close()
