"""Waiting ends soon when it may, and says why when it never will."""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.programs.processes import Process
from testkit.waiting import PATIENCE, CannotHappen, eventually, eventually_sync


@pytest.fixture
def third_time() -> Iterator[int]:
    return iter((0, 0, 7))


async def test_it_gives_up_in_time_and_reports_the_last_answer() -> None:
    begin = time.monotonic()
    with pytest.raises(AssertionError, match=r"main is empty: still not so after 0\.1 s; last: 0"):
        await eventually(lambda: 0, within=0.1, why="main is empty")
    with pytest.raises(AssertionError, match="still not so"):
        eventually_sync(lambda: None, within=0.1)
    assert time.monotonic() - begin < PATIENCE


async def test_it_gives_up_early_when_a_task_has_ended_with_an_error() -> None:
    async def fails() -> None:
        raise LookupError("the worker is gone")

    task, begin = asyncio.ensure_future(fails()), time.monotonic()
    with pytest.raises(AssertionError, match="all are done: still not so") as caught:
        await eventually(lambda: 0, why="all are done", after_error=0.05)
    assert isinstance(caught.value.__cause__, LookupError)
    assert caught.value.__notes__ == ["a task of the test has ended with LookupError('the worker is gone')"]
    assert time.monotonic() - begin < PATIENCE / 2
    assert task.done()


async def test_it_goes_on_when_what_it_waits_for_comes_after_an_error(third_time: Iterator[int]) -> None:
    async def fails() -> None:
        raise LookupError

    task = asyncio.ensure_future(fails())
    assert await eventually(lambda: next(third_time)) == 7
    assert task.done()


async def test_another_error_is_no_answer() -> None:
    def probe() -> bool:
        raise LookupError("gone")

    with pytest.raises(LookupError):
        await eventually(probe)


def test_it_also_reports_what_it_had_found_before() -> None:
    found = iter(["first"])

    def probe() -> bool:
        raise AssertionError(next(found, "then"))

    with pytest.raises(AssertionError) as caught:
        eventually_sync(probe, within=0.1)
    last, before = str(caught.value).splitlines()
    assert last.endswith("last: AssertionError('then')")
    assert before.endswith(" s: AssertionError('first')")


def test_a_wait_ends_with_the_output_of_a_program_that_has_ended(tmp_path: Path) -> None:
    program = Process([sys.executable, "-c", "exit('no space left')"], log=tmp_path / "log")
    begin = time.monotonic()
    with pytest.raises(CannotHappen, match="has ended with 1:\nno space left") as caught:
        eventually_sync(lambda: 0, why="it serves", needs=[program])
    first, last = "\n".join(caught.value.__notes__).splitlines()
    assert first == "It ended the wait for this: it serves"
    assert last.endswith(" s: 0")
    assert time.monotonic() - begin < PATIENCE / 2


def test_what_a_program_did_before_its_end_counts(tmp_path: Path) -> None:
    note = tmp_path / "note"
    program = Process([sys.executable, "-c", f"open({str(note)!r}, 'w').write('done')"])
    program.wait()
    assert eventually_sync(note.read_text, needs=[program]) == "done"


async def test_a_probe_ends_a_wait_that_is_in_vain() -> None:
    def probe() -> bool:
        raise CannotHappen("the item is gone")

    begin = time.monotonic()
    with pytest.raises(CannotHappen, match="the item is gone"):
        eventually_sync(probe)
    with pytest.raises(CannotHappen, match="the item is gone") as caught:
        await eventually(probe, why="it is done")
    assert caught.value.__notes__ == ["It ended the wait for this: it is done"]
    assert time.monotonic() - begin < PATIENCE / 2
