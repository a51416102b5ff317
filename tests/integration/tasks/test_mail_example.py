"""The mail example: its web application, and its workers behind a sidecar and without one, which are killed."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from claimq import State
from claimq.blocking import BlockingQueue
from claimq.testing import assert_enqueued
from testkit.programs.processes import Process, whole_lines
from testkit.repository.tree import ROOT
from testkit.servers.patient import open_blocking_queue, open_blocking_server
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import UnixConnection

EXAMPLE = ROOT / "examples" / "tasks"
LONG = {"task": "send_mail", "args": ["ann@example.com", "x" * 200_000]}
"""More text than fits into a pipe: while the outbox is one, the task waits for its reader."""


@dataclass
class Mail:
    """The queue of the example, and the way in which its workers reach it."""

    queue: BlockingQueue
    outbox: Path
    env: dict[str, str]

    def start(self) -> Process:
        command = [sys.executable, "-m", "claimq.tasks", "mail:app"]
        log = self.outbox.with_name("log")
        # `make` sets PYTHONSAFEPATH, with which the current directory is not searched.
        env = {**self.env, "MAIL_OUTBOX": str(self.outbox), "PYTHONPATH": str(EXAMPLE)}
        return Process(command, log=log, env=env, cwd=EXAMPLE)

    def is_idle(self) -> bool:
        lengths = self.queue.lengths()
        return lengths[State.MAIN] == lengths[State.BUSY] == lengths[State.DELAYED] == 0


@pytest.fixture(params=["through the sidecar", "without a sidecar"])
def mail(
    request: pytest.FixtureRequest, valkey: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mail]:
    monkeypatch.delenv("CLAIMQ_SOCKET", raising=False)
    with open_blocking_queue(valkey.url, "mail") as queue:
        env = {"CLAIMQ_REDIS_URL": valkey.url}
        if request.param == "through the sidecar":
            start_sidecar = request.getfixturevalue("start_sidecar")
            env = {"CLAIMQ_SOCKET": str(start_sidecar(valkey.url, queue="mail", concurrency="1").socket)}
        yield Mail(queue, tmp_path / "outbox", env)


def test_tasks_are_done_or_fail_with_their_reason(mail: Mail) -> None:
    mail.queue.enqueue({"task": "invite", "args": [["ann@example.com", "bob"]]}, id="party")
    mail.queue.enqueue({"task": "invite_all"}, id="unknown")
    worker = mail.start()
    eventually_sync(lambda: mail.is_idle() and mail.queue.length(State.FAILED) == 2)
    assert worker.terminate() == 0
    assert whole_lines(mail.outbox) == ["party.1 ann@example.com: You are invited."]
    failed = {located.item.id: located.item.last_error for located in mail.queue.failed_items()}
    assert failed == {
        "party.2": "'bob' is no address",
        "unknown": "there is no task 'invite_all'; the worker has: invite, send_mail",
    }


def test_a_task_fails_when_its_retries_are_used_up(mail: Mail) -> None:
    mail.outbox.mkdir()
    mail.queue.enqueue(LONG)
    worker = mail.start()
    eventually_sync(lambda: mail.queue.length(State.FAILED) == 1)
    assert worker.terminate() == 0
    (failed,) = mail.queue.failed_items()
    assert failed.item.last_error is not None
    assert failed.item.last_error.startswith("IsADirectoryError: ")
    assert failed.item.error_detail is not None
    assert failed.item.error_detail.splitlines()[-1].endswith("in open")
    assert (failed.item.fail_count, failed.item.crash_count) == (3, 0)


def accepts_connections(path: Path) -> bool:
    with closing(UnixConnection(path)) as connection, suppress(OSError):
        connection.connect()
        return True
    return False


def test_the_web_application_of_the_page_enqueues_a_task_for_each_request(
    valkey: Server, tmp_path: Path
) -> None:
    """docs/howto/fastapi.md: its web command runs as it stands there, and the worker's as in the manifest."""
    page = (ROOT / "docs" / "howto" / "fastapi.md").read_text()
    (web_command,) = re.findall(r"(?m)^    cd examples/tasks && (uvicorn .*?)  ", page)
    (worker_command,) = re.findall(r"command: (\[.*\])", (EXAMPLE / "queue.yaml").read_text())
    socket, outbox = tmp_path / "web", tmp_path / "outbox"
    command = [sys.executable, "-m", *web_command.split(), "--uds", str(socket), "--no-access-log"]
    env = {"CLAIMQ_REDIS_URL": valkey.url, "MAIL_OUTBOX": str(outbox), "PYTHONPATH": str(EXAMPLE)}
    with (
        open_blocking_server(valkey.url) as server,
        Process(command, log=tmp_path / "log", env=env, cwd=EXAMPLE) as web,
    ):
        eventually_sync(lambda: accepts_connections(socket))
        connection = UnixConnection(socket)
        answers: list[tuple[int, Any]] = []
        for address in ("ann@example.com", "ann@example.com", "nowhere"):
            body = json.dumps({"address": address})
            connection.request("POST", "/signups", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answers.append((answer.status, json.load(answer)))
        connection.close()
        item = "welcome-ann@example.com"
        assert answers[:2] == [(202, {"item": item, "is_new": True}), (202, {"item": item, "is_new": False})]
        assert answers[2][0] == 422
        assert_enqueued(
            server.queue("mail"), {"task": "send_mail", "args": ["ann@example.com", "Welcome!"], "kwargs": {}}
        )
        command = [sys.executable, *json.loads(worker_command)[1:]]
        with Process(command, log=tmp_path / "worker.log", env=env, cwd=EXAMPLE) as worker:
            eventually_sync(lambda: server.queue("mail").stats()["done"] == 1, needs=[worker])
            assert worker.terminate() == 0
        assert whole_lines(outbox) == [f"{item} ann@example.com: Welcome!"]
        web.terminate()
        assert "Application shutdown complete" in (tmp_path / "log").read_text()
