"""Background work does not end silently."""

import asyncio

import pytest

from claimq.concurrency.background_work import run_every, spawn
from testkit.waiting import PATIENCE


async def test_a_step_that_meets_a_defect_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    runs: list[int] = []

    async def step() -> bool:
        runs.append(len(runs))
        if len(runs) == 1:
            raise KeyError("a defect")
        stop.set()
        return False

    async with asyncio.timeout(PATIENCE):
        await run_every(0.001, step, name="sweep", stop=stop)
    assert runs == [0, 1]
    assert "sweep: unexpected error" in caplog.text
    assert "KeyError: 'a defect'" in caplog.text


async def test_a_task_that_a_defect_ends_says_so_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise KeyError("a defect")

    task = spawn(work(), name="keeper")
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert "keeper: ended by an unexpected error" in caplog.text
    assert task.done()


async def test_a_task_that_is_cancelled_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    task = spawn(asyncio.sleep(60), name="keeper")
    task.cancel()
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert caplog.text == ""
