"""SIGINT and SIGTERM end a consuming program in good order, with and without an event loop of its own."""

import signal
import sys
import textwrap
from pathlib import Path

import pytest

from claimq import ReliableQueue, State
from testkit.processes import Process
from testkit.server import Server
from testkit.waiting import eventually

WAYS = {
    "asynchronous": """
        import asyncio, claimq, pathlib, sys
        async def handler(item):
            print("begin", item.text, flush=True)
            while not pathlib.Path(sys.argv[2]).exists():
                await asyncio.sleep(0.01)
            await asyncio.sleep(HANDLING)
            print("end", item.text, flush=True)
        async def main():
            async with claimq.connect(sys.argv[1]) as server:
                print("consumed", await server.queue("q", worker="w1").consume(handler, OPTIONS))
        asyncio.run(main())
    """,
    "asynchronous with threads": """
        import asyncio, claimq, pathlib, sys, time
        def handler(item):
            print("begin", item.text, flush=True)
            while not pathlib.Path(sys.argv[2]).exists():
                time.sleep(0.01)
            time.sleep(HANDLING)
            print("end", item.text, flush=True)
        async def main():
            async with claimq.connect(sys.argv[1]) as server:
                print("consumed", await server.queue("q", worker="w1").consume(handler, OPTIONS))
        asyncio.run(main())
    """,
    "blocking": """
        import claimq.blocking, pathlib, sys, time
        def handler(item):
            print("begin", item.text, flush=True)
            while not pathlib.Path(sys.argv[2]).exists():
                time.sleep(0.01)
            time.sleep(HANDLING)
            print("end", item.text, flush=True)
        with claimq.blocking.connect(sys.argv[1]) as server:
            print("consumed", server.queue("q", worker="w1").consume(handler, OPTIONS))
    """,
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def go_on(log: Path) -> Path:
    """The file that lets the handlers of the program end: first the program has the signal, and then it is made."""
    return log.with_name("go on")


def start(way: str, server: Server, log: Path, *, handling: float = 0.3, options: str = "chunk=3") -> Process:
    code = textwrap.dedent(WAYS[way]).replace("HANDLING", str(handling)).replace("OPTIONS", options)
    return Process([sys.executable, "-c", code, server.url, go_on(log)], log=log)


async def has_waiting(queue: ReliableQueue, count: int) -> bool:
    return await queue.length() == count


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("way", WAYS)
async def test_a_signal_finishes_what_is_in_hand_and_gives_back_the_rest(
    queue: ReliableQueue, valkey: Server, log: Path, way: str, number: signal.Signals
) -> None:
    await queue.enqueue_many(list("0123"))
    with start(way, valkey, log) as program:
        await eventually(lambda: "begin 0" in log.read_text(), why="the first item is in progress")
        program.send(number)
        await eventually(lambda: has_waiting(queue, 3), why="what was not begun goes back")
        go_on(log).touch()
        await eventually(lambda: not program.is_running)
        assert program.returncode == 0
    text = log.read_text()
    assert "end 0" in text
    assert "begin 1" not in text
    assert f"stopped_by='{number.name}'" in text
    assert [item.text for item in await queue.peek(9)] == ["1", "2", "3"]
    assert [item.interrupted_count for item in await queue.peek(9)] == [1, 1, 0]
    assert [item.requeue_count for item in await queue.peek(9)] == [0, 0, 0]


@pytest.mark.parametrize("way", WAYS)
async def test_with_handle_signals_off_they_do_what_python_does(
    queue: ReliableQueue, valkey: Server, log: Path, way: str
) -> None:
    """SIGINT is a KeyboardInterrupt: what is in progress and not begun goes back (a thread is waited for)."""
    await queue.enqueue_many(list("0123"))
    with start(way, valkey, log, options="chunk=3, handle_signals=False") as program:
        await eventually(lambda: "begin 0" in log.read_text(), why="the first item is in progress")
        program.send(signal.SIGINT)
        go_on(log).touch()
        await eventually(lambda: not program.is_running)
    assert "KeyboardInterrupt" in log.read_text()
    assert await queue.length(State.BUSY) == 0
    left = [item.text for item in await queue.peek(9)]
    assert left == (["0", "1", "2", "3"] if way == "asynchronous" else ["1", "2", "3"])


async def test_sigterm_ends_a_program_that_waits_for_items_at_once(
    queue: ReliableQueue, valkey: Server, log: Path
) -> None:
    go_on(log).touch()
    with start("blocking", valkey, log) as program:
        await queue.enqueue("0")
        await eventually(lambda: "end 0" in log.read_text())
        program.send(signal.SIGTERM)
        await eventually(lambda: not program.is_running)
        assert program.returncode == 0
    assert "done=1" in log.read_text()


SEVERAL_RUNS = """
    import asyncio, claimq, signal, sys
    async def main():
        settings = claimq.RedisSettings(sys.argv[1], reply_timeout=300, retry_for=300)
        async with claimq.connect(settings=settings) as server:
            async def started(name, **options):
                begun = asyncio.Event()
                async def handler(item):
                    begun.set()
                queue = server.queue(name)
                await queue.enqueue("0")
                run = asyncio.ensure_future(queue.consume(handler, **options))
                await begun.wait()
                return run
            before = signal.getsignal(signal.SIGTERM)
            runs = [await started("a"), await started("b")]
            if sys.argv[2] == "one has ended":
                await (await started("c", max_items=1))
            print("ready", flush=True)
            async with asyncio.timeout(300):
                for done in await asyncio.gather(*runs):
                    print(done.stopped_by)
            print("restored", signal.getsignal(signal.SIGTERM) is before)
    asyncio.run(main())
"""


@pytest.mark.parametrize("case", ["all run", "one has ended"])
async def test_a_signal_ends_all_runs_of_an_event_loop(valkey: Server, log: Path, case: str) -> None:
    with Process([sys.executable, "-c", textwrap.dedent(SEVERAL_RUNS), valkey.url, case], log=log) as program:
        await eventually(lambda: "ready" in log.read_text())
        program.send(signal.SIGTERM)
        await eventually(lambda: not program.is_running)
        assert program.returncode == 0
    assert log.read_text() == "ready\nSIGTERM\nSIGTERM\nrestored True\n"


async def test_signals_mean_what_they_meant_before_when_the_run_is_over(queue: ReliableQueue) -> None:
    def handler(number: int, _: object) -> None:
        raise AssertionError(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        await queue.consume(print, return_when_empty=True)
        assert [signal.getsignal(number) for number in before] == [handler, handler]
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
