"""The command `claimq`. It loads its commands where an interrupt is caught: Ctrl-C at the start leaves no traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command; see :func:`claimq_cli.program.run`."""
    try:
        from claimq_cli.program import run

        run(arguments)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
