"""Ends the app of a worker of a running `claimq up`. Local mode gives its items back and starts it again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from claimq.address import local_mode
from claimq_local.processes.process_table import Identity, identify, send
from claimq_local.state_directory import StateDirectory

_GRACE = 10.0


def end_app(worker: str, queue: str, directory: Path | None) -> int | None:
    """Sends SIGTERM to the app of a worker, and SIGKILL ten seconds later. Returns the process id.

    ``worker``: its name in claims, or that of its log. None if no running local mode has this worker of the queue.
    ``directory``: of the only local mode that counts."""
    for place in local_mode.running(directory):
        state = StateDirectory(place).read()
        if state is None or queue not in state.claim_names:
            continue
        for process in state.processes:
            is_of_queue = process.name.startswith(f"{queue}-") and process.role == "app"
            if is_of_queue and f"{worker}.".startswith(f"{process.name}."):
                return process.pid if _end(Identity(process.pid, process.started)) else None
    return None


def _end(app: Identity) -> bool:
    """False if it had ended before."""
    if not send(app, signal.SIGTERM):
        return False
    timeout_at = time.monotonic() + _GRACE
    while identify(app.pid) == app:
        if time.monotonic() > timeout_at:
            send(app, signal.SIGKILL)
            break
        time.sleep(0.1)
    return True
