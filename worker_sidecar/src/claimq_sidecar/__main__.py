"""``python -m claimq_sidecar``: settings from the environment, then the sidecar.

Exit codes: 0 after a drain, 1 for a socket that cannot be had or a defect, 2 for settings that are not valid.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def main() -> int:
    """Starts it. A SIGTERM that comes before it is ready to take one ends it at once.

    Whoever is process 1 of a container gets no signal that it has not asked for: without this, a pod that is told to
    end while it starts would live until its grace period is over.
    """
    signal.signal(signal.SIGTERM, _end)
    from claimq_sidecar.app import main as start

    return start()


def _end(*_: object) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
