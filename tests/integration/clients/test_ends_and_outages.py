"""What every client of the sidecar's socket does when a program, sidecar or connection ends, in each language."""

import signal
import threading
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import NewItem, State
from claimq.policy import Policy
from testkit.faults.waiting_pipe import Pipe
from testkit.queues.looking import is_empty
from testkit.queues.retries import retrying_at_once
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.client_drivers import Start, begin, does, waiting
from testkit.workers.sidecars import Sidecar, StartSidecar, is_renewed
from testkit.workers.step_gate import Gate

pytestmark = pytest.mark.usefixtures("retries_at_once")


# Limits and leases.
def test_as_many_items_are_in_progress_as_the_concurrency_allows(
    start: Start, valkey: Server, queue: BlockingQueue, tmp_path: Path, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="3")
    pipes = [Pipe(tmp_path / str(number)) for number in range(3)]
    queue.enqueue_many([NewItem(str(pipe.path), headers={"pipe": str(pipe.path)}) for pipe in pipes])
    queue.enqueue_many(["the fourth"])
    program = start(socket=sidecar.socket)
    for pipe in pipes:
        eventually_sync(pipe.is_read)
    assert queue.lengths() == {State.MAIN: 1, State.BUSY: 3, State.DELAYED: 0, State.FAILED: 0}
    assert len(program.payloads) == 3
    pipes[1].close()
    program.until("begin", 4)
    for pipe in (pipes[0], pipes[2]):
        pipe.close()
    eventually_sync(lambda: is_empty(queue))


def test_a_lease_is_renewed_while_the_program_works(start: Start, queue: BlockingQueue, pipe: Pipe) -> None:
    queue.set_policy(retrying_at_once(busy_expiry=9.0))
    program = begin(start, queue, pipe, "renew", window=1)
    (busy,) = queue.items(State.BUSY)
    eventually_sync(lambda: is_renewed(queue, str(busy.name), busy.lease_until))
    pipe.close()
    (event,) = program.until("verdict")
    assert (event["is"], event["lease"]) == ("renewed", True)
    eventually_sync(lambda: is_empty(queue))


# Ends.
def test_a_killed_program_counts_for_the_item_in_progress(
    start: Start, queue: BlockingQueue, pipe: Pipe
) -> None:
    begin(start, queue, pipe, window=1).process.kill9()
    (item,) = eventually_sync(lambda: queue.peek(2))
    assert item.crash_count == 1
    pipe.close()
    program = start(window=1)
    eventually_sync(pipe.is_read)
    pipe.close()
    eventually_sync(lambda: is_empty(queue))
    assert program.all_of("begin")[0]["crashes"] == 1


def test_an_item_that_ends_every_program_ends_in_failed(start: Start, queue: BlockingQueue) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=1))
    queue.enqueue_many([does("exit")])
    for _ in range(2):
        assert start(window=1).process.wait() == 3
    eventually_sync(lambda: queue.lengths()[State.FAILED] == 1)


