"""SIGINT and SIGTERM end a consuming program in good order, with and without an event loop of its own."""

import asyncio
import os
import signal
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from claimq import Item, ReliableQueue, State
from claimq.testing import EmbeddedServer
from testkit.programs.processes import Process
from testkit.queues.looking import texts
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

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
async def test_a_signal_finishes_what_is_in_flight_and_gives_back_the_rest(
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
    assert texts(await queue.peek(9)) == ["1", "2", "3"]
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
    left = texts(await queue.peek(9))
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


@pytest.mark.parametrize("set_by", ["signal.signal", "the event loop"])
@pytest.mark.parametrize("options", [{}, {"handle_signals": False}, {"handle_signals": True}])
async def test_a_signal_with_a_handler_of_the_program_is_left_to_it_unless_asked(
    queue: ReliableQueue, set_by: str, options: dict[str, Any]
) -> None:
    """As in the loop of a server, which ends its program by these signals."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    is_asked = options.get("handle_signals", False)
    before = signal.getsignal(signal.SIGTERM)
    if set_by == "signal.signal":
        signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())
    else:
        loop.add_signal_handler(signal.SIGTERM, ended.set)

    async def handler(_: Item) -> None:
        signal.raise_signal(signal.SIGTERM)
        if not is_asked:
            await ended.wait()

    try:
        await queue.enqueue_many(["a", "b"])
        done = await queue.consume(handler, chunk=1, return_when_empty=True, **options)
        assert (done.done, done.stopped_by) == ((1, "SIGTERM") if is_asked else (2, "empty"))
        if set_by == "signal.signal" or not is_asked:
            ended.clear()
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


def test_a_blocking_run_leaves_signals_to_the_program_unless_asked(claimq_server: EmbeddedServer) -> None:
    queue, ended = claimq_server.queue("q"), threading.Event()

    def note(_number: int, _frame: object) -> None:
        ended.set()

    before = signal.signal(signal.SIGTERM, note)

    def handler(item: Item) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        if item.text == "left":
            assert ended.wait(PATIENCE)
            ended.clear()

    try:
        left: tuple[dict[str, Any], ...] = ({}, {"handle_signals": False})
        for options in left:
            queue.enqueue("left")
            done = queue.consume(handler, return_when_empty=True, **options)
            assert (done.done, done.stopped_by) == (1, "empty")
        queue.enqueue("taken")
        assert queue.consume(handler, handle_signals=True).stopped_by == "SIGTERM"
        assert not ended.is_set()
    finally:
        signal.signal(signal.SIGTERM, before)


WEB = """
import asyncio, os
from contextlib import asynccontextmanager
import claimq
from fastapi import FastAPI

@asynccontextmanager
async def lifespan(app):
    async def handler(item):
        print("begin", item.text, flush=True)
        await asyncio.sleep(3600)
    async with claimq.connect(os.environ["URL"]) as server:
        consuming = asyncio.ensure_future(server.queue("q", worker="w1").consume(handler))
        yield
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)

app = FastAPI(lifespan=lifespan)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_uvicorn_ends_on_a_signal_though_its_application_consumes(
    queue: ReliableQueue, valkey: Server, log: Path, number: signal.Signals
) -> None:
    log.with_name("web.py").write_text(WEB)
    words = [sys.executable, "-m", "uvicorn", "web:app", "--uds", str(log.with_name("s"))]
    await queue.enqueue("0")
    with Process(words, log=log, cwd=log.parent, env={**os.environ, "URL": valkey.url}) as server:
        await eventually(lambda: "begin 0" in log.read_text(), why="the application consumes")
        server.send(number)
        await eventually(lambda: not server.is_running)
    assert "Application shutdown complete" in log.read_text()
    assert [(item.text, item.requeue_count) for item in await queue.peek(9)] == [("0", 0)]


async def test_signals_mean_what_they_meant_before_when_the_run_is_over(queue: ReliableQueue) -> None:
    def handler(number: int, _: object) -> None:
        raise AssertionError(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        await queue.consume(print, return_when_empty=True, handle_signals=True)
        assert [signal.getsignal(number) for number in before] == [handler, handler]
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
