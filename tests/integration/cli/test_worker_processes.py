"""`claimq worker`: timeouts, stops and kills; no process that its programs have started is left."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq_local.processes import process_table
from testkit.programs.forked import ForkedProcess
from testkit.programs.processes import children
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

TREE = """
trap '{trap}' TERM
sleep 1000 & echo $! > "$CLAIMQ_ITEM_ID.child"
echo $$ > "$CLAIMQ_ITEM_ID.pid"
echo started
wait; wait
"""
"""A program with a child. It notes both process ids in the directory of the test."""


class Worker:
    """A `claimq worker` of a test, in the test's directory."""

    def __init__(self, url: str, folder: Path, options: tuple[str, ...], command: tuple[str, ...]) -> None:
        self.folder = folder
        self.log = folder / "worker.log"
        words = ["worker", "q", "--redis", url, *options, "--", *command]
        self.process = ForkedProcess("claimq_cli", *words, log=self.log, cwd=folder)

    def pid(self, name: str) -> int:
        """The process id in a file, once it is there."""
        return eventually_sync(lambda: self._pid(name), why=f"a process id in {name}")

    def _pid(self, name: str) -> int:
        file = self.folder / name
        return int(file.read_text() or 0) if file.exists() else 0

    def wait(self) -> tuple[int, str]:
        """Waits for its end; its exit code and output."""
        return self.process.wait(), self.log.read_text()


StartWorker = Callable[..., Worker]


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    with open_blocking_queue(valkey.url) as queue:
        queue.set_policy(Policy(requeue_limit=0, busy_expiry=20.0))
        yield queue


@pytest.fixture
def start_worker(valkey: Server, tmp_path: Path) -> Iterator[StartWorker]:
    started: list[Worker] = []

    def start(*command: str, options: tuple[str, ...] = ()) -> Worker:
        started.append(Worker(valkey.url, tmp_path, options, command))
        return started[-1]

    yield start
    for one in started:
        one.process.kill9()


def is_gone(*pids: int) -> bool:
    return all(process_table.identify(pid) is None for pid in pids)


def tree(trap: str = "exit 0") -> tuple[str, ...]:
    return "sh", "-c", TREE.format(trap=trap)


def test_a_timeout_ends_the_program_and_its_children(queue: BlockingQueue, start_worker: StartWorker) -> None:
    queue.enqueue("x", id="x")
    worker = start_worker(*tree("echo asked"), options=("--timeout", "15s", "--kill-after", "2m"))
    (failed,) = eventually_sync(queue.failed_items)
    assert is_gone(worker.pid("x.pid"), worker.pid("x.child"))
    assert worker.process.is_running
    assert (failed.item.last_error, failed.item.fail_count) == ("ran longer than --timeout 15s", 1)
    assert failed.item.error_detail == "started\nasked\n"
    eventually_sync(
        lambda: "1 of q failed: x (attempt 1): ran longer than --timeout 15s" in worker.log.read_text()
    )


def test_a_program_that_ignores_sigterm_is_killed(queue: BlockingQueue, start_worker: StartWorker) -> None:
    queue.enqueue("x", id="x")
    script = "trap '' TERM; sleep 1000 & echo $! > x.child; echo $$ > x.pid; wait"
    worker = start_worker("sh", "-c", script, options=("--timeout", "15s", "--kill-after", "200ms"))
    eventually_sync(lambda: queue.length(State.FAILED) == 1)
    assert is_gone(worker.pid("x.pid"), worker.pid("x.child"))
    assert worker.process.is_running


def test_children_of_a_program_that_has_ended_are_killed(
    queue: BlockingQueue, start_worker: StartWorker
) -> None:
    queue.enqueue("x", id="x")
    worker = start_worker("sh", "-c", "sleep 1000 & echo $! > x.child")
    eventually_sync(lambda: queue.stats()["done"] == 1)
    assert is_gone(worker.pid("x.child"))
    assert worker.process.is_running


def test_a_child_that_left_its_group_does_not_keep_the_item(
    queue: BlockingQueue, start_worker: StartWorker
) -> None:
    queue.enqueue("x", id="x")
    worker = start_worker("sh", "-c", "setsid sleep 1000 & echo $! > x.child")
    child = worker.pid("x.child")
    eventually_sync(lambda: queue.snapshot().counters["done"] == 1)
    worker.process.send(signal.SIGTERM)
    worker.wait()
    assert is_gone(child), "it is killed when the worker ends"


