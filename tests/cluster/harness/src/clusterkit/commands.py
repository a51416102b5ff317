"""Start a program, wait for it, and say what it printed when it fails."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from clusterkit.errors import CommandFailed, HarnessError, is_passing

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds until a wait gives up. Only one that never ends gets there, however busy the machine is."""
WAIT = f"--timeout={PATIENCE:g}s"
"""The same for kubectl and helm."""
LONGEST_RUN = PATIENCE + 60
"""Seconds for a program that waits so long."""
_REPEATED_FOR = 60.0


def run(
    argv: Sequence[str | Path],
    *,
    stdin: bytes | str | Path | None = None,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run to the end, at most `timeout` seconds. `stdin` is what it reads: bytes, text, or a file's path.

    Raises CommandFailed when it ends with a failure (unless `check` is false) and HarnessError when it takes too long
    or isn't there.
    """
    words = [str(word) for word in argv]
    try:
        with stdin.open("rb") if isinstance(stdin, Path) else _text(stdin) as file:
            # The status is looked at below, with what was printed.
            done = subprocess.run(
                words, stdin=file, capture_output=True, timeout=timeout, env=env, cwd=cwd, check=False
            )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"") + (error.stderr or b"")
        raise HarnessError(
            f"{' '.join(words)}\ntook more than {timeout:g} s; it printed: {said[-2000:]!r}"
        ) from error
    except FileNotFoundError as error:
        raise HarnessError(f"{words[0]} is not on this machine: {error}") from error
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check and done.returncode:
        raise CommandFailed(words, done.returncode, out + err)
    return subprocess.CompletedProcess(words, done.returncode, out, err)


def _text(sent: bytes | str | None) -> IO[bytes]:
    """A file that holds what is to be read, and no pipe: a program that doesn't read it can't hold us up."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    file.write(sent.encode() if isinstance(sent, str) else sent or b"")
    file.seek(0)
    return file


def eventually(
    what: str,
    is_so: Callable[[], bool],
    *,
    timeout: float = PATIENCE,
    every: float = 0.1,
    why_not: Callable[[], str] = lambda: "",
) -> None:
    """Wait until `is_so()`, at most `timeout` seconds; the error names `what`, and `why_not()` explains it."""
    deadline = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() > deadline:
            explained = why_not()
            raise HarnessError(
                f"after {timeout:g} s still not so: {what}" + (f"\n{explained}" if explained else "")
            )
        time.sleep(every)


def repeated(request: Callable[[], T]) -> T:
    """The answer to a request of the cluster. One that fails by what passes on a busy machine is sent again, for a
    minute."""
    deadline = time.monotonic() + _REPEATED_FOR
    while True:
        try:
            return request()
        except HarnessError as error:
            if not is_passing(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.5)


LESS_COLLECTING = {"GOGC": "400"}
"""Environment of programs in Go: memory is plentiful here and processor time is not."""


def with_path(first: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with the folder `first` before all others on PATH, and `extra` on top."""
    path = os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {**os.environ, "PATH": f"{first}:{path}", **(extra or {})}
