"""How the command starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.servers.server import Server

INTERRUPTED_AT_AN_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from claimq_cli.__main__ import main
main(["queues"])
"""


def test_ctrl_c_while_the_command_starts_leaves_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("closed", "arguments", "output"),
    [
        (">&-", "enqueue orders one", ""),
        ("2>&-", "enqueue orders one", "orders: 1 item enqueued, 1 in main (a new queue)\n"),
        ("<&-", "enqueue orders --lines -", "orders: 0 items enqueued, 0 in main (no queue was created)\n"),
        ("<&- >&- 2>&-", "enqueue orders one", ""),
    ],
)
def test_closed_standard_streams_count_as_empty(
    valkey: Server, closed: str, arguments: str, output: str
) -> None:
    command = [sys.executable, "-m", "claimq_cli", *arguments.split(), "--redis", valkey.url]
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, output, "")


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_output_that_cannot_be_written_is_one_error(unbuffered: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "claimq_cli", "--version"],
            stdout=full, stderr=subprocess.PIPE, text=True, env=environment | unbuffered, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (1, "claimq: [Errno 28] No space left on device\n")
