"""`make record`: a trace from the counters of a queue, which `make simulate` reads."""

import asyncio
import json
import subprocess
from pathlib import Path

from claimq.model import COUNTERS, Snapshot, State
from claimq_bench.recorder import Recording
from testkit.programs.make import command_of
from testkit.programs.processes import Process
from testkit.repository.tree import ROOT
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually


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


async def test_a_recorded_queue_can_be_simulated(valkey: Server, tmp_path: Path) -> None:
    async with open_queue(valkey.url) as queue:
        await queue.enqueue_many(map(str, range(7)))
        trace = tmp_path / "trace.csv"
        command = command_of("record", "ARGS=q --seconds 600 --interval 100ms")
        process = Process(command, log=trace, env={"CLAIMQ_REDIS_URL": valkey.url}, cwd=ROOT)
        await eventually(lambda: "at,count,seconds\n" in trace.read_text())
        await queue.enqueue_many(map(str, range(7)))
        await eventually(lambda: len(trace.read_text().splitlines()) > 2)
        process.kill9()
    words = command_of("simulate", f"ARGS=--trace {trace} -o json")
    output = await asyncio.to_thread(subprocess.check_output, words, cwd=ROOT, timeout=PATIENCE)
    assert json.loads(output)["items"] == 7, "the items from before the recording do not count"