def test_concurrency_runs_so_many_programs_at_a_time(queue: BlockingQueue, start_worker: StartWorker) -> None:
    queue.enqueue_many([str(number) for number in range(5)])
    script = 'echo $$ > "$CLAIMQ_ITEM_ID.pid"; while [ ! -e go ]; do sleep 0.05; done'
    worker = start_worker("sh", "-c", script, options=("--concurrency", "3", "--until-empty"))
    eventually_sync(lambda: len(list(worker.folder.glob("*.pid"))) == 3)
    assert (queue.length(State.BUSY), queue.length()) == (3, 2)
    (worker.folder / "go").touch()
    assert "5 items done" in worker.wait()[1]


def test_leases_are_renewed_while_a_program_runs(queue: BlockingQueue, start_worker: StartWorker) -> None:
    queue.enqueue("x", id="x")
    start_worker(*tree())
    eventually_sync(lambda: queue.length(State.BUSY) == 1)
    first = queue.find("x")
    assert first is not None
    end = first.lease_until or 0.0
    eventually_sync(lambda: queue.snapshot().now > end + 1)
    assert queue.reap().expired == ()
    assert queue.length(State.BUSY) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_waits_for_running_programs_and_claims_no_more(
    queue: BlockingQueue, start_worker: StartWorker, number: signal.Signals
) -> None:
    queue.enqueue("x", id="x")
    queue.enqueue("y", id="y")
    script = 'echo $$ > "$CLAIMQ_ITEM_ID.pid"; while [ ! -e go ]; do sleep 0.05; done; echo its end'
    worker = start_worker("sh", "-c", script)
    worker.pid("x.pid")
    worker.process.send(number)
    eventually_sync(lambda: "stopping" in worker.log.read_text())
    (worker.folder / "go").touch()
    code, said = worker.wait()
    assert (code, "its end" in said, "1 item done" in said) == (0, True, True)
    assert [item.id for item in queue.peek()] == ["y"]


@pytest.mark.parametrize("signals", [1, 2], ids=["grace", "second signal"])
def test_after_grace_or_a_second_signal_items_go_back_uncounted(
    queue: BlockingQueue, start_worker: StartWorker, signals: int
) -> None:
    for name in ("x", "y"):
        queue.enqueue(name, id=name)
    grace = "200ms" if signals == 1 else "1h"
    worker = start_worker(*tree("echo asked"), options=("--grace", grace))
    pids = worker.pid("x.pid"), worker.pid("x.child")
    worker.process.send(signal.SIGTERM)
    if signals == 2:
        eventually_sync(lambda: "stopping" in worker.log.read_text())
        worker.process.send(signal.SIGTERM)
    code, said = worker.wait()
    assert (code, is_gone(*pids)) == (130, True)
    assert "the running programs were killed, and their items are back in the queue, uncounted" in said
    assert [(item.id, item.crash_count, item.fail_count) for item in queue.peek(9)] == [
        ("x", 0, 0), ("y", 0, 0),
    ]  # fmt: skip


def test_sigkill_of_the_worker_ends_all_processes_and_the_item_comes_back_early(
    valkey: Server, queue: BlockingQueue, start_worker: StartWorker
) -> None:
    queue.set_policy(Policy(requeue_limit=5, busy_expiry=86400.0))
    queue.enqueue("x", id="x")
    worker = start_worker("sh", "-c", f"setsid sleep 1000 & echo $! > x.far; {TREE.format(trap='')}")
    pids = worker.pid("x.pid"), worker.pid("x.child"), worker.pid("x.far")
    eventually_sync(lambda: valkey.call("EXISTS", "cq:{q}:present"), why="the server knows of its connection")
    worker.process.kill9()
    eventually_sync(lambda: is_gone(*pids), why="the kernel and the guard have killed them")
    eventually_sync(lambda: queue.reap().expired)
    assert [(item.id, item.crash_count) for item in queue.peek()] == [("x", 1)]


def test_without_the_guard_the_kernel_still_kills_the_program(
    queue: BlockingQueue, start_worker: StartWorker
) -> None:
    queue.enqueue("x", id="x")
    worker = start_worker("sh", "-c", "echo $$ > x.pid; exec sleep 1000")
    program = worker.pid("x.pid")
    for guard in children(worker.process.pid) - {program}:
        os.kill(guard, signal.SIGKILL)
    worker.process.kill9()
    eventually_sync(lambda: is_gone(program))
