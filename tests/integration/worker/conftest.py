"""Worker clients whose requests a test holds up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import claimq.worker
from claimq.worker import Worker
from testkit.workers.sidecars import Sidecar
from testkit.workers.step_gate import Gate


@pytest.fixture
def worker(sidecar: Sidecar) -> Iterator[Worker]:
    with claimq.worker.connect(sidecar.socket) as made:
        yield made


@pytest.fixture
def gate(sidecar: Sidecar, tmp_path: Path) -> Iterator[Gate]:
    with Gate(tmp_path / "gate", sidecar) as made:
        yield made
        made.open()
        made.shutdown()


@pytest.fixture
def every_loop_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a busy machine: each loop claims ahead, and no short block waits for its verdict."""
    monkeypatch.setattr("claimq.worker.loops.loop._QUICK_SECONDS", 1e9)
    monkeypatch.setattr("claimq.worker.loops.loop._SHORT_SECONDS", 1e9)
    monkeypatch.setattr("claimq.consuming.engine.chunk_size.AHEAD_SECONDS", 1e9)
