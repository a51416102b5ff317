"""What is measured: items, wall time, and the processor time that the server and this process spent on them."""

import gc
import os
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import redis

from testkit.servers.server import Server

PERSISTENT = {"appendonly": "yes", "appendfsync": "everysec", "auto-aof-rewrite-percentage": "0"}
"""A queue that must keep its items runs with persistence. The log is rewritten between measurements only."""
VOLATILE = {"appendonly": "no"}
LONGEST_REWRITE_SECONDS = 120.0
T = TypeVar("T")


class WrongResult(Exception):
    """Something was lost, repeated or left over: the figures of this run mean nothing."""


def must(is_right: bool, what: str) -> None:
    """Raises WrongResult unless it holds."""
    if not is_right:
        raise WrongResult(what)


def wait_until(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    """Waits for a condition. WrongResult with ``what`` if it does not come within so many seconds."""
    give_up_at = time.monotonic() + seconds
    while not is_so():
        must(time.monotonic() < give_up_at, what)
        time.sleep(0.002)


def rss_mb(pid: int) -> float:
    """The resident memory of a process in 10^6 bytes, as the kernel reports it. OSError if there is no such process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used. OSError if there is no such process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """What a number of items took; times in seconds.

    `server`: processor time of all its threads; `server_main`: of the one that runs commands, without what writes
    the log to the disk and frees memory behind its back.
    """

    items: int = 0
    wall: float = 0.0
    server: float = 0.0
    server_main: float = 0.0
    client: float = 0.0

    def then(self, other: "Cost") -> "Cost":
        """This and then the other, for the same items."""
        return Cost(
            self.items,
            self.wall + other.wall,
            self.server + other.server,
            self.server_main + other.server_main,
            self.client + other.client,
        )

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.items / self.wall

    @property
    def server_us(self) -> float:
        """Microseconds of the server's processor time for an item."""
        return self.server / self.items * 1e6

    @property
    def server_main_us(self) -> float:
        """Microseconds of its main thread's for an item."""
        return self.server_main / self.items * 1e6

    @property
    def client_us(self) -> float:
        """Microseconds of this process's processor time for an item."""
        return self.client / self.items * 1e6


@dataclass(frozen=True)
class Spread:
    """A figure of several rounds. The machine is shared, so the median counts; the ends say how far to trust it."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(min(values), statistics.median(values), max(values))


class Bed:
    """One server under test, a client of its own to control it, and its clock of processor time."""

    def __init__(self, *, persistent: bool) -> None:
        self.persistent = persistent
        self.server = Server("valkey", {**(PERSISTENT if persistent else VOLATILE), "maxclients": "2000"})
        self.server.start()
        self.control = self.client()

    @classmethod
    def of(cls, server: Server) -> "Bed":
        """One for a server that runs, and which another one ends."""
        bed = cls.__new__(cls)
        bed.persistent, bed.server = False, server
        bed.control = bed.client()
        return bed

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def path(self) -> str:
        return str(self.server.unix_path)

    def client(self) -> "redis.Redis":
        """A synchronous client on a connection of its own."""
        return redis.Redis(unix_socket_path=self.path, protocol=2, socket_timeout=60)

    def info(self, section: str, field: str) -> float:
        return float(self.control.info(section)[field])

    def server_seconds(self) -> tuple[float, float]:
        """Processor time of the server so far, as INFO says: all its threads, its main thread."""
        cpu = self.control.info("cpu")
        both = [
            float(cpu["used_cpu_user" + of]) + float(cpu["used_cpu_sys" + of]) for of in ("", "_main_thread")
        ]
        return both[0], both[1]

    def command_times(self) -> dict[str, float]:
        """Seconds of each command so far, by the server's statistics: a script's with those of the commands that it
        runs. And as "main" the processor time of the server's main thread."""
        found = self.control.info("cpu", "commandstats")
        times = {name: found[name]["usec"] / 1e6 for name in found if name.startswith("cmdstat_")}
        times["main"] = found["used_cpu_user_main_thread"] + found["used_cpu_sys_main_thread"]
        return times

    @contextmanager
    def measured(self, items: int) -> Generator[Cost]:
        """Fills in the cost of what runs inside. The garbage collector waits until it is over."""
        cost = Cost(items)
        gc.collect()
        gc.disable()
        before = self.server_seconds()
        client, wall = time.process_time(), time.perf_counter()
        try:
            yield cost
        finally:
            cost.wall = time.perf_counter() - wall
            cost.client = time.process_time() - client
            cost.server, cost.server_main = (
                b - a for a, b in zip(before, self.server_seconds(), strict=True)
            )
            gc.enable()

    def empty(self) -> None:
        """Removes everything, also from the log on disk, and waits until the server has done so."""
        self.control.flushall()
        self.rewrite_log()

    def rewrite_log(self) -> None:
        """Reduces the log on disk to what the server holds."""
        if not self.persistent:
            return
        self.control.bgrewriteaof()
        wait_until(self._is_log_written, LONGEST_REWRITE_SECONDS, "the server does not end rewriting its log")

    def _is_log_written(self) -> bool:
        info = self.control.info("persistence")
        return not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])

    def close(self) -> None:
        self.control.close()
        self.server.close()


def ratios(over: Sequence[T], under: Sequence[T], value: Callable[[T], float]) -> Spread:
    """One figure over the other, round by round."""
    return Spread.of([value(a) / value(b) for a, b in zip(over, under, strict=True)])
