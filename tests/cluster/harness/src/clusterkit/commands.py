"""Start a program, wait for it, and say what it printed when it fails."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from clusterkit.errors import CommandFailed, HarnessError


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
    timeout: float,
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


LESS_COLLECTING = {"GOGC": "400"}
"""Environment of programs in Go: memory is plentiful here and processor time is not."""


def with_path(first: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with the folder `first` before all others on PATH, and `extra` on top."""
    path = os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {**os.environ, "PATH": f"{first}:{path}", **(extra or {})}
