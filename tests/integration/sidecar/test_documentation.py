"""The examples of docs/sidecar.md, run as they stand there."""

import asyncio
import json
import re
import signal
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq_sidecar.push.decisions import NoResponse
from testkit.repository.tree import ROOT
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.push_app import PushApp
from testkit.workers.sidecars import Sidecar, StartSidecar

PAGE = (ROOT / "docs" / "sidecar.md").read_text()
API_PAGE = (ROOT / "docs" / "api.md").read_text()
METRICS_PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.MULTILINE)]


def block(containing: str) -> str:
    (found,) = [block for block in BLOCKS if containing in block]
    return found


def bash(script: str, sidecar: Sidecar, directory: Path) -> str:
    setting = f"export CLAIMQ_SOCKET={sidecar.socket}\n"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", setting + script],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask_function() -> str:
    return next(line for line in block("ask() {").splitlines() if line.startswith("ask()"))


def test_the_first_shell_example_works(sidecar: Sidecar, queue: BlockingQueue, tmp_path: Path) -> None:
    define, enqueue, claim, done = [line for line in block("ask() {").splitlines() if line.startswith("ask")]
    enqueued, claimed = bash(f"{define}\n{enqueue}\n{claim}", sidecar, tmp_path).splitlines()
    token = json.loads(claimed)["claims"][0]["token"]
    ended = bash(f"{define}\n{done.replace('TOKEN', token)}", sidecar, tmp_path)
    assert json.loads(enqueued)["length"] == 1
    assert json.loads(claimed)["claims"][0]["payload"] == {"url": "cat.png"}
    assert json.loads(ended)["outcomes"] == [{"token": token, "outcome": "done"}]


def test_the_example_of_one_request_for_each_item_works(
    sidecar: Sidecar, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.enqueue_many(["a", "b", "c"])
    token = "TOKEN"
    outcomes: list[str] = []
    for line in [line for line in block("ask /v1/next").splitlines() if line.startswith("ask")]:
        reply = json.loads(bash(f"{ask_function()}\n{line.replace('TOKEN', token)}", sidecar, tmp_path))
        outcomes += [one["outcome"] for one in reply["outcomes"]]
        token = reply["claims"][0]["token"]
    assert outcomes == ["done", "delayed"]


def test_the_python_examples_work(
    sidecar: Sidecar, queue: BlockingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAIMQ_SOCKET", str(sidecar.socket))
    seen: list[object] = []
    worker = claimq.worker.connect()
    with worker:
        names = {"claimq": claimq, "worker": worker}
        exec("items = worker.claim(100, wait=0)\n" + block("worker.claim(100").split("\n", 1)[1], names)
    assert queue.lengths()[State.MAIN] == 4
    queue.flush()
    queue.enqueue({"n": 1})

    def make_thumbnail(value: object) -> None:
        seen.append(value)
        sidecar.running.send(signal.SIGTERM)

    exec(block("for item in worker.items():                  #"), {"make_thumbnail": make_thumbnail})
    assert seen == [{"n": 1}]
    assert sidecar.running.wait() == 0


def test_the_async_example_works(
    sidecar: Sidecar, queue: BlockingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAIMQ_SOCKET", str(sidecar.socket))
    queue.enqueue({"n": 1})
    seen: list[object] = []

    async def make_thumbnail(value: object) -> None:
        seen.append(value)
        sidecar.running.send(signal.SIGTERM)

    names: dict[str, Any] = {"claimq": claimq, "make_thumbnail": make_thumbnail}
    exec("async def main():\n" + textwrap.indent(block("connect_async()"), "    "), names)
    asyncio.run(names["main"]())
    assert seen == [{"n": 1}]


def test_the_pages_have_every_path_and_every_metric(sidecar: Sidecar, queue: BlockingQueue) -> None:
    text = PAGE + API_PAGE
    paths = sidecar.ask("GET", "/nothing").json["detail"] + sidecar.health("/nothing").json["detail"]
    assert [path for path in re.findall(r"/[\w./]+", paths.replace("/nothing", "")) if path not in text] == []
    names = re.findall(
        r"^# TYPE (claimq_sidecar_\w+)", sidecar.health("/metrics").body.decode(), re.MULTILINE
    )
    assert len(names) > 10
    assert [name for name in names if f"`{name}`" not in METRICS_PAGE] == []


def metrics_of(sidecar: Sidecar) -> dict[str, set[str]]:
    """The names of its metrics without the prefix, and the names of the labels of each."""
    text = sidecar.health("/metrics").body.decode()
    found = re.findall(r"^# TYPE claimq_sidecar_(\w+)", text, re.MULTILINE)
    return {name: set(re.findall(rf'^claimq_sidecar_{name}{{(\w+)="', text, re.MULTILINE)) for name in found}


def documented_push_metrics() -> dict[str, set[str]]:
    """The same of the reference's table."""
    table = METRICS_PAGE.split("\n## Push delivery\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `claimq_sidecar_(\w+)` \| (?:`(\w+)`)? \|", table, re.MULTILINE)
    assert len(rows) == table.count("\n| `"), "each row has one metric with at most one label"
    return {name: {label} - {""} for name, label in rows}


def test_the_reference_has_the_metrics_of_push_delivery_and_no_other(
    valkey: Server, sidecar: Sidecar, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    with PushApp() as app:
        pushing = start_sidecar(valkey.url, worker="pusher", push_port=str(app.port))
        queue.enqueue("a")
        eventually_sync(lambda: pushing.metric('claimq_sidecar_pushes_total{result="2xx"}') == 1)
        others = metrics_of(sidecar)
        shown = {name: labels for name, labels in metrics_of(pushing).items() if name not in others}
    assert shown == documented_push_metrics()
    assert [result for result in NoResponse if result not in METRICS_PAGE] == []
