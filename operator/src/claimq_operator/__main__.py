"""``python -m claimq_operator``: runs the operator.

Exit codes: 0 after SIGTERM; 1 if a loop ended by itself (a defect, or no access to the cluster); 2 for invalid
settings.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def main() -> int:
    """Runs the operator. A SIGTERM during the start ends the process at once.

    Process 1 of a container gets only signals that it has a handler for. Without this handler, a pod that is deleted
    while it starts would live until its grace period is over.
    """
    signal.signal(signal.SIGTERM, _end)
    from claimq_operator.app import main as start

    return start()


def _end(*_: object) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
