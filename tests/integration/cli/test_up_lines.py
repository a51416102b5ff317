"""`claimq up --lines FILE --until-empty`: works on a list and exits."""

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from testkit.plugin import Claimq, StartUp
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

WORKER = """
import pathlib, sys
import claimq.worker
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            if item.text.startswith("broken"):
                raise ValueError("it is broken")
            with pathlib.Path(sys.argv[1], "done").open("a") as results:
                results.write(item.text + "\\n")
"""


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, object]:
    """A queue whose worker writes down what it did."""
    (tmp_path / "worker.py").write_text(WORKER)
    return {
        "worker": {"command": [sys.executable, str(tmp_path / "worker.py"), str(tmp_path)]},
        "scaling": {"maxReplicas": 2, "idleAfter": "1s"},
        "requeueLimit": 0,
    }


def manifest(name: str) -> str:
    return (
        f"apiVersion: claimq.dev/v1alpha1\nkind: ReliableQueue\nmetadata: {{name: {name}}}\n"
        "spec: {worker: {command: [cat]}}\n"
    )


def done(folder: Path) -> list[str]:
    file = folder / "done"
    return sorted(file.read_text().split()) if file.exists() else []


def is_interrupted(up: Any, why: str) -> None:
    """It ends after SIGTERM and says why."""
    up.process.send(signal.SIGTERM)
    assert up.process.wait() == 130, up.text
    assert up.text.splitlines()[-1] == f"claimq: {why}"


def test_it_works_on_a_list_and_exits(start_up: StartUp, spec: dict[str, object], tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(2500)]
    (tmp_path / "list").write_text("\n".join([*names, "", "broken"]))
    up = start_up(spec, "--web", "off", "--lines", str(tmp_path / "list"), "--until-empty", wait=False)
    assert up.process.wait() == 0, up.text
    assert done(tmp_path) == sorted(names)
    assert "trial: 2,501 items enqueued" in up.text
    assert "main, busy and delayed are empty; 1 item in failed" in up.text


def test_a_repeat_with_the_same_ids_adds_nothing(
    start_up: StartUp, spec: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "list").write_bytes(b"a\0b\0c")
    words = ["--web", "off", "--lines", str(tmp_path / "list"), "--null", "--until-empty"]
    for said in ("3 items enqueued", "0 items enqueued, 3 items known already"):
        up = start_up(spec, *words, "--id-prefix", "l-", wait=False)
        assert up.process.wait() == 0, up.text
        assert f"trial: {said}" in up.text
    assert done(tmp_path) == ["a", "b", "c"]


def test_a_signal_ends_the_load_and_says_where_to_continue(
    start_up: StartUp, spec: dict[str, object], tmp_path: Path
) -> None:
    """The list is a pipe whose writer stays open, as `tail -f` does."""
    fifo = tmp_path / "list"
    os.mkfifo(fifo)
    up = start_up(spec, "--web", "off", "--lines", str(fifo), "--until-empty")
    with fifo.open("w") as writer:
        writer.write("a\nb\n")
        writer.flush()
        eventually_sync(lambda: done(tmp_path) == ["a", "b"])
        is_interrupted(up, "interrupted; stopped after line 2, 2 enqueued; continue with --from-line 3")


def test_a_signal_after_the_load_says_that_items_are_left(
    start_up: StartUp, spec: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "list").write_text("a\n")
    up = start_up(
        {**spec, "worker": {"command": ["sleep", "1000"]}},
        *("--web", "off", "--lines", str(tmp_path / "list"), "--until-empty"),
    )
    up.until_says("1 item enqueued")
    is_interrupted(up, "interrupted; `claimq up` continues with the items that are left")


def test_a_line_that_is_refused_is_named_and_the_others_are_done(
    start_up: StartUp, spec: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "list").write_text("a\n" + "x" * 2000 + "\nb\n")
    words = ["--web", "off", "--lines", str(tmp_path / "list"), "--until-empty"]
    up = start_up({**spec, "maxPayload": "1Ki"}, *words, wait=False)
    assert up.process.wait() == 1, up.text
    reason = "the payload has 2000 bytes and the queue takes at most 1024"
    assert f"line 2 is not enqueued: {reason}" in up.text
    assert "trial: 2 items enqueued, 1 line refused" in up.text
    assert up.text.splitlines()[-1] == f"claimq: 1 line refused; the first is line 2: {reason}"
    assert done(tmp_path) == ["a", "b"]


def test_options_without_a_list_and_a_list_for_two_queues_are_refused(claimq: Claimq, tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(manifest("a") + "---\n" + manifest("b"))
    (tmp_path / "list").write_text("a\n")
    refused = {
        ("--null",): "--null, --from-line and --id-prefix need --lines",
        ("--lines", "list"): "the manifest has 2 queues; --lines needs a manifest with one",
    }
    for words, why in refused.items():
        answer = claimq("up", *words)
        assert (answer.code, answer.err) == (2, f"claimq: {why}\n")


def test_stdin_is_not_read_for_both_manifest_and_list(
    claimq: Claimq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(manifest("a")))
    answer = claimq("up", "-f", "-", "--lines", "-")
    assert (answer.code, answer.err) == (
        2, "claimq: -f - and --lines - both read stdin; name a file for one of them\n",
    )  # fmt: skip
    assert not (tmp_path / ".claimq").exists()


def test_a_list_that_cannot_be_read_is_refused_before_anything_starts(claimq: Claimq, tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(manifest("a"))
    answer = claimq("up", "--lines", "absent")
    assert answer.code == 2
    assert "absent cannot be read (No such file or directory)" in answer.err
    assert not (tmp_path / ".claimq").exists()


def test_it_fills_a_queue_of_another_server(
    start_up: StartUp, valkey: Server, spec: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "list").write_text("a\nb\n")
    up = start_up(
        spec,
        "--web",
        "off",
        "--redis",
        valkey.url,
        "--lines",
        str(tmp_path / "list"),
        "--until-empty",
        wait=False,
    )
    assert up.process.wait() == 0, up.text
    with open_blocking_queue(valkey.url, "trial") as queue:
        assert queue.snapshot().counters["done"] == 2
