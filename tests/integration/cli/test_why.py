"""`claimq why` with a running local mode: the arithmetic of its last scaling decision."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import eventually_sync

Claimq = Callable[..., Any]
StartUp = Callable[..., Any]


@pytest.fixture
def idle_spec() -> dict[str, object]:
    return {"worker": {"command": [sys.executable, "-c", "import time; time.sleep(600)"]}, "scaling": {}}


def test_a_queue_of_local_mode_shows_why_it_has_its_workers(
    start_up: StartUp, claimq: Claimq, tmp_path: Path, idle_spec: dict[str, object]
) -> None:
    start_up({**idle_spec, "scaling": {"maxReplicas": 1, "targetAge": "10s", "itemsPerReplica": 2}})
    assert claimq("enqueue", "trial", *map(str, range(40))).code == 0

    def is_decided() -> bool:
        found = claimq("why", "trial", "-o", "json")
        return bool(found.code == 0 and found.json.get("limit") == "MaxReplicas")

    eventually_sync(is_decided, why="the decision on 40 items is shown")
    found = claimq("why", "trial", "-o", "json").json
    assert (found["queue"], found["replicas"], found["rule"]) == ("trial", 1, "MaxReplicas")
    assert (found["inputs"]["main"], found["demand"]["forItemsPerReplica"]) == (40, 20)
    assert found["source"] == str(tmp_path / ".claimq")
    text = claimq("why", "trial").out
    assert text.startswith("trial: 1 worker (MaxReplicas), since ")
    assert re.search(r"^limited: MaxReplicas: \d+ workers would meet the target$", text, re.MULTILINE), text
    for row in ("items waiting", "workers for itemsPerReplica", "workers to start every item in time"):
        assert row in text, text


def test_a_queue_that_local_mode_does_not_run_is_not_looked_up_elsewhere_with_data(
    start_up: StartUp, claimq: Claimq, tmp_path: Path, idle_spec: dict[str, object]
) -> None:
    start_up(idle_spec)
    found = claimq("why", "default.other", "--data", str(tmp_path / ".claimq"))
    assert (found.code, found.out) == (1, "")
    assert "no `claimq up` with the queue default.other is running in" in found.err


def test_a_misspelled_queue_of_local_mode_is_refused_with_the_one_that_is_meant(
    start_up: StartUp,
    claimq: Claimq,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    idle_spec: dict[str, object],
) -> None:
    start_up(idle_spec)
    eventually_sync(lambda: claimq("why", "trial").code == 0, why="there is a decision")
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(
        "#!/bin/sh\necho 'The connection to the server localhost:8080 was refused' >&2\nexit 1\n"
    )
    kubectl.chmod(0o700)
    monkeypatch.setenv("PATH", str(kubectl.parent))
    for more in ([], ["--data", str(tmp_path / ".claimq")]):
        found = claimq("why", "trail", *more)
        assert (found.code, found.out) == (1, "")
        assert "did you mean trial?" in found.err


def test_without_local_mode_and_without_kubectl_the_error_names_both(
    claimq: Claimq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = claimq("why", "thumbs")
    assert (found.code, found.out) == (1, "")
    assert "no running `claimq up` has the queue thumbs; kubectl" in found.err
