"""Programs on a real terminal of a given width: what they write to it, byte for byte, and Ctrl-C typed into it."""

import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testkit.waiting import PATIENCE

CTRL_C = b"\x03"
_WRAPPER = """
import fcntl, os, sys, termios
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A program whose stdin, stdout and stderr are a terminal. A context manager: the program ends with it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int | None = None,
    ) -> None:
        """Starts it; ``stdin`` replaces the terminal as its input."""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        outer = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self._popen = subprocess.Popen(
            [sys.executable, "-ISsc", _WRAPPER, *map(str, command)],
            stdin=theirs if stdin is None else stdin,
            stdout=theirs,
            stderr=theirs,
            env={**outer, "TERM": "xterm-256color", **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(theirs)
        self.output = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        os.close(self._ours)

    def type(self, keys: bytes) -> None:
        """Types into the terminal."""
        os.write(self._ours, keys)

    def read_until(self, text: str) -> None:
        """Reads what it writes until this text was in it; AssertionError if it does not come."""
        give_up = time.monotonic() + PATIENCE
        while text.encode() not in self.output:
            assert self._read(give_up), f"{text!r} did not come; there was {self.output!r}"

    def read_for(self, seconds: float) -> None:
        """Reads what it writes within this time, until there is something."""
        assert self._read(time.monotonic() + seconds) or self._popen.poll() is None, self.output

    def wait(self, within: float = PATIENCE) -> int:
        """Reads until it has ended; its exit code."""
        give_up = time.monotonic() + within
        while self._read(give_up):
            pass
        return self._popen.wait(max(0.1, give_up - time.monotonic()))

    def _read(self, give_up: float) -> bool:
        """Some output; False at its end, or when it took too long."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, give_up - time.monotonic()))
        if not ready:
            return False
        try:
            got = os.read(self._ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # how Linux says that the other end is closed
                raise
            got = b""
        self.output += got
        return bool(got)
