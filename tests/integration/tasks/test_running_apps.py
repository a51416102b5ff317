"""App.run() in the test's own process, through a sidecar and without one, and the connections of producers."""

import asyncio
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from claimq import Policy, State, StoreMisused
from claimq.metrics import ConsumerMetrics
from claimq.tasks import App, Later, Requeue, current_item
from claimq.testing import EmbeddedServer, assert_enqueued
from testkit.queues.retries import retrying_at_once
from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE

Run = Callable[..., None]


@pytest.fixture
def app() -> App:
    return App("q")


@pytest.fixture(params=["through a sidecar", "without a sidecar"])
def run(
    request: pytest.FixtureRequest, claimq_server: EmbeddedServer, app: App, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs the app until its queue is empty. Behind a sidecar it cannot reach the server itself."""
    has_sidecar = request.param == "through a sidecar"
    if has_sidecar:
        monkeypatch.delenv("CLAIMQ_REDIS_URL")

    def until_empty(**options: Any) -> None:
        if has_sidecar:
            claimq_server.run_worker("q", lambda: app.run(**options))
        else:
            app.run(return_when_empty=True, **options)

    return until_empty


def test_functions_and_coroutines_enqueue_what_follows(
    claimq_server: EmbeddedServer, app: App, run: Run
) -> None:
    seen: list[str] = []

    @app.task
    def first(name: str) -> None:
        second.options(client="ann", headers={"from": current_item().id}).enqueue(name)

    @app.task
    async def second(name: str) -> None:
        seen.append(f"{name} of {current_item().client} from {current_item().headers['from']}")
        await third.enqueue_async()

    @app.task
    def third() -> None:
        seen.append("third")

    claimq_server.queue("q").enqueue(first.item("a").payload, id="1")
    run()
    assert seen == ["a of ann from 1", "third"]


def test_the_first_failure_ends_the_run_if_asked(claimq_server: EmbeddedServer, app: App, run: Run) -> None:
    @app.task
    def broken(how: str) -> None:
        raise {"requeue": Requeue(), "later": Later(0)}.get(how, OSError(how))

    queue = claimq_server.queue("q")
    queue.set_policy(retrying_at_once())
    queue.enqueue_many([broken.item(how) for how in ("requeue", "later", "no network", "not begun")])
    with pytest.raises(OSError, match="no network"):
        run(die_on_error=True)
    counts = [(item.requeue_count, item.fail_count, item.postponed_count) for item in queue.peek(9)]
    assert sorted(counts) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0)]


def test_logs_name_task_attempt_and_when_the_next_one_is(
    claimq_server: EmbeddedServer, app: App, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retries=1, retry_delay=0)
    def send(to: str) -> None:
        raise OSError(f"no route to {to}")

    claimq_server.queue("q").enqueue(send.item("ann").payload, id="i")
    with caplog.at_level(logging.INFO):
        run()
    texts = [text.partition("i (send, ")[2].replace(") failed", ")") for text in caplog.messages]
    assert [text for text in texts if text] == [
        "attempt 1): OSError: no route to ann",
        "attempt 1): the next attempt is when its turn comes",
        "attempt 2): OSError: no route to ann",
        "attempt 2): no further attempt: it is in failed",
    ]


def test_the_log_has_the_delay_of_the_next_attempt(
    claimq_server: EmbeddedServer, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retries=3, retry_delay=90)
    def send() -> None:
        raise OSError

    claimq_server.queue("q").enqueue(send.item().payload, id="i")
    with caplog.at_level(logging.INFO):
        app.run(return_when_empty=True)
    assert "q: i (send, attempt 1): the next attempt is in 90 s" in caplog.messages


@pytest.mark.parametrize(("limit", "is_warned"), [(5, True), (10, False)])
def test_retries_beyond_the_limit_of_the_queue_are_logged_at_the_start(
    claimq_server: EmbeddedServer, app: App, caplog: pytest.LogCaptureFixture, limit: int, is_warned: bool
) -> None:
    @app.task(retries=10)
    def often() -> None:
        pass

    app.task(name="seldom", retries=2)(print)
    claimq_server.queue("q").set_policy(Policy(requeue_limit=limit))
    app.run(return_when_empty=True)
    warning = "q: the queue's requeue_limit of 5 ends the retries of often (10); set it to at least 10"
    assert (warning in caplog.messages) == is_warned


def test_coroutines_run_in_the_event_loop_and_functions_in_threads(
    claimq_server: EmbeddedServer, app: App, run: Run
) -> None:
    calls: list[tuple[str, bool]] = []
    threads: set[str] = set()

    @app.task
    async def look() -> None:
        calls.append(("coroutine", threading.current_thread() is threading.main_thread()))
        threads.update(thread.name for thread in threading.enumerate())

    @app.task
    def block() -> None:
        calls.append(("function", threading.current_thread() is threading.main_thread()))

    queue = claimq_server.queue("q")
    queue.enqueue_many([look.item(), look.item(), "no call"])
    run()
    assert not [name for name in threads if name.startswith(("claimq-handler", "claimq-task"))]
    queue.enqueue_many([block.item(), look.item(), block.item()])
    run()
    coroutine, function = ("coroutine", True), ("function", False)
    assert calls == [coroutine, coroutine, function, coroutine, function]
    assert (queue.stats()["done"], queue.length(State.FAILED)) == (5, 1)


def test_a_coroutine_starts_while_a_function_blocks(
    claimq_server: EmbeddedServer, app: App, run: Run
) -> None:
    has_met = threading.Event()

    @app.task
    def block() -> None:
        assert has_met.wait(PATIENCE)

    @app.task
    async def meet() -> None:
        has_met.set()

    queue = claimq_server.queue("q")
    queue.enqueue_many([block.item(), meet.item()])
    run(concurrency=2)
    assert queue.stats()["done"] == 2


def test_an_exit_ends_the_run_and_a_sidecar_sets_the_concurrency(
    claimq_server: EmbeddedServer, app: App
) -> None:
    both = threading.Barrier(2)

    @app.task
    def leave() -> None:
        both.wait(PATIENCE)
        raise SystemExit(3)

    queue = claimq_server.queue("q")
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([leave.item(), leave.item()])
    with claimq_server.sidecar("q", {"CLAIMQ_CONCURRENCY": "2"}), pytest.raises(SystemExit, match="3"):
        app.run()
    assert queue.length(State.BUSY) == 0


def test_an_app_without_a_sidecar_can_have_metrics(claimq_server: EmbeddedServer, app: App, run: Run) -> None:
    """A sidecar counts for itself."""

    @app.task
    def work() -> None:
        pass

    registry = CollectorRegistry()
    claimq_server.queue("q").enqueue_many([work.item()])
    run(observer=ConsumerMetrics(registry=registry))
    done = registry.get_sample_value("claimq_consumer_verdicts_total", {"queue": "q", "verdict": "done"})
    assert done == (1 if "CLAIMQ_REDIS_URL" in os.environ else None)


def test_a_sidecar_of_another_queue_is_refused(claimq_server: EmbeddedServer) -> None:
    queue = claimq_server.queue("other")
    queue.enqueue("a")
    with claimq_server.sidecar("other"):
        with pytest.raises(StoreMisused, match="serves the queue other, and the app has the tasks of q"):
            App("q").run()
        with pytest.raises(ValueError, match="does not report that its queue is empty"):
            App("other").run(return_when_empty=True)
    assert queue.peek(1)[0].requeue_count == 0


def test_a_producer_connects_when_it_needs_to(claimq_server: EmbeddedServer, app: App) -> None:
    @app.task
    def send(to: str) -> None:
        raise AssertionError(to)

    async def enqueue_async(to: str) -> None:
        async with app:
            await send.enqueue_async(to)

    with app:
        assert send.options(id="x").enqueue("a").id == "x"
        assert send.options(id="x").enqueue("a").is_duplicate
    with app:
        send.enqueue("b")
    asyncio.run(enqueue_async("c"))
    asyncio.run(enqueue_async("d"))
    assert_enqueued(claimq_server.queue("q"), *(send.item(to) for to in "abcd"))


FORKS = """
import os
from claimq.tasks import App
app = App("q")
send = app.task(name="send")(print)
send.enqueue("parent")
if (child := os.fork()) == 0:
    send.enqueue("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
send.enqueue("parent again")
"""


def test_a_forked_process_connects_again(claimq_server: EmbeddedServer) -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = [item.json() for item in claimq_server.queue("q").peek(9)]
    assert [call["args"] for call in calls if isinstance(call, dict)] == [
        ["parent"],
        ["child"],
        ["parent again"],
    ]


BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_of_the_documentation_pass(tmp_path: Path) -> None:
    program, tests = BLOCK.findall((ROOT / "docs/tasks.md").read_text())
    (tmp_path / "mail.py").write_text(program)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["claimq.testing.fixtures"]\n')
    (tmp_path / "test_mail.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
