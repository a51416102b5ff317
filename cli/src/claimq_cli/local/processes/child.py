"""One process that local mode started: its own process group, a log file, and an end that nothing survives."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claimq_cli.local.processes import die_with_parent, process_table
from claimq_cli.local.processes.process_table import Identity, end_all

_WRAPPER = die_with_parent.__file__
_TAIL_BYTES = 4096
LONGEST_LOG = 10 * 1024 * 1024
"""A log that is longer when a process is started makes room for a new one; the one before it is kept as ``.old``."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: what it is to us (valkey, sidecar, app), its name, and where its output goes (appended)."""

    role: str
    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str]
    cwd: Path
    log: Path


class Child:
    """A running process. The kernel kills it when `claimq up` dies; it never gets the terminal's signals."""

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
        """Starts it; ``on_end`` is called once it has ended and what was left of its process group has been killed.

        A program that does not exist shows as an end with code 127 and a line in the log.
        """
        _make_room(program.log)
        with program.log.open("ab") as output:
            log_start = output.tell()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-ISs", _WRAPPER, str(os.getpid())),
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
        """What it started and left behind in its group; the mark proves that the group is still ours."""
        return [
            one for one in process_table.marked(self._mark) if process_table.group_of(one.pid) == self.pid
        ]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    @property
    def ran_for(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.since

    def how_it_ended(self) -> str:
        """In words: ``exited with code 1``, ``was killed by SIGKILL``."""
        code = self._process.returncode
        if code is None:
            return "runs"
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def send(self, number: signal.Signals) -> None:
        """A signal to the process and all of its group; nothing if it has ended."""
        if self.is_running:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:  # ended, and not yet noticed
                return

    async def end(self, grace: float) -> None:
        """SIGTERM, and SIGKILL if it still runs after ``grace`` seconds; returns when it is gone."""
        self.send(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.watching), grace)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self.watching

    def log_tail(self, lines: int = 5) -> list[str]:
        """The last lines that it wrote; not those of the process before it."""
        try:
            with self.log.open("rb") as written:
                written.seek(max(self._log_start, self.log.stat().st_size - _TAIL_BYTES))
                text = written.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def _make_room(log: Path) -> None:
    try:
        if log.stat().st_size > LONGEST_LOG:
            log.replace(log.with_suffix(f"{log.suffix}.old"))
    except FileNotFoundError:
        return
