"""Workers in programs that gevent or eventlet has patched: greenlets work, the rest is refused at once."""

import subprocess
import sys
import textwrap

import pytest

from claimq.blocking import BlockingQueue
from testkit.waiting import PATIENCE
from testkit.workers.sidecars import Sidecar

GEVENT = "import gevent.monkey; gevent.monkey.patch_all()"
EVENTLET = "import eventlet; eventlet.monkey_patch()"
NO_EVENTLET = (
    "claimq.worker does not work where eventlet has replaced threads and sockets; run this process without eventlet, "
    "or with gevent"
)
NO_THREADS = (
    "gevent has replaced sockets, but not threads, so every call would stop all greenlets; call "
    "gevent.monkey.patch_all() without thread=False"
)
NO_SOCKETS = (
    "gevent has replaced threads, but not sockets, so every call would stop all greenlets; call "
    "gevent.monkey.patch_all() without socket=False"
)
BEGIN = """
import asyncio, os, signal, sys, threading, time
import gevent
import claimq.worker

def compute(seconds):
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass
"""
FAILS = """
with claimq.worker.connect(sys.argv[1]) as worker:
    worker.enqueue(b"a")
    try:
        for item in worker.items():
            with item, gevent.Timeout(0.05):
                gevent.sleep(60)
    except gevent.Timeout as error:
        print(type(error).__name__)
"""
LOOPS = """
def count():
    while True:
        beats.append(gevent.sleep(0.005))

def work():
    for item in worker.items(chunk=5, handle_signals=False):
        with item:
            gevent.sleep(0.001)
            done.append(item.payload)
            if len(done) == 300:
                worker.stop()

beats, done = [], []
gevent.spawn(count)
with claimq.worker.connect(sys.argv[1]) as worker:
    worker.enqueue_many([str(number).encode() for number in range(300)])
    gevent.joinall([gevent.spawn(work) for _ in range(10)], timeout=300, raise_error=True)
print(len(done), len(set(done)), len(beats) > 5)
"""
SIGNAL = """
with claimq.worker.connect(sys.argv[1]) as worker:
    gevent.spawn_later(0.2, worker.enqueue, b"late")
    for item in worker.items(wait=60):
        with item:
            print(item.payload.decode())
        gevent.spawn_later(0.2, os.kill, os.getpid(), signal.SIGTERM)
print("stopped")
"""
COMPUTES = """
async def receive():
    stream = await connected(ASYNCIO)
    reading = asyncio.create_task(stream.receive(time.monotonic() + 0.5))
    await asyncio.sleep(0)
    listening.accept()[0].sendall(b"in a task")
    compute(0.6)
    return await reading

stream = run(connected(blocking_backend()))
reading = gevent.spawn(lambda: run(stream.receive(time.monotonic() + 0.5)))
gevent.sleep(0)
peer, _ = listening.accept()
peer.sendall(b"in a greenlet")
compute(0.6)
print(reading.get().decode())
print(asyncio.run(receive()).decode())
try:
    run(stream.receive(time.monotonic() + 0.5))
except TimeoutError:
    print("silent")
"""
SOCKETS = """
import socket
from claimq.concurrency.without_loop import run
from claimq.worker.backends import ASYNCIO
from claimq.worker.green_backend import blocking_backend

listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1] + "-test")
listening.listen()

def connected(backend):
    return backend.connect(sys.argv[1] + "-test", time.monotonic() + 60)
"""
ASYNC = """
async def work(worker):
    async for item in worker.items(handle_signals=False):
        async with item:
            await asyncio.sleep(0.001)
            done.append(item.payload)
            if len(done) == 100:
                worker.stop()

async def main():
    async with claimq.worker.connect_async(sys.argv[1]) as worker:
        await worker.enqueue_many([str(number).encode() for number in range(100)])
        await asyncio.gather(*(work(worker) for _ in range(5)))

done = []
asyncio.run(main())
print(len(set(done)))
"""
INTERRUPTS = """
async def if_late(reply):
    print("late:", reply.decode())

def let_others_run():
    for _ in range(10):
        gevent.sleep(0)

def exchange():
    work = stream.receive(time.monotonic() + 60)
    return run(backend.received(work, stream, if_late))

backend = blocking_backend()
stream = run(connected(backend))
peer, _ = listening.accept()
exchanging = gevent.spawn(exchange)
let_others_run()
peer.sendall(b"a reply")  # it has arrived, and the greenlet that waits for it ends before it can be read
exchanging.kill()

stream = run(connected(backend))
peer, _ = listening.accept()
exchanging = gevent.spawn(exchange)
let_others_run()
peer.sendall(b"another")
stream.interrupt()
print("read:", exchanging.get().decode())
"""


def program(text: str, sidecar: Sidecar, patch: str = GEVENT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", patch + BEGIN + textwrap.dedent(text), str(sidecar.socket)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def lines(ended: subprocess.CompletedProcess[str]) -> tuple[list[str], str, int]:
    return ended.stdout.splitlines(), ended.stderr, ended.returncode


def test_greenlets_share_a_worker_and_let_others_continue(sidecar: Sidecar) -> None:
    assert lines(program(LOOPS, sidecar)) == (["300 300 True"], "", 0)


def test_a_signal_ends_a_loop_of_greenlets_that_waits(sidecar: Sidecar, queue: BlockingQueue) -> None:
    assert lines(program(SIGNAL, sidecar)) == (["late", "stopped"], "", 0)
    assert queue.snapshot().counters["crashes"] == 0


def test_bytes_that_arrive_while_the_program_computes_are_in_time(sidecar: Sidecar) -> None:
    assert lines(program(SOCKETS + COMPUTES, sidecar)) == (["in a greenlet", "in a task", "silent"], "", 0)


def test_a_reply_that_has_arrived_is_not_lost_with_its_greenlet(sidecar: Sidecar) -> None:
    ended = program(SOCKETS + INTERRUPTS, sidecar)
    assert lines(ended) == (["late: a reply", "read: another"], "", 0)


@pytest.mark.usefixtures("retries_at_once")
def test_an_item_whose_work_a_gevent_timeout_ends_has_failed(sidecar: Sidecar, queue: BlockingQueue) -> None:
    assert lines(program(FAILS, sidecar))[0] == ["Timeout"]
    (item,) = queue.peek()
    assert (item.fail_count, item.last_error) == (1, "the work was ended by a gevent.Timeout: 0.05 seconds")


@pytest.mark.parametrize(
    ("patch", "call", "reason"),
    [
        (EVENTLET, "connect", NO_EVENTLET),
        (EVENTLET, "connect_async", NO_EVENTLET),
        ("import gevent.monkey; gevent.monkey.patch_all(thread=False)", "connect", NO_THREADS),
        ("import gevent.monkey; gevent.monkey.patch_all(socket=False)", "connect", NO_SOCKETS),
    ],
)
def test_a_worker_is_refused_where_it_would_stop_all(
    sidecar: Sidecar, patch: str, call: str, reason: str
) -> None:
    ended = program(f"claimq.worker.{call}(sys.argv[1])", sidecar, patch)
    assert ended.stderr.splitlines()[-1] == f"RuntimeError: {reason}"


def test_an_async_worker_works_where_gevent_has_patched(sidecar: Sidecar) -> None:
    assert lines(program(ASYNC, sidecar)) == (["100"], "", 0)
