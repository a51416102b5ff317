"""Greenlets of gevent during a failover: calls are retried, other greenlets continue, and nothing ends."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from testkit.plugin import started
from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_blocking_queue
from testkit.servers.sentinel import Sentinel
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Sidecar

BLOCKING = """
import gevent.monkey
gevent.monkey.patch_all()
import pathlib, sys, time
import gevent, claimq.blocking

place, url, name = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = claimq.RedisSettings(url, retry_for=120, reply_timeout=60)
queue = claimq.blocking.connect(settings=settings).queue(name)
beats, late, done, errors = [], [], [], []

def beat():
    while True:
        began = time.monotonic()
        gevent.sleep(0.01)
        late.append(time.monotonic() - began)

def produce(number):
    count = 0
    while not (place / "stop").exists():
        queue.enqueue(f"{number}-{count}")
        count += 1
        beats.append(1)
        (place / "enqueued").write_text(str(len(beats)))
        gevent.sleep(0.01)

def work():
    while not (place / "stop").exists():
        for claim in queue.claim(5, wait=0.2):
            queue.done(claim)
            done.append(claim.item.payload)
        (place / "done").write_text(str(len(done)))

gevent.spawn(beat)
running = [gevent.spawn(produce, number) for number in range(20)] + [gevent.spawn(work) for _ in range(5)]
gevent.joinall(running, timeout=240, raise_error=True)
print("ended", all(one.successful() for one in running), max(late) < 30)
"""
WORKER = """
import gevent.monkey
gevent.monkey.patch_all()
import pathlib, sys
import gevent, claimq.worker

place = pathlib.Path(sys.argv[1])
done = []

def work():
    for item in worker.items(handle_signals=False, wait=60):
        with item:
            gevent.sleep(0.01)
        done.append(item.payload)
        (place / "done").write_text(str(len(done)))
        if (place / "stop").exists():
            worker.stop()

def end():
    while not (place / "stop").exists():
        gevent.sleep(0.05)
    worker.stop()

with claimq.worker.connect(sys.argv[2]) as worker:
    running = [gevent.spawn(end), *(gevent.spawn(work) for _ in range(5))]
    gevent.joinall(running, timeout=240, raise_error=True)
print("ended", all(one.successful() for one in running))
"""


class ClusterWithReplica:
    """A cluster, and a queue of a primary that has a replica."""

    name = ""

    def __init__(self) -> None:
        self.cluster = started(RedisCluster)
        self.primary = self.cluster.nodes[0]
        self.replica = self.cluster.add_replica(self.primary)
        self.url = self.cluster.url
        names = (f"queue-{number}" for number in range(200))
        self.name = next(one for one in names if self.cluster.owner(f"cq:{{{one}}}:main") is self.primary)

    def fail_over(self) -> None:
        self.primary.kill9()
        self.cluster.take_over(self.replica)

    def close(self) -> None:
        self.cluster.close()


class SentinelWithQueue:
    """A primary that Sentinels replace."""

    name = "q"

    def __init__(self) -> None:
        self.sentinel = started(Sentinel)
        self.url = self.sentinel.url

    def fail_over(self) -> None:
        self.sentinel.fail_over()

    def close(self) -> None:
        self.sentinel.close()


Servers = ClusterWithReplica | SentinelWithQueue


@pytest.fixture(params=[SentinelWithQueue, ClusterWithReplica])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    made: Servers = request.param()
    yield made
    made.close()


class Program:
    """A program with gevent, and what it has printed."""

    def __init__(self, place: Path, text: str, *arguments: str) -> None:
        self._output = place / "output"
        with self._output.open("w") as output:  # no pipe, which a failing program would fill
            command = [sys.executable, "-c", text, str(place), *arguments]
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def end(self) -> tuple[int, str]:
        """Its exit code and output, when it has ended."""
        return self._process.wait(PATIENCE), self._output.read_text()


def count(place: Path, name: str) -> Callable[[], int]:
    def read() -> int:
        try:
            return int((place / name).read_text() or 0)
        except FileNotFoundError:
            return 0

    return read


def more(process: Program, *counters: Callable[[], int]) -> None:
    """Waits until each counter has grown, or the program has ended."""
    before = [one() + 20 for one in counters]
    eventually_sync(
        lambda: (
            not process.is_running or all(one() >= least for one, least in zip(counters, before, strict=True))
        )
    )


def test_greenlets_enqueue_and_claim_through_a_failover(servers: Servers, tmp_path: Path) -> None:
    enqueued, done = count(tmp_path, "enqueued"), count(tmp_path, "done")
    with Program(tmp_path, BLOCKING, servers.url, servers.name) as process:
        more(process, enqueued, done)
        servers.fail_over()
        more(process, enqueued, done)
        (tmp_path / "stop").touch()
        assert process.end() == (0, "ended True True\n")


def test_a_worker_of_greenlets_continues_after_a_failover(servers: Servers, tmp_path: Path) -> None:
    done = count(tmp_path, "done")
    with (
        open_blocking_queue(servers.url, servers.name) as queue,
        Sidecar(servers.url, queue=servers.name) as sidecar,
    ):
        queue.enqueue_many([str(number) for number in range(400)])
        with Program(tmp_path, WORKER, str(sidecar.socket)) as process:
            more(process, done)
            servers.fail_over()
            queue.enqueue_many([str(number) for number in range(400)])
            more(process, done)
            (tmp_path / "stop").touch()
            code, output = process.end()
            # A claim that the former primary had not replicated is lost, and a line says so.
            assert (code, output.endswith("ended True\n")) == (0, True), output
