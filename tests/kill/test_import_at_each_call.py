"""`claimq import` dies by SIGKILL at each command for the source; the next run finishes it: no job is lost or twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from testkit.faults.proxy import FaultProxy
from testkit.programs.forked import ForkedProcess
from testkit.queues.looking import texts
from testkit.queues.old_jobs import a_job, names
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

LEAST_KILLS = 8


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    with open_blocking_queue(valkey.url) as queue:
        yield queue


def kills(
    server: Server, queue: BlockingQueue, log: Path, source: str, fill: Callable[[], object]
) -> Iterator[int]:
    """Kills an import when the n-th command for the source has passed, then finishes it with another run, for each n
    until an import ends before its n-th command."""
    words = ["import", queue.name, "--redis", server.url, "--from", source, "--new-ids", "--source"]
    for number in itertools.count(1):
        server.empty()
        fill()
        if not is_killed_at(number, server, words, log):
            return
        ForkedProcess("claimq_cli", *words, server.url, log=log, env={}).wait(PATIENCE)
        yield number


def is_killed_at(number: int, server: Server, words: list[str], log: Path) -> bool:
    with FaultProxy(server.unix_path) as proxy:
        fault = proxy.black_hole_after(number, matching=lambda _: True)
        process = ForkedProcess("claimq_cli", *words, proxy.tcp_url, log=log, env={})
        eventually_sync(lambda: fault.hit is not None or not process.is_running)
        process.kill9()
        return fault.hit is not None


def test_an_import_of_a_list_that_is_killed_at_any_call_is_finished(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    def fill() -> None:
        valkey.call("LPUSH", "old", "a", "a", "b")

    number = 0
    for number in kills(valkey, queue, tmp_path / "log", "list:old", fill):
        assert texts(queue.peek(9)) == ["a", "a", "b"], number
        assert valkey.call("KEYS", "*old*") == [b"{old}:claimq-import:source"], number
    assert number >= LEAST_KILLS


@pytest.mark.parametrize(
    ("system", "delayed"),
    [("bullmq", "bull:old:delayed"), ("rq", "rq:scheduled:old"), ("sidekiq", "schedule")],
)
def test_an_import_of_jobs_that_is_killed_at_any_call_is_finished(
    valkey: Server, queue: BlockingQueue, tmp_path: Path, system: str, delayed: str
) -> None:
    def fill() -> None:
        for name in ("1", "2", "with blank"):
            a_job(valkey, system, name)
        a_job(valkey, system, "odd", due="-1")
        a_job(valkey, system, "later", due="4000000000")

    number = 0
    for number in kills(valkey, queue, tmp_path / "log", f"{system}:old", fill):
        first, second, blank, later = names(queue)
        assert (first, second, blank[:7], later) == ("1", "2", "import-", "later"), number
        assert valkey.call("ZCARD", delayed) == 1, "the job with an odd time stays"
    assert number >= LEAST_KILLS
