"""The command `claimq`. It loads its commands where an interrupt is caught: Ctrl-C at the start leaves no traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, *, is_plugin: bool = False) -> NoReturn:
    """Runs the command; see :func:`claimq_cli.program.run`."""
    try:
        from claimq_cli.program import run

        run(arguments, is_plugin=is_plugin)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def kubectl_plugin() -> NoReturn:
    """Runs `kubectl claimq`: the same commands, for the ReliableQueues of kubectl's current namespace by default."""
    main(is_plugin=True)


if __name__ == "__main__":
    main()
