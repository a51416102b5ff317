"""Worker clients whose requests a test holds up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.sidecars import Sidecar
from testkit.step_gate import Gate


@pytest.fixture
def gate(sidecar: Sidecar, tmp_path: Path) -> Iterator[Gate]:
    with Gate(tmp_path / "gate", sidecar) as made:
        yield made
        made.open()
        made.shutdown()


@pytest.fixture
def every_loop_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("claimq.worker.loop._QUICK_SECONDS", 1e9)
