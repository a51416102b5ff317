"""The commands of docs/worker-command.md, run as they stand there."""

import hashlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from testkit.programs.processes import Process
from testkit.repository.tree import ROOT
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

PAGE = (ROOT / "docs" / "worker-command.md").read_text()
COMMANDS = re.findall(r"^    (claimq .*?)(?: +# (.*))?$", PAGE, re.MULTILINE)
"""Each command with its comment."""


@pytest.fixture
def queue(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingQueue]:
    monkeypatch.setenv("CLAIMQ_REDIS_URL", valkey.url)
    with open_blocking_queue(valkey.url, "files") as queue:
        yield queue


def command(comment: str) -> str:
    """The command with this comment, with the `claimq` of these tests."""
    (found,) = [line for line, said in COMMANDS if said.startswith(comment)]
    return runnable(found)


def runnable(line: str) -> str:
    return line.replace("claimq", f"{sys.executable} -m claimq_cli", 1)


def bash(line: str) -> str:
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_of_the_page_is_run_here() -> None:
    assert len(COMMANDS) == 6
    assert [said.partition(":")[0] for _, said in COMMANDS] == [
        "", "the payload is an argument", "the payload is on stdin", "until SIGTERM or Ctrl-C", "wrong", "right",
    ]  # fmt: skip


def test_the_payload_is_an_argument_or_on_stdin(queue: BlockingQueue) -> None:
    enqueue = runnable(COMMANDS[0][0])
    bash(enqueue)
    sums = {
        file: hashlib.sha256(Path(file).read_bytes()).hexdigest()
        for file in ("/etc/hostname", "/etc/os-release")
    }
    said = bash(command("the payload is an argument"))
    found = [line.split() for line in said.splitlines()]
    assert {file: digest for digest, file in found} == sums
    bash(enqueue)
    assert bash(command("the payload is on stdin")).split() == ["13", "15"]


def test_a_worker_without_until_empty_runs_until_sigterm(queue: BlockingQueue, tmp_path: Path) -> None:
    check = tmp_path / "check"
    check.write_text("#!/bin/sh\ncat >> checked\n")
    check.chmod(0o755)
    queue.enqueue_many(["a", "b"])
    process = Process(["bash", "-c", f"exec {command('until SIGTERM')}"], cwd=tmp_path)
    eventually_sync(lambda: queue.stats()["done"] == 2)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert sorted((tmp_path / "checked").read_text()) == ["a", "b"]


def test_the_right_way_to_give_a_payload_to_a_shell_runs_no_payload(
    queue: BlockingQueue, tmp_path: Path
) -> None:
    for kind, said, is_run in (("right", "$(touch ran)\n", False), ("wrong", "\n", True)):
        queue.enqueue("$(touch ran)")
        assert bash(command(kind).replace(" -I", " --until-empty -I", 1)) == said
        assert (tmp_path / "ran").exists() is is_run
