"""``python -m claimq_sidecar``: settings from the environment, then the sidecar.

Exit codes: 0 after a drain, 1 if it cannot listen or a loop fails, 2 for invalid settings.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import NoReturn


def main() -> int:
    """Runs the sidecar. A SIGTERM during startup ends the process immediately.

    Process 1 of a container gets no signals without a handler: without this one, a pod that is deleted during startup
    would run until its grace period has ended.
    """
    signal.signal(signal.SIGTERM, _exit)
    gc.disable()  # collections take a quarter of the time in which modules load; app.main() enables them again
    from claimq_sidecar.http.connection.listening import open_early

    app_socket = open_early(os.environ)
    _import_uvicorn()
    from claimq_sidecar.app import main as run  # which takes longer

    return run(app_socket)


def _import_uvicorn() -> None:
    """Imports the package without its ``__init__``, which would import its command line: 2 MB of an idle sidecar.

    Its modules need one name of the package (``uvicorn/lifespan``), and ours none.
    """
    package = find_spec("uvicorn")
    if package is not None:
        module = sys.modules["uvicorn"] = module_from_spec(package)
        module.__dict__["Config"] = import_module("uvicorn.config").Config


def _exit(*_: object) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
