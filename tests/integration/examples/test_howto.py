"""docs/howto: the programs of the pages, run as they stand there."""

import asyncio
import gzip
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

import claimq
import claimq.worker
from claimq import blocking
from claimq.model import State
from claimq.testing import EmbeddedServer
from claimq.waiting.fairness import Fairness, Turns, Weights
from claimq_control.manifest import parse_manifest
from clusterkit import toolchain
from testkit.kubernetes.api_server import ApiServer
from testkit.programs.languages import build_go
from testkit.programs.processes import Process
from testkit.queues.looking import texts
from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE, eventually_sync
from testkit.web.producer_endpoint import ProducerEndpoint
from testkit.workers.client_drivers import NODE
from testkit.workers.push_app import PushApp, Pushed

FOLDER = ROOT / "docs" / "howto"
NOT_RUN = {"image": "its Dockerfile: that of examples/checksums is built and run on a cluster"}


def block(page: str, language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", (FOLDER / f"{page}.md").read_text(), re.DOTALL)
    return str(text)


def program(page: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": page}
    exec(compile(block(page, "python"), f"{page}.md", "exec"), names)
    return names


def run_command(line: str) -> str:
    command = line.partition(" #")[0].strip().replace("claimq", f"{sys.executable} -m claimq_cli", 1)
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(page: str) -> list[str]:
    return re.findall(r"(?m)^    (claimq .*)", (FOLDER / f"{page}.md").read_text())


def sentry_events(pushed: Pushed) -> list[dict[str, Any]]:
    """The events in an envelope of Sentry: lines of a head, then of each part its head and its body."""
    body = gzip.decompress(pushed.body) if pushed.headers.get("content-encoding") == "gzip" else pushed.body
    _, *parts = body.decode().splitlines()
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [json.loads(text) for head, text in pairs if json.loads(head)["type"] == "event"]


def test_each_page_with_a_program_is_run_here() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md") if "```" in path.read_text()}
    tested = {
        "cron",
        "result",
        "cancel",
        "time-limit",
        "retry",
        "after-commit",
        "limit-calls",
        "share-workers",
        "one-at-a-time",
        "produce-over-http",
    }
    assert pages == tested | NOT_RUN.keys()


def test_two_pods_of_one_run_of_the_cron_job_enqueue_one_item(
    claimq_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("report-29012345", "report-29012345", "report-29012346"):
        monkeypatch.setenv("JOB", job)
        program("cron")
    assert [item.id for item in claimq_server.queue("media.reports").peek(9)] == [
        "report-29012345",
        "report-29012346",
    ]


def test_kubernetes_accepts_the_cron_job() -> None:
    document = yaml.safe_load(block("cron", "yaml"))
    with ApiServer() as server:
        path = "/apis/batch/v1/namespaces/default/cronjobs?fieldValidation=Strict"
        status, answer = server.request("POST", path, document)
    assert status == 201, answer


def test_a_result_reaches_the_producer_that_waits_for_it(claimq_server: EmbeddedServer) -> None:
    names = program("result")
    queue = claimq_server.queue("squares")
    worker = threading.Thread(target=lambda: queue.consume(names["square"], max_items=1))
    worker.start()
    assert names["ask"](7) == 49
    worker.join()


def test_an_item_that_is_removed_ends_the_work_on_it(
    claimq_server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    names = program("cancel")
    remove, cancel = commands("cancel")
    queue = claimq_server.queue("films")
    queue.enqueue("film", id="film-17")
    page_encode = names["encode"]
    with claimq_server.sidecar("films") as sidecar:

        def encode(item: claimq.worker.Item) -> None:
            run_command(remove)
            page_encode(item)
            threading.Thread(target=sidecar.drain).start()

        names["encode"] = encode
        names["main"]()
    assert "part" not in capsys.readouterr().out
    assert queue.lengths() == dict.fromkeys(State, 0)
    queue.enqueue("film", id="film-18")
    run_command(cancel.replace("film-17", "film-18"))
    assert [failed.item.last_error for failed in queue.failed_items()] == ["withdrawn"]


def test_an_item_that_takes_longer_than_its_limit_fails(claimq_server: EmbeddedServer) -> None:
    resize = program("time-limit")["resize"]
    claimq_server.queue("pictures").set_policy(claimq.Policy(requeue_limit=0))
    claimq_server.queue("pictures").enqueue_many(["0", "60"])

    async def work() -> None:
        async with claimq.connect() as server:
            await server.queue("pictures").consume(resize, return_when_empty=True)

    asyncio.run(work())
    (failed,) = claimq_server.queue("pictures").failed_items()
    assert (failed.item.text, failed.item.last_error) == ("60", "TimeoutError: ")


def test_a_queue_has_the_limits_of_the_page(claimq_server: EmbeddedServer) -> None:
    program("limit-calls")
    queue = claimq_server.queue("letters")
    limits = queue.policy().limits
    assert limits == (claimq.Limit("mail-api", rate="100/s", burst=20), claimq.Limit("licences", busy=5))
    assert yaml.safe_load(block("limit-calls", "yaml"))["limits"] == [
        {"name": "mail-api", "rate": "100/s", "burst": 20},
        {"name": "licences", "busy": 5},
    ]
    queue.enqueue_many(f"{number}" for number in range(30))
    assert len(queue.claim(30, wait=0)) == 5
    (lower,) = commands("limit-calls")
    run_command(lower)
    (change,) = queue.snapshot().temporary_limits
    assert (str(change.limit), change.reason) == ("mail-api:rate=1/s", "API down")
    assert queue.policy().limits == limits


def test_clients_share_the_time_of_the_workers_as_the_page_says(claimq_server: EmbeddedServer) -> None:
    program("share-workers")
    queue, each = claimq_server.queue("reports"), yaml.safe_load(block("share-workers", "yaml"))
    assert queue.policy().fairness == Fairness(by=Turns.TIME, weights=Weights(acme=3))
    kind = {"apiVersion": "claimq.dev/v1alpha1", "kind": "ReliableQueue", "metadata": {"name": "reports"}}
    spec = {"redis": {"url": "redis://a"}, "worker": {"image": "a:1"}, **each}
    assert (
        parse_manifest({**kind, "spec": spec}).spec.policy_fields().get("fairness") == queue.policy().fairness
    )
    (change,) = commands("share-workers")
    run_command(change)
    queue.enqueue_many([claimq.NewItem("year", client=client) for client in ["acme"] * 8 + ["bob"] * 3])
    counts = Counter(claim.item.client for _ in range(3) for claim in queue.claim(9, wait=0))
    assert counts == {"acme": 2, "bob": 2}


def test_a_customer_has_one_item_in_progress_in_the_order_of_arrival(claimq_server: EmbeddedServer) -> None:
    program("one-at-a-time")
    queue = claimq_server.queue("accounts")
    assert yaml.safe_load(block("one-at-a-time", "yaml"))["limits"] == [
        {"name": "one", "per": "client", "busy": 1}
    ]
    queue.enqueue("debit", client="bob")
    first = queue.claim(9, wait=0)
    assert sorted((claim.item.client, claim.item.text) for claim in first) == [
        ("ann", "debit"),
        ("bob", "debit"),
    ]
    assert queue.claim(9, wait=0) == []
    queue.done(first)
    assert texts(queue.claim(9, wait=0)) == ["credit"]


def test_the_policy_of_the_page_on_retries_is_valid() -> None:
    document = {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "calls"},
        "spec": {
            "redis": {"url": "redis://a"},
            "worker": {"image": "a:1"},
            **yaml.safe_load(block("retry", "yaml"))["spec"],
        },
    }
    assert parse_manifest(document).spec.retry_delay.factor == 3


def test_a_handler_chooses_the_delay_of_the_next_attempt(claimq_server: EmbeddedServer) -> None:
    queue = claimq_server.queue("calls")
    queue.enqueue_many(["fine", "busy", "wrong"])
    before = queue.snapshot().now
    queue.consume(program("retry")["call"], return_when_empty=True)
    (delayed,) = queue.items(State.DELAYED)
    assert (delayed.item.text, queue.stats()["done"]) == ("busy", 1)
    assert delayed.due_at is not None
    assert before <= delayed.due_at - 30 <= queue.snapshot().now
    assert texts(queue.failed_items()) == ["wrong"]


def test_a_crash_between_enqueue_and_delete_adds_no_second_item(claimq_server: EmbeddedServer) -> None:
    names = program("after-commit")
    database = sqlite3.connect(":memory:")
    database.execute(names["TABLE"])
    names["place"](database, "two books")
    queue = claimq_server.queue("orders")
    queue.enqueue("two books", id="order-1")  # as a process did that then died
    names["send"](database, queue)
    names["place"](database, "a pen")
    names["send"](database, queue)
    assert texts(queue.peek(9)) == ["two books", "a pen"]
    assert database.execute("SELECT count(*) FROM outbox").fetchone() == (0,)


def test_a_payload_that_another_language_pushes_is_claimed(claimq_server: EmbeddedServer) -> None:
    text = (FOLDER / "node-and-go.md").read_text()
    keys = set(re.findall(r'"(cq:\S+?)"', text))
    assert keys == {"cq:{thumbnails}:main"}
    with redis.Redis.from_url(claimq_server.url) as client:
        client.lpush(keys.pop(), "cat.png")
    (claim,) = claimq_server.queue("thumbnails").claim(1)
    assert claim.item.text == "cat.png"


def test_a_password_is_rotated_while_a_program_enqueues(claimq_server: EmbeddedServer) -> None:
    add, *remove = re.findall(r"(?m)^ +((?:ACL|CLIENT) .*)", (FOLDER / "rotate-password.md").read_text())
    with redis.Redis.from_url(claimq_server.url) as admin:

        def run(line: str) -> None:
            admin.execute_command(*line.split())

        run("ACL SETUSER thumbnails-worker on >OLD ~* &* +@all")
        settings = claimq.RedisSettings(claimq_server.url, username="thumbnails-worker")
        old, new = (replace(settings, password=password) for password in ("OLD", "NEW"))
        with blocking.connect(settings=old) as before, blocking.connect(settings=new) as after:
            before.queue("q").enqueue("a")
            run(add)
            after.queue("q").enqueue("b")
            before.queue("q").enqueue("c")
            for line in remove:
                run(line)
            with pytest.raises(claimq.StoreMisused, match="password"):
                before.queue("q").enqueue("d")
            after.queue("q").enqueue("e")
    assert texts(claimq_server.queue("q").peek(9)) == ["a", "b", "c", "e"]


@pytest.mark.parametrize(("way", "logger"), [("consume", "claimq.consuming"), ("items", "claimq.worker")])
def test_failures_are_logged_with_logger_level_and_exception(
    way: str, logger: str, claimq_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    queue = claimq_server.queue("q")
    queue.set_policy(claimq.Policy(requeue_limit=0))
    queue.enqueue("a")

    def fail(item: claimq.Item | claimq.worker.Item) -> None:
        raise ValueError(item.text)

    def main() -> None:
        with claimq.worker.connect() as worker:
            for item in worker.items():
                with item:
                    fail(item)

    with caplog.at_level(logging.INFO):
        if way == "consume":
            queue.consume(fail, return_when_empty=True)
        else:
            claimq_server.run_worker("q", main)
    records = [record for record in caplog.records if record.name == logger and record.exc_info]
    assert [record.exc_info[0] for record in records if record.exc_info] == [ValueError]
    (row,) = [line for line in (FOLDER / "sentry.md").read_text().splitlines() if f"`{logger}`" in line]
    assert row.endswith(f"| {records[0].levelname} |")


SENTRY = "\n".join(re.findall(r"(?m)^    (.*)", (FOLDER / "sentry.md").read_text()))
FAILING = """
import claimq.blocking, claimq.worker

def fail(item):
    raise ValueError(item.text)

{init}
if {is_sidecar}:
    with claimq.worker.connect() as worker:
        for item in worker.items():
            with item:
                fail(item)
else:
    with claimq.blocking.connect() as server:
        server.queue("q").consume(fail, return_when_empty=True)
"""


@pytest.mark.parametrize("is_sidecar", [False, True], ids=["consume", "items"])
def test_sentry_gets_an_event_for_a_failed_attempt(
    is_sidecar: bool, claimq_server: EmbeddedServer, tmp_path: Path
) -> None:
    queue = claimq_server.queue("q")
    queue.set_policy(claimq.Policy(requeue_limit=0))
    queue.enqueue("no such film")
    init = SENTRY if is_sidecar else "import sentry_sdk\nsentry_sdk.init(shutdown_timeout=300)"
    words = [sys.executable, "-c", FAILING.format(init=init, is_sidecar=is_sidecar)]
    with PushApp().start() as sentry, claimq_server.sidecar("q") as sidecar:
        env = {"SENTRY_DSN": f"http://key@127.0.0.1:{sentry.port}/1"}
        with Process(words, log=tmp_path / "log", env=env) as worker:
            eventually_sync(lambda: queue.length(State.FAILED) == 1, needs=[worker])
            if (
                is_sidecar
            ):  # the program does not end before it is drained; at its end Sentry waits for 2 s only
                eventually_sync(lambda: any(map(sentry_events, sentry.pushes)), needs=[worker])
            sidecar.drain()
            assert worker.wait() == 0
        events = [event for pushed in sentry.pushes for event in sentry_events(pushed)]
    (exception,) = [value for event in events for value in event["exception"]["values"]]
    assert (exception["type"], exception["value"]) == ("ValueError", "no such film")


def test_curl_node_and_go_add_items_over_http(claimq_server: EmbeddedServer, tmp_path: Path) -> None:
    queue = claimq_server.queue("media.thumbs")
    queue.enqueue("first", id="first")
    go_file, js_file, token = tmp_path / "main.go", tmp_path / "main.js", tmp_path / "token"
    imports = "".join(f'import "{name}"\n' for name in ("errors", "log", "net/http", "os", "strings"))
    main = "func main() {\n\tif err := add(); err != nil {\n\t\tlog.Fatal(err)\n\t}\n}\n"
    body = block("produce-over-http", "go")
    go_file.write_text(f"package main\n{imports}func add() error {{\n{body}}}\n{main}")
    js_file.write_text(block("produce-over-http", "js"))
    programs: list[list[str | Path]] = [
        ["bash", "-c", block("produce-over-http", "bash")],
        [NODE, js_file],
        build_go(toolchain.go(), go_file, tmp_path / "go"),
    ]
    with ProducerEndpoint(claimq_server.url) as endpoint:
        url = f"{endpoint.url}api/v1/queues/media.thumbs/enqueue"
        env = {**os.environ, "URL": url, "TOKEN_FILE": str(token)}
        for user, succeeds in (("eve", False), ("ann", True), ("ann", True)):
            token.write_text(user)
            for program_of_page in programs:
                done = subprocess.run(
                    program_of_page, env=env, capture_output=True, timeout=PATIENCE, check=False
                )
                assert (done.returncode == 0) is succeeds, done.stderr
    assert [item.id for item in queue.peek(9)] == ["first", "cat", "dog", "owl"]


def test_kubernetes_accepts_the_role_of_a_producer() -> None:
    document = yaml.safe_load(block("produce-over-http", "yaml"))
    with ApiServer() as server:
        namespace = {"metadata": {"name": "media"}}
        assert server.request("POST", "/api/v1/namespaces", namespace)[0] == 201
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/media/roles?fieldValidation=Strict"
        status, answer = server.request("POST", path, document)
    assert status == 201, answer