def test_a_program_that_leaves_its_loop_by_an_error_counts_what_it_began(
    start: Start, queue: BlockingQueue
) -> None:
    queue.enqueue_many([does("leave"), "second"])
    program = start(window=1)
    assert program.process.wait() == 1
    assert program.all_of("error")[0]["message"] == "the program ends"
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    crashes = {item.id == "leave": item.crash_count for item in queue.peek(2)}
    assert crashes == {True: 1, False: 0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_loop_that_waits(start: Start, queue: BlockingQueue, number: signal.Signals) -> None:
    queue.enqueue_many(["first"])
    program = start(window=1)
    eventually_sync(lambda: is_empty(queue))
    program.process.send(number)
    assert program.process.wait() == 0
    assert program.all_of("over")


def test_sigterm_ends_the_item_in_progress_and_returns_the_rest(
    start: Start, queue: BlockingQueue, pipe: Pipe
) -> None:
    program = begin(start, queue, pipe, window=1)
    program.process.send(signal.SIGTERM)
    eventually_sync(lambda: not program.process.handles(signal.SIGTERM) or program.process.is_idle())
    queue.enqueue_many(["not begun"])
    pipe.close()
    assert program.process.wait() == 0
    assert program.payloads == [b"waits"]
    eventually_sync(lambda: [(one.payload, one.crash_count) for one in queue.peek(2)] == [(b"not begun", 0)])
    assert queue.stats()["done"] == 1


def test_a_second_sigterm_ends_the_program_at_once(start: Start, queue: BlockingQueue, pipe: Pipe) -> None:
    program = begin(start, queue, pipe, window=1)
    program.process.send(signal.SIGTERM)
    eventually_sync(program.process.is_idle)
    program.process.send(signal.SIGTERM)
    assert program.process.wait() == -signal.SIGTERM
    eventually_sync(lambda: queue.length(State.MAIN) == 1)
    pipe.close()


def test_a_drain_ends_the_loop_after_the_item_in_progress(
    start: Start, queue: BlockingQueue, sidecar: Sidecar, pipe: Pipe
) -> None:
    program = begin(start, queue, pipe, window=1)
    queue.enqueue_many(["second"])
    assert sidecar.begin_drain() >= 1
    pipe.close()
    assert program.process.wait() == 0
    assert program.until("over")[0]["over"] is True
    assert sidecar.running.wait() == 0
    assert [(item.payload, item.crash_count) for item in queue.peek(3)] == [(b"second", 0)]


def test_a_drain_ends_a_loop_that_waits(start: Start, sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["first"])
    program = start(window=1)
    eventually_sync(lambda: is_empty(queue))
    sidecar.begin_drain()
    assert program.process.wait() == 0
    assert sidecar.running.wait() == 0


def test_what_was_delivered_and_not_begun_goes_back_at_once(
    start: Start, queue: BlockingQueue, pipe: Pipe
) -> None:
    queue.enqueue_many([waiting(pipe), "b", "c"])
    program = start(window=3, sequential=True)
    eventually_sync(pipe.is_read)
    program.process.send(signal.SIGTERM)
    there = [(b"b", 0), (b"c", 0)]
    eventually_sync(lambda: [(one.payload, one.crash_count) for one in queue.peek(3)] == there)
    pipe.close()
    assert program.process.wait() == 0
    assert program.payloads == [b"waits"]
    assert queue.stats()["done"] == 1


# Replies and connections that are lost.
def test_a_verdict_whose_reply_is_lost_has_its_effect_once(
    start: Start, queue: BlockingQueue, gate: Gate, pipe: Pipe
) -> None:
    program = begin(start, queue, pipe, "follow", socket=gate.path, window=1)
    gate.loses_reply = True
    pipe.close()
    (event,) = program.until("verdict")
    assert (event["is"], gate.loses_reply) == ("done", False)
    program.until("begin", 2)
    assert program.payloads == [b"waits", b"next"]
    assert queue.length(State.DELAYED) == 1


def test_an_item_whose_session_breaks_is_lost_and_comes_again(
    start: Start, queue: BlockingQueue, gate: Gate, pipe: Pipe
) -> None:
    program = begin(start, queue, pipe, "done", socket=gate.path, window=1)
    queue.pause()
    gate.cut()
    eventually_sync(lambda: "item waits was lost" in program.text)
    pipe.close()
    (event,) = program.until("verdict")
    assert event["is"] == "lost"
    queue.resume()
    eventually_sync(pipe.is_read)
    pipe.close()
    eventually_sync(lambda: is_empty(queue))
    assert program.all_of("begin")[1]["crashes"] == 1


# A sidecar that is away.
def test_a_missing_socket_is_named_with_what_to_set(start: Start, tmp_path: Path) -> None:
    program = start(socket=tmp_path / "nowhere", within=0.2, patience=3600)
    assert program.process.wait() == 1
    (event,) = program.all_of("error")
    assert event["error"] == "SidecarUnavailable"
    advice = f"there is no socket at {tmp_path}/nowhere; start the sidecar, as `claimq up` does, or set CLAIMQ_SOCKET"
    assert advice in event["message"]


def test_a_program_that_was_started_by_hand_fails_at_once_and_says_how_to_start_it(start: Start) -> None:
    assert not Path("/run/claimq").exists(), "a sidecar of this machine uses the default directory"
    program = start(socket="", within=3600)
    assert program.process.wait() == 1
    (event,) = program.all_of("error")
    assert event["error"] == "SidecarUnavailable"
    assert event["message"].startswith("$CLAIMQ_SOCKET is not set, and there is no directory /run/claimq")
    assert event["message"].endswith("`claimq up` starts both from queue.yaml")


def test_a_client_waits_for_a_sidecar_that_starts_later(
    start: Start, valkey: Server, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["first"])
    sidecar = Sidecar(valkey.url)
    starting = threading.Timer(0.5, sidecar.start)
    starting.start()
    start(socket=sidecar.socket, within=PATIENCE)
    eventually_sync(lambda: is_empty(queue))
    starting.join()
    sidecar.close()


def test_a_sidecar_that_dies_and_comes_back_keeps_the_item_in_progress(
    start: Start, queue: BlockingQueue, sidecar: Sidecar, pipe: Pipe, brief: Policy
) -> None:
    program = begin(start, queue, pipe, window=1)
    (busy,) = queue.items(State.BUSY)
    sidecar.kill9()
    sidecar.start()
    eventually_sync(lambda: sidecar.info["in_flight"] == 1, why="the new session took it over")
    eventually_sync(lambda: is_renewed(queue, str(busy.name), busy.lease_until))
    queue.enqueue_many(["second"])
    pipe.close()
    eventually_sync(lambda: is_empty(queue))
    assert program.payloads == [b"waits", b"second"]
    assert queue.stats()["done"] == 2


def test_a_verdict_waits_for_a_sidecar_that_restarts(
    start: Start, queue: BlockingQueue, sidecar: Sidecar, pipe: Pipe
) -> None:
    program = begin(start, queue, pipe, "done", window=1)
    sidecar.kill9()
    pipe.close()
    eventually_sync(program.process.is_idle)
    sidecar.start()
    (event,) = program.until("verdict")
    assert event["is"] == "done"


def test_an_item_lost_while_the_sidecar_was_away_has_that_outcome(
    start: Start, queue: BlockingQueue, sidecar: Sidecar, pipe: Pipe, hasty: Policy
) -> None:
    program = begin(start, queue, pipe, "done", window=1)
    sidecar.kill9()

    def expired() -> bool:
        queue.reap()
        return queue.length(State.MAIN) == 1

    eventually_sync(expired)
    queue.pause()
    sidecar.start()
    eventually_sync(lambda: "item waits was lost" in program.text)
    pipe.close()
    (event,) = program.until("verdict")
    assert event["is"] == "lost"
    assert queue.length(State.MAIN) == 1


def test_patience_has_an_end(start: Start, queue: BlockingQueue, sidecar: Sidecar, pipe: Pipe) -> None:
    program = begin(start, queue, pipe, window=1, patience=0.5)
    sidecar.kill9()
    pipe.close()
    assert program.process.wait() == 1
    (event,) = program.all_of("error")
    assert event["error"] == "SidecarUnavailable"
    assert "no process answers on the socket" in event["message"]
