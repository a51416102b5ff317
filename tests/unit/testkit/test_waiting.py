"""Waiting ends soon when it may, and says why when it never will."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from testkit.waiting import PATIENCE, eventually, eventually_sync


@pytest.fixture
def third_time() -> Iterator[int]:
    return iter((0, 0, 7))


async def test_eventually_returns_the_first_true_answer(third_time: Iterator[int]) -> None:
    assert await eventually(lambda: next(third_time)) == 7


async def test_eventually_takes_a_coroutine_function(third_time: Iterator[int]) -> None:
    async def probe() -> int:
        return next(third_time)

    assert await eventually(probe) == 7


def test_eventually_without_a_loop(third_time: Iterator[int]) -> None:
    assert eventually_sync(lambda: next(third_time)) == 7


async def test_a_failed_assertion_means_not_yet(third_time: Iterator[int]) -> None:
    def probe() -> bool:
        assert next(third_time)
        return True

    assert await eventually(probe)


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
