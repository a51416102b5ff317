"""`claimq up` stops workers whose sidecars answer late, as on a busy machine."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testkit.waiting import eventually_sync

WORKER = """
import pathlib, sys, time
import claimq.worker
folder = pathlib.Path(sys.argv[1])
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            (folder / "held").touch()
            while not (folder / "go").exists():
                time.sleep(0.01)
            (folder / "done").touch()
"""


def test_a_sidecar_that_is_late_to_answer_is_drained(
    start_up: Callable[..., Any], claimq: Callable[..., Any], tmp_path: Path
) -> None:
    worker = {"command": [sys.executable, "-c", WORKER, str(tmp_path)], "drainTimeout": "10m"}
    up = start_up({"worker": worker, "scaling": {"minReplicas": 1, "maxReplicas": 1}})
    claimq("enqueue", "trial", "x")
    eventually_sync((tmp_path / "held").exists)
    (sidecar,) = up.until_pids("sidecar", 1)
    os.kill(sidecar, signal.SIGSTOP)
    try:
        up.process.send(signal.SIGTERM)
        up.until_says("stopping: workers finish their items")

        def now() -> float:
            return float(claimq("status", "trial", "-o", "json").json["now"])

        stopped_at = now()
        eventually_sync(lambda: now() > stopped_at + 10)
        assert len(up.pids("app")) == 1
    finally:
        os.kill(sidecar, signal.SIGCONT)
    (tmp_path / "go").touch()
    assert up.process.wait() == 0
    assert (tmp_path / "done").exists()
