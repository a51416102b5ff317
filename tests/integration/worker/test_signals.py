"""SIGINT and SIGTERM end all loops of a program, whatever takes their items."""

import signal
import sys
import textwrap
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.concurrency.stop_signals import ended_by_signals
from testkit.programs.processes import Process
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar

LOOPS = """
    import asyncio, claimq, claimq.worker, os, sys

    async def handle(item):
        print("begin", flush=True)
        while not os.path.exists("go on"):
            await asyncio.sleep(0.05)

    async def worker():
        async with claimq.worker.connect_async() as worker:
            async for item in worker.items(wait=300):
                async with item:
                    await handle(item)
        print("ended", flush=True)

    async def consume():
        async with claimq.connect(sys.argv[1]) as server:
            done = await server.queue(sys.argv[2], worker="consumer").consume(handle, chunk=1)
        print("ended", done.stopped_by, flush=True)

    async def main():
        async with asyncio.TaskGroup() as group:  # unlike gather, it waits until consume has given its item back
            for loop in (worker(), worker(), consume()):
                group.create_task(loop)

    asyncio.run(main())
"""


def start(sidecar: Sidecar, queue: BlockingQueue, server: Server, folder: Path) -> Process:
    words = [sys.executable, "-c", textwrap.dedent(LOOPS), server.url, queue.name]
    return Process(words, log=folder / "log", cwd=folder, env={"CLAIMQ_SOCKET": str(sidecar.socket)})


def begun(folder: Path) -> int:
    return (folder / "log").read_text().count("begin\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_loops_of_all_workers_and_of_consume(
    sidecar: Sidecar, queue: BlockingQueue, valkey: Server, tmp_path: Path, number: signal.Signals
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    with start(sidecar, queue, valkey, tmp_path) as program:
        eventually_sync(lambda: begun(tmp_path) == 3, needs=[program])
        program.send(number)
        eventually_sync(program.is_idle)
        (tmp_path / "go on").touch()
        assert program.wait() == 0, program.ending()
    log = (tmp_path / "log").read_text()
    assert (log.count("begin\n"), log.count("ended"), number.name in log) == (3, 3, True)
    assert [(item.text, item.crash_count) for item in queue.peek(9)] == [("d", 0)]


def test_a_second_signal_interrupts_what_is_in_progress(
    sidecar: Sidecar, queue: BlockingQueue, valkey: Server, tmp_path: Path
) -> None:
    queue.enqueue_many(["a", "b", "c"])
    with start(sidecar, queue, valkey, tmp_path) as program:
        eventually_sync(lambda: begun(tmp_path) == 3, needs=[program])
        program.send(signal.SIGTERM)
        eventually_sync(program.is_idle)
        program.send(signal.SIGINT)
        program.wait()
        assert "KeyboardInterrupt" in program.ending()
    eventually_sync(lambda: queue.length() == 3)  # the sidecar gives them back when the app is gone
    assert [(item.text, item.requeue_count) for item in queue.peek(9)] == [("a", 0), ("b", 0), ("c", 0)]


def test_a_handler_that_the_program_sets_in_between_stays() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with ended_by_signals(print, handle_signals=True):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_is_the_programs_though_other_work_began_after_the_first() -> None:
    ended: list[str] = []
    with ended_by_signals(ended.append, handle_signals=True):
        signal.raise_signal(signal.SIGINT)
        with ended_by_signals(ended.append, handle_signals=True), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert ended == ["SIGINT"]
    with ended_by_signals(ended.append, handle_signals=True):
        signal.raise_signal(signal.SIGINT)
    assert ended == ["SIGINT", "SIGINT"]
