"""`claimq up --reload`: new code and a new manifest are used without losing an item."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.plugin import Claimq, StartUp
from testkit.waiting import eventually_sync

WORKER = """
import pathlib, sys, time
import claimq.worker
folder = pathlib.Path(sys.argv[1])
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            if item.text.startswith("hold"):
                (folder / f"held-{item.text}").touch()
                while not (folder / "go").exists():
                    time.sleep(0.01)
            with (folder / "done").open("a") as results:
                results.write(f"{item.text} by CODE\\n")
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code of a worker, which writes down what it did."""
    path = tmp_path / "code" / "worker.py"
    path.parent.mkdir()
    path.write_text(WORKER.replace("CODE", "old"))
    return path


def replace(code: Path, version: str) -> None:
    """Replaces the code of the worker in one step, as editors do; the new file was not below what is watched."""
    new = code.parents[1] / "worker.py.new"
    new.write_text(WORKER.replace("CODE", version))
    new.replace(code)


def spec(code: Path, folder: Path) -> dict[str, Any]:
    return {
        "worker": {"command": [sys.executable, str(code), str(folder)], "drainTimeout": "10m"},
        "scaling": {"minReplicas": 1, "maxReplicas": 2},
    }


def done(folder: Path) -> list[str]:
    file = folder / "done"
    return sorted(file.read_text().splitlines()) if file.exists() else []


@pytest.mark.parametrize("watched", ["code", "code/worker.py"])
def test_new_code_gets_the_next_items_and_the_old_finishes_its_own(
    start_up: StartUp, claimq: Claimq, code: Path, tmp_path: Path, watched: str
) -> None:
    up = start_up(spec(code, tmp_path), "--reload", str(tmp_path / watched))
    up.until_says(r"watching /")
    claimq("enqueue", "trial", "hold-1")
    eventually_sync((tmp_path / "held-hold-1").exists)
    replace(code, "new")
    up.until_says(r"worker\.py.* changed: replacing 1 worker")
    claimq("enqueue", "trial", "a")
    eventually_sync(lambda: done(tmp_path) == ["a by new"])
    (tmp_path / "go").touch()
    eventually_sync(lambda: done(tmp_path) == ["a by new", "hold-1 by old"])

    def counts() -> tuple[int, int, int]:
        found = claimq("status", "trial", "-o", "json").json["counters"]
        return found["done"], found.get("crashes", 0), found.get("unclaimed", 0)

    eventually_sync(lambda: counts() == (2, 0, 0), why="the verdict comes after what the worker writes")
    up.until_pids("app", 1)


def were_replaced(up: Any, times: int) -> bool:
    log: str = up.log.read_text()
    return log.count("changed: replacing 1 worker") == times


def test_workers_that_finish_their_items_limit_how_many_are_started(
    start_up: StartUp, claimq: Claimq, code: Path, tmp_path: Path
) -> None:
    up = start_up(
        {**spec(code, tmp_path), "scaling": {"minReplicas": 1, "maxReplicas": 1}}, "--reload", str(code)
    )
    up.until_says(r"watching /")
    for number in range(4):
        claimq("enqueue", "trial", f"hold-{number}")
        eventually_sync((tmp_path / f"held-hold-{number}").exists)
        replace(code, f"version {number}")
        if number < 3:
            eventually_sync(partial(were_replaced, up, number + 1))
    up.until_says(r"worker\.py changed: waiting for earlier workers to finish their items")
    up.until_pids("app", 4)
    (tmp_path / "go").touch()
    eventually_sync(partial(were_replaced, up, 4))
    eventually_sync(lambda: len(done(tmp_path)) == 4)


def test_a_changed_manifest_is_used_and_an_invalid_one_is_not(
    start_up: StartUp, claimq: Claimq, code: Path, tmp_path: Path
) -> None:
    up = start_up(spec(code, tmp_path), "--reload", str(code))
    up.until_says(r"watching /")
    file = tmp_path / "queue.yaml"
    manifest = yaml.safe_load(file.read_text())

    def write(**fields: object) -> None:
        file.write_text(yaml.safe_dump({**manifest, "spec": {**manifest["spec"], **fields}}))

    write(requeueLimit=7, scaling={"minReplicas": 2, "maxReplicas": 2})
    up.until_says(r"queue\.yaml changed: replacing 1 worker")
    up.until_pids("app", 2)
    assert claimq("policy", "trial", "-o", "json").json["policy"]["requeue_limit"] == 7
    write(requeueLimit=-1)
    up.until_says(r"queue\.yaml changed, and is not used: .*spec\.requeueLimit")
    write(queueName="other")
    up.until_says(r"queue\.yaml changed, and is not used: it names other queues or servers; stop `claimq up`")
    assert claimq("policy", "trial", "-o", "json").json["policy"]["requeue_limit"] == 7
    claimq("enqueue", "trial", "a")
    eventually_sync(lambda: done(tmp_path) == ["a by old"])


def test_a_path_that_is_not_there_is_refused(claimq: Claimq, tmp_path: Path) -> None:
    answer = claimq("up", "--reload", str(tmp_path / "nothing"))
    assert (answer.code, "does not exist" in answer.err) == (2, True)
