"""The command `claimq`. It loads its commands where an interrupt is caught: Ctrl-C at the start leaves no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, *, is_plugin: bool = False) -> NoReturn:
    """Runs the command; see :func:`claimq_cli.program.run`."""
    try:
        _open_missing_streams()
        from claimq_cli.program import run

        run(arguments, is_plugin=is_plugin)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except SystemExit as end:
        if end.code:
            _drop_what_cannot_be_printed()
        raise


def _open_missing_streams() -> None:
    """Opens /dev/null for standard streams that the caller has closed: a connection would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - it stays open


def _drop_what_cannot_be_printed() -> None:
    """After an error: Python would try once more to print it, and exit with 120 instead of the command's code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def kubectl_plugin() -> NoReturn:
    """Runs `kubectl claimq`: the same commands, for the ReliableQueues of kubectl's current namespace by default."""
    main(is_plugin=True)


if __name__ == "__main__":
    main()
