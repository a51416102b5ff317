"""Signals for ``python -m claimq.tasks``, which is a worker whatever its app's modules do."""

import signal
import sys
from pathlib import Path

import pytest

from claimq.testing import EmbeddedServer
from testkit.faults.waiting_pipe import Pipe
from testkit.programs.processes import Process
from testkit.waiting import eventually_sync

APP = """
import signal
from claimq.tasks import App

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: print("the app's own handler", flush=True))
app = App("q")

@app.task
def wait():
    print("begin", flush=True)
    open("pipe").read()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_worker_though_its_app_has_a_handler(
    claimq_server: EmbeddedServer, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    queue = claimq_server.queue("q")
    queue.enqueue_many(['{"task": "wait", "args": []}'] * 2)
    log, pipe = tmp_path / "log", Pipe(tmp_path / "pipe")
    words = [sys.executable, "-m", "claimq.tasks", "jobs:app"]
    with Process(words, log=log, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path) as worker:
        eventually_sync(pipe.is_read, needs=[worker])
        worker.send(number)
        eventually_sync(worker.is_idle)
        assert "the app's own handler" not in log.read_text()
        pipe.close()
        assert worker.wait() == 0
    assert [(item.requeue_count, item.crash_count) for item in queue.peek(9)] == [(0, 0)]
