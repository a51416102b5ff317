"""A child process with its own process group and a log file. Nothing of its group survives its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claimq_local.processes import die_with_parent, process_table
from claimq_local.processes.process_table import Identity, end_all

_TAIL_BYTES = 4096
LONGEST_LOG = 10 * 1024 * 1024
"""Bytes. A longer log is renamed to ``.old`` when a process starts."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: its role (valkey, sidecar, app), its name, its command and its log file (appended to)."""

    role: str
    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str]
    cwd: Path
    log: Path


class Child:
    """A running process. The kernel kills it when `claimq up` dies. It does not receive the terminal's signals."""

    def __init__(
        self, program: Program, process: asyncio.subprocess.Process, mark: str, log_start: int
    ) -> None:
        self.role = program.role
        self.name = program.name
        self.log = program.log
        self.pid = process.pid
        self.since = time.monotonic()
        self.identity = process_table.identify(process.pid) or Identity(process.pid, 0)
        self._process = process
        self._mark = mark
        self._log_start = log_start

    @classmethod
    async def start(cls, program: Program, *, mark: str, on_end: Callable[[Child], None]) -> Child:
        """Starts the program. ``on_end`` is called after it has ended and the rest of its process group is killed.

        If the program does not exist, the child exits with code 127 and a line in the log.
        """
        _make_room(program.log)
        with program.log.open("ab") as output:
            log_start = output.tell()
            process = await asyncio.create_subprocess_exec(
                *die_with_parent.wrapper(),
                *(str(word) for word in program.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**program.env, process_table.MARK: mark},
                cwd=program.cwd,
                start_new_session=True,
            )
        child = cls(program, process, mark, log_start)
        child.watching = asyncio.create_task(child._watch(on_end))
        return child

    watching: asyncio.Task[None]

    async def _watch(self, on_end: Callable[[Child], None]) -> None:
        await self._process.wait()
        end_all(self._rest_of_group)
        on_end(self)

    def _rest_of_group(self) -> list[Identity]:
        return process_table.members_of(self.pid, f"{process_table.MARK}={self._mark}")

    @property
    def is_running(self) -> bool:
        """Whether it is still running."""
        return self._process.returncode is None

    @property
    def ran_for(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.since

    def how_it_ended(self) -> str:
        """In words: ``exited with code 1``, ``was killed by SIGKILL``."""
        code = self._process.returncode
        return "runs" if code is None else how_it_ended(code)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to its process group, unless it has ended."""
        if self.is_running:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # it has just ended
                return

    async def end(self, grace: float) -> None:
        """Sends SIGTERM, and SIGKILL after ``grace`` seconds; returns when it has ended."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace):
                await asyncio.shield(self.watching)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self.watching

    def log_tail(self, lines: int = 5) -> list[str]:
        """The last lines of its log, without those of earlier processes."""
        try:
            with self.log.open("rb") as written:
                written.seek(max(self._log_start, self.log.stat().st_size - _TAIL_BYTES))
                text = written.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def how_it_ended(code: int) -> str:
    """A return code (negative: the signal) in words: ``exited with code 1``, ``was killed by SIGKILL``."""
    if code >= 0:
        cause = " (command not found)" if code == die_with_parent.CANNOT_START else ""
        return f"exited with code {code}{cause}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _make_room(log: Path) -> None:
    try:
        if log.stat().st_size > LONGEST_LOG:
            log.replace(log.with_suffix(f"{log.suffix}.old"))
    except FileNotFoundError:
        return
