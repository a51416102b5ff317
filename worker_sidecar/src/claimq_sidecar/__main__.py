"""``python -m claimq_sidecar``: settings from the environment, then the sidecar.

Exit codes: 0 after a drain, 1 if it cannot listen or a loop fails, 2 for invalid settings.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn


def main() -> int:
    """Runs the sidecar. A SIGTERM during startup ends the process immediately.

    Process 1 of a container gets no signals without a handler: without this one, a pod that is deleted during startup
    would run until its grace period has ended.
    """
    signal.signal(signal.SIGTERM, _exit)
    gc.disable()  # collections take a quarter of the time in which modules load; app.main() enables them again
    from claimq_sidecar.http.listening import open_early

    app_socket = open_early(os.environ)
    from claimq_sidecar.app import main as run  # which takes longer

    return run(app_socket)


def _exit(*_: object) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
