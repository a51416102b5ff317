"""Processes that never outlive the tests: servers, workers, sidecars, whatever a test starts and kills."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from testkit.waiting import PATIENCE

WRAPPER = Path(__file__).parent / "die_with_parent.py"
_LONGEST_ENDING = 10_000

# The kernel's "parent" is the thread that forked. A test's own thread may end before its process should, so one
# thread that lives as long as this process starts them all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testkit-spawner")


def whole_lines(log: Path) -> list[str]:
    """The lines of a log, none when it does not exist; a last line that a kill cut off is left out.

    With PYTHONUNBUFFERED, print() writes each argument by itself, so a line may end after any of them.
    """
    return log.read_text().split("\n")[:-1] if log.exists() else []


class Running(Protocol):
    """What Process needs of subprocess.Popen."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        ...

    def wait(self, timeout: float) -> int:
        """Waits for the end; returns the exit code. Raises subprocess.TimeoutExpired."""
        ...

    def send_signal(self, sig: int) -> None:
        """Sends a signal, unless it has ended."""
        ...


class Process:
    """A running program that can be paused, resumed, ended and killed; by its process id, never by name.

    Output goes to `log` if given (appended), else nowhere. It is killed by the kernel when this process dies, however.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Starts `command`. `env` is added to the environment of this process."""
        self.command = [str(part) for part in command]
        self._log = log
        self._popen: Running = _spawner.submit(self._start, log, {**os.environ, **(env or {})}, cwd).result()

    def _start(self, log: Path | None, env: Mapping[str, str], cwd: Path | None) -> subprocess.Popen[bytes]:
        wrapped = [sys.executable, "-ISs", str(WRAPPER), str(os.getpid()), *self.command]
        with Path(log or os.devnull).open("ab") as output:
            return subprocess.Popen(
                wrapped, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=cwd
            )

    @property
    def pid(self) -> int:
        """The process id; the program's own, not a wrapper's."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._popen.poll()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet (a paused one runs)."""
        return self._popen.poll() is None

    def ending(self) -> str:
        """How it has ended, and the end of its output."""
        name = " ".join(Path(word).name for word in self.command)[:200]
        output = self._log.read_text(errors="replace")[-_LONGEST_ENDING:] if self._log else "(no log)"
        return f"`{name}` has ended with {self.returncode}:\n{output}"

    def wait(self, timeout: float = PATIENCE) -> int:
        """Waits for its end and returns the exit code; TimeoutError when it goes on for `timeout` seconds."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.command[0]} (pid {self.pid}) still runs after {timeout} s") from None

    def handles(self, number: signal.Signals) -> bool:
        """Whether it has a handler for a signal now, as the kernel sees it."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)

    def is_idle(self) -> bool:
        """Whether it waits for something from outside: none of its threads runs or has a signal to handle, three times
        in a row, since one thread may wake another that was looked at before."""
        return all(_is_idle(self.pid) for _ in range(3))

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens when the process has ended."""
        self._popen.send_signal(number)

    def terminate(self, timeout: float = PATIENCE) -> int:
        """SIGTERM, then waits; SIGKILL when it does not end in `timeout` seconds. Returns the exit code."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            return self.wait(timeout)
        except TimeoutError:
            return self.kill9()

    def kill9(self) -> int:
        """SIGKILL, and waits until the kernel has taken it away."""
        self.send(signal.SIGKILL)
        return self.wait()

    def sigstop(self) -> None:
        """Pauses it, as a frozen machine would; its sockets stay open and silent."""
        self.send(signal.SIGSTOP)

    def sigcont(self) -> None:
        """Lets a paused one go on."""
        self.send(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill9()


def _is_idle(pid: int) -> bool:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # this thread has just ended
            return False
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if fields["State"][0] != "S" or int(fields["SigPnd"], 16) or int(fields["ShdPnd"], 16):
            return False
    return True


def children(pid: int) -> set[int]:
    """The direct children of a process, those that its threads started among them."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return set()
    return {int(child) for thread in threads for child in _read(thread / "children").split()}


def words_of(pid: int) -> list[bytes]:
    """The command of a process, a word each; one empty word where it has ended."""
    return _read(Path(f"/proc/{pid}/cmdline")).split(b"\0")


def _read(file: Path) -> bytes:
    """A file in /proc; empty where its process has ended, as it may between two looks."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
