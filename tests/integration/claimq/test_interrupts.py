"""An interrupt may come between any two instructions of a blocking call, as Ctrl-C does and the SystemExit of a handler
of SIGTERM: the connection goes on working, and nothing of the call goes on behind the caller's back."""

import _weakrefset
import asyncio
import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from claimq import Reason, State
from claimq.blocking import BlockingQueue
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

MOST_STEPS, STEP = 40_000, 5
"""More instructions than a call has: the test ends when an interrupt comes too late. It tries one of 5."""


def is_interrupted(call: Callable[[], object], at: int) -> bool:
    """Makes the call with a KeyboardInterrupt before its `at`-th instruction in this thread; False if it has fewer."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if (
            frame.f_code.co_filename == _weakrefset.__file__
        ):  # Python itself swallows an interrupt of its own callbacks
            return trace
        frame.f_trace_opcodes = True
        seen += event == "opcode"
        if seen == at:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def in_a_thread(call: Callable[[], bool], what: str) -> bool:
    """Its result; fails when the call hangs."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), f"hangs: {what}"
    return answers[0]


def calls_that_go_on(queue: BlockingQueue) -> set[str]:
    """Without the recovery of a claim that was cut short, which runs in a task of its own."""
    names = (str(task.get_coro()) for task in asyncio.all_tasks(queue.loop.loop))
    return {name for name in names if "LostClaims" not in name}


# An interrupt between the call of a coroutine function and its `await` leaves a coroutine that was not awaited.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine")
def test_an_interrupt_at_any_instruction_leaves_the_connection_whole(valkey: Server) -> None:
    with open_blocking_queue(valkey.url, worker="w1") as queue:
        queue.enqueue("a")
        queue.unclaim(queue.claim())  # which puts the scripts together
        assert calls_that_go_on(queue) == set()
        at = 0
        for at in range(1, MOST_STEPS, STEP):
            claim = functools.partial(is_interrupted, lambda: queue.claim(wait=0), at)
            if not in_a_thread(claim, f"the claim, at {at}"):
                break
            assert calls_that_go_on(queue) == set(), f"the claim goes on, at {at}"
            in_a_thread(
                lambda: bool(queue.release_worker("w1", Reason.INTERRUPTED)), f"the next call, at {at}"
            )
            lengths = queue.lengths()
            assert lengths[State.MAIN] + lengths[State.BUSY] == 1, f"the item is lost, at {at}"
        assert 100 < at < MOST_STEPS
