"""The event loop of the blocking facade: calls of other threads while it ends."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from claimq import StoreUnavailable
from claimq.concurrency.background_loop import BackgroundLoop


async def forever() -> None:
    await asyncio.Event().wait()


def test_a_call_that_comes_while_the_loop_ends_leaves_no_task_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background = BackgroundLoop()
    begun, errors = threading.Event(), list[BaseException]()

    def call() -> None:
        try:
            background.run(forever)
        except StoreUnavailable as error:
            errors.append(error)

    def call_from_another_thread() -> None:
        threads.append(threading.Thread(target=call))
        threads[-1].start()
        assert called.wait(60)

    async def cancelled_twice() -> None:
        begun.set()
        try:
            await forever()
        finally:
            later.append(asyncio.create_task(cancelled_later()))

    async def cancelled_later() -> None:
        try:
            await forever()
        finally:
            call_from_another_thread()

    threads, later = list[threading.Thread](), list[asyncio.Task[None]]()
    called, original = threading.Event(), background.soon

    def soon(what: Callable[[], object]) -> bool:
        taken = original(what)
        called.set()
        return taken

    def run_cancelled() -> None:
        with pytest.raises(StoreUnavailable):
            background.run(cancelled_twice)

    first = threading.Thread(target=run_cancelled)
    first.start()
    assert begun.wait(60)
    monkeypatch.setattr(background, "soon", soon)  # to know when the other thread has asked
    original(lambda: background.loop.create_task(background._end()))
    first.join(60)
    assert background._thread_ended.wait(60)
    for thread in threads:
        thread.join(60)
    assert [str(error) for error in errors] == ["this connection was closed during the call"]
    assert asyncio.all_tasks(background.loop) == set()
