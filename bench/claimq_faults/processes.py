"""The producers and workers of a case, as processes of their own, and what they have written down."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from claimq_faults.account import Line
from claimq_faults.load import read_log
from testkit.programs.processes import Process
from testkit.waiting import eventually_sync

_FOLDERS = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests" / "support")]
_WORKERS = 2


class Processes:
    """One producer and two workers. A killed worker has a successor of another name."""

    def __init__(self, url: str, place: Path) -> None:
        self._url, self._place = url, place
        self._producer = self._start("producer", "p")
        self._workers: dict[str, Process] = {}
        self._count = 0
        self.ended_at: dict[str, float] = {}
        """Killed worker -> when it had ended."""

    def _start(self, kind: str, name: str) -> Process:
        words = [
            sys.executable,
            "-m",
            "claimq_faults.load",
            kind,
            self._url,
            str(self._place / f"{name}.log"),
            name,
        ]
        env = {"PYTHONPATH": ":".join(_FOLDERS)}
        return Process(words, log=self._place / f"{name}.out", env=env)

    def start_workers(self) -> None:
        for _ in range(_WORKERS):
            self._start_worker()

    def _start_worker(self) -> None:
        name, self._count = f"w{self._count}", self._count + 1
        self._workers[name] = self._start("worker", name)

    def worker(self) -> Process:
        """The oldest one."""
        return next(iter(self._workers.values()))

    def kill_worker(self) -> None:
        """The oldest one; another one begins."""
        name = next(iter(self._workers))
        self._workers.pop(name).kill9()
        self.ended_at[name] = time.monotonic()
        self._start_worker()

    def lines(self) -> list[Line]:
        return [line for path in self._place.glob("*.log") for line in read_log(path)]

    def wait_for_more(self, count: int, within: float, *, of: Sequence[str] = ("stored", "done")) -> None:
        """Until so many more items are stored and so many more are done. AssertionError if that takes longer."""
        wanted = {what: self._number(what) + count for what in of}
        eventually_sync(
            lambda: all(self._number(what) >= least for what, least in wanted.items()),
            within=within,
            why=f"{count} more items are stored and done",
        )

    def _number(self, what: str) -> int:
        self._check()
        return sum(line.what == what for line in self.lines())

    def _check(self) -> None:
        """RuntimeError if one has ended by itself."""
        for name, process in {"p": self._producer, **self._workers}.items():
            if not process.is_running:
                *_, last = ["no output", *(self._place / f"{name}.out").read_text().splitlines()]
                raise RuntimeError(f"{name} has ended: {last}")

    def stop_producer(self) -> None:
        self._producer.terminate()

    def stop_workers(self) -> None:
        for worker in self._workers.values():
            worker.terminate()

    def close(self) -> None:
        for process in (self._producer, *self._workers.values()):
            process.kill9()
