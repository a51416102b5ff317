"""Calls while the interpreter ends, when the thread of the event loop does not run any more."""

import subprocess
import sys
from pathlib import Path

import pytest

from testkit.servers.server import Server
from testkit.waiting import PATIENCE

PROGRAM = """
import sys
import claimq.blocking

class Client:
    def __init__(self, url):
        self.server = claimq.blocking.connect(url)
        self.queue = self.server.queue("q")
        self.queue.length()

    def __del__(self):
        assert sys.is_finalizing()
        {call}

client = Client(sys.argv[1])
client.itself = client  # so that it lives until the interpreter ends
"""


@pytest.mark.parametrize(
    ("call", "is_refused"),
    [
        ("self.server.close()", False),
        ("self.queue.enqueue_many(['a'])", True),
        ("self.queue.length()", True),
        ("self.server.ping()", True),
        ("self.queue.enqueue('a')", None),
    ],
)
def test_a_call_while_the_interpreter_ends_does_not_wait_forever(
    valkey: Server, call: str, is_refused: bool | None
) -> None:
    program = PROGRAM.replace("{call}", call)
    command = [sys.executable, "-c", program, valkey.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    if is_refused is not None:
        assert ("the interpreter is ending" in ended.stderr) == is_refused, ended.stderr
    assert "AssertionError" not in ended.stderr


STEPS = """
import gc, socket, sys, threading, time
from claimq.concurrency.without_loop import run
from claimq.worker import Item, Worker

silent = socket.socket(socket.AF_UNIX)
silent.bind(sys.argv[1])
silent.listen()

class App:
    def __init__(self):
        self.itself = self
        self.worker = Worker(sys.argv[1], session=False)
        self.verdicts = self.worker.client._loops._verdicts
        self.item = Item(None, "w/1.a", "a", b"", None, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
        self.pending = self.verdicts.add("done", self.item, {})

    def __del__(self):
        assert sys.is_finalizing()
        {call}

gc.disable()  # so that it lives until the interpreter ends
App()
"""


@pytest.mark.parametrize(
    ("call", "is_refused"),
    [
        ("run(self.verdicts.wait(self.pending))", True),
        ("self.verdicts.add('done', self.item, {})", True),
        ("self.worker.close()", False),
    ],
)
def test_a_verdict_that_waits_for_another_threads_request_ends_with_the_interpreter(
    tmp_path: Path, call: str, is_refused: bool
) -> None:
    command = [sys.executable, "-c", STEPS.replace("{call}", call), str(tmp_path / "socket")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert ("the interpreter is ending" in ended.stderr) == is_refused, ended.stderr
    assert "AssertionError" not in ended.stderr
