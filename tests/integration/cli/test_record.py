"""`claimq record`: a trace from the counters of a queue, which `claimq simulate` reads."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claimq as claimq_library
from claimq.model import COUNTERS, Snapshot, State
from claimq_cli.commands.record import Recording
from testkit.processes import Process
from testkit.server import Server
from testkit.waiting import eventually_sync

Claimq = Callable[..., Any]
QueueDo = Callable[..., Any]


def snapshot(now: float, *, main: int = 0, busy: int = 0, **counters: int) -> Snapshot:
    return Snapshot(
        now=now,
        seq=1,
        lengths=dict.fromkeys(State, 0) | {State.MAIN: main, State.BUSY: busy},
        ages=dict.fromkeys(State),
        counters={**dict.fromkeys(COUNTERS, 0), **counters},
        next_due_in=None,
        paused=False,
    )


def test_a_line_has_the_time_the_items_and_how_long_items_took() -> None:
    recording = Recording(snapshot(1000.0, enqueued=5, main=5))
    assert recording.row(snapshot(1001.0, enqueued=8, main=6, busy=2, claimed=2)) == "0.00,3,"
    assert recording.row(snapshot(1002.0, enqueued=8, main=6, busy=2, claimed=2)) == ""
    assert recording.row(snapshot(1003.0, enqueued=9, main=7, busy=0, claimed=2)) == "2.00,1,2.000"
    assert recording.seconds == 3.0


def test_counters_that_went_back_are_no_arrivals() -> None:
    recording = Recording(snapshot(1000.0, enqueued=500, claimed=400))
    assert recording.row(snapshot(1001.0, enqueued=0)) == ""
    assert recording.row(snapshot(1002.0, enqueued=4, main=4)) == "1.00,4,"


def test_a_recorded_queue_can_be_simulated(
    on: Claimq, valkey: Server, queue_do: QueueDo, tmp_path: Path
) -> None:
    async def enqueue(queue: claimq_library.ReliableQueue) -> None:
        await queue.enqueue_many(map(str, range(7)))

    queue_do(enqueue)
    trace = tmp_path / "trace.csv"
    command = [sys.executable, "-m", "claimq_cli", "record", "q", "--seconds", "600", "--interval", "100ms"]
    process = Process(command, log=trace, env={"CLAIMQ_REDIS_URL": valkey.url})
    eventually_sync(lambda: "at,count,seconds\n" in trace.read_text())
    queue_do(enqueue)
    eventually_sync(lambda: len(trace.read_text().splitlines()) > 2)
    process.kill9()
    found = on("simulate", "--trace", str(trace), "-o", "json")
    assert found.code == 0, found.err
    assert found.json["items"] == 7, "the items from before the recording do not count"
