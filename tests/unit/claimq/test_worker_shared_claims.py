"""Claims that loops without an item share, whichever loop dies at whichever line."""

import asyncio
import sys
import threading
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest

from claimq.concurrency.without_loop import run
from claimq.worker.backends import ASYNCIO, BLOCKING
from claimq.worker.errors import SidecarUnavailable
from claimq.worker.item import Item
from claimq.worker.loops import shared_claims
from claimq.worker.loops.loop import Loop
from claimq.worker.loops.shared_claims import SharedClaims
from testkit.waiting import eventually, eventually_sync


class Claims:
    """Stands where the sidecar is: a claim waits at a gate, and gets as many items as there are, at most."""

    def __init__(self, backend: Any, most: int = 1000) -> None:
        self.backend = backend
        self.most = most
        self.asked: list[int] = []
        self.items: list[Item] = []
        self.back: list[Item] = []
        self.error: Exception | None = None
        self.gate = backend.event()
        self.shared = SharedClaims(backend, self.claim, self.back.extend)

    async def claim(self, loops: int, wait: float) -> list[Item]:
        assert wait == 7.0
        self.asked.append(loops)
        await self.gate.wait_for(20.0)
        await self.backend.sleep(0)  # as a request, which takes a turn of the event loop at least
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        names = [f"{len(self.asked)}-{number}" for number in range(min(loops, self.most))]
        client: Any = None
        items = [Item(client, name, name, b"", None, 0, 0, 0, 0, 0.0, 0.0, 0.0, 30.0) for name in names]
        self.items += items
        return items

    @property
    def in_line(self) -> int:
        return len(self.shared._line)

    def are_somewhere(self, *loops: Loop[Item]) -> bool:
        """Whether each item is with one loop, or went back."""
        places = [item.token for loop in loops for item in loop.claimed] + [item.token for item in self.back]
        return sorted(places) == sorted(item.token for item in self.items)


def start(claims: Claims, loop: Loop[Item], errors: list[BaseException]) -> threading.Thread:
    def wait() -> None:
        try:
            run(claims.shared.next(loop, 7.0))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


class Interrupt:
    """Raises KeyboardInterrupt before one line that the thread runs in the module."""

    def __init__(self, line: int) -> None:
        self.lines_left = line
        self.is_over = threading.Event()

    def run(self, claims: Claims, loop: Loop[Item]) -> None:
        sys.settrace(self._on_call)
        try:
            run(claims.shared.next(loop, 7.0))
        except KeyboardInterrupt:
            sys.settrace(None)
            claims.shared.leave(loop)  # as the end of the loop does
        finally:
            sys.settrace(None)
            self.is_over.set()

    def _on_call(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        return self._on_line if frame.f_code.co_filename == shared_claims.__file__ else None

    def _on_line(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        self.lines_left -= event == "line"
        if event == "line" and self.lines_left == 0:
            raise KeyboardInterrupt
        return self._on_line


def interrupt_at(line: int, *, is_first: bool, most: int) -> bool:
    """Interrupts one of three loops before this line; returns whether it has so many."""
    claims, errors = Claims(BLOCKING, most), list[BaseException]()
    loops: list[Loop[Item]] = [Loop(), Loop(), Loop()]
    interrupt = Interrupt(line)
    victim = threading.Thread(target=interrupt.run, args=(claims, loops[0]), daemon=True)
    threads = list[threading.Thread]()
    if not is_first:
        threads.append(start(claims, loops[1], errors))
        eventually_sync(lambda: claims.asked == [1])
    victim.start()
    eventually_sync(lambda: interrupt.is_over.is_set() or claims.in_line == len(threads) + 1)
    threads += [start(claims, loop, errors) for loop in loops[len(threads) + 1 :]]
    claims.gate.set()
    for thread in [*threads, victim]:
        thread.join(20)
    assert [len(loop.claimed) for loop in loops[1:]] == [1, 1], f"interrupted before line {line}"
    assert claims.are_somewhere(*loops), f"interrupted before line {line}"
    assert (claims.in_line, errors) == (0, [])
    return interrupt.lines_left <= 0


@pytest.mark.parametrize("most", [1, 1000])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_thread_that_is_interrupted_at_any_line_stops_no_other(is_first: bool, most: int) -> None:
    lines = next(line for line in count(1) if not interrupt_at(line, is_first=is_first, most=most))
    assert lines > 10


async def cancel_after(turns: int, victim: int, most: int) -> bool:
    """Cancels one of four tasks after so many turns of the event loop; returns whether it was still waiting."""
    claims, loops = Claims(ASYNCIO, most), [Loop[Item]() for _ in range(4)]
    tasks = [asyncio.ensure_future(claims.shared.next(loop, 7.0)) for loop in loops]
    for turn in range(turns):
        if turn == 2:
            claims.gate.set()
        await asyncio.sleep(0)
    was_waiting = tasks[victim].cancel()
    claims.gate.set()
    async with asyncio.timeout(20):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = [number for number, end in enumerate(ends) if end is not None]
    assert cancelled in ([], [victim])
    assert [len(loop.claimed) for loop in loops if loop is not loops[victim]] == [1, 1, 1]
    assert claims.are_somewhere(*loops)
    return was_waiting


@pytest.mark.parametrize("most", [1, 2, 1000])
@pytest.mark.parametrize("victim", range(4))
async def test_a_task_that_is_cancelled_at_any_time_stops_no_other(victim: int, most: int) -> None:
    turns = 0
    while await cancel_after(turns, victim, most):
        turns += 1
    assert turns >= 4


def wait_in_line(claims: Claims, count: int) -> tuple[list[Loop[Item]], list[threading.Thread], list[Any]]:
    """Starts a loop that claims at the gate, then the others, which wait."""
    loops, errors = [Loop[Item]() for _ in range(count)], list[Any]()
    threads = [start(claims, loops[0], errors)]
    eventually_sync(lambda: claims.asked == [1])
    threads += [start(claims, loop, errors) for loop in loops[1:]]
    eventually_sync(lambda: claims.in_line == count)
    return loops, threads, errors


def test_the_next_loop_claims_for_all_that_wait() -> None:
    claims = Claims(BLOCKING)
    loops, threads, errors = wait_in_line(claims, 5)
    claims.gate.set()
    for thread in threads:
        thread.join(20)
    assert claims.asked == [1, 4]
    assert ([len(loop.claimed) for loop in loops], claims.back, errors) == ([1] * 5, [], [])


async def test_a_claim_that_gets_nothing_ends_the_wait_of_all_it_was_made_for() -> None:
    claims, loops = Claims(ASYNCIO, 0), [Loop[Item]() for _ in range(3)]
    claims.gate.set()
    tasks = [asyncio.ensure_future(claims.shared.next(loop, 7.0)) for loop in loops]
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks)
    assert claims.asked == [1, 2]
    assert [loop.claimed for loop in loops] == [[], [], []]


def test_the_error_of_a_claim_reaches_all_it_was_made_for_and_no_later_loop() -> None:
    claims = Claims(BLOCKING)
    claims.error = SidecarUnavailable("it is away")
    loops, threads, errors = wait_in_line(claims, 3)
    claims.gate.set()
    for thread in threads:
        thread.join(20)
    assert (claims.asked, [str(error) for error in errors]) == ([1, 2], ["it is away"])
    assert [len(loop.claimed) for loop in loops] == [0, 1, 1]


async def test_items_for_loops_that_were_cancelled_go_back_at_once() -> None:
    claims, loops = Claims(ASYNCIO), [Loop[Item]() for _ in range(4)]
    first = asyncio.ensure_future(claims.shared.next(loops[0], 7.0))
    await eventually(lambda: claims.asked == [1])
    others = [asyncio.ensure_future(claims.shared.next(loop, 7.0)) for loop in loops[1:]]
    await eventually(lambda: claims.in_line == 4)
    claims.gate.set()
    await first
    claims.gate.clear()
    await eventually(lambda: claims.asked == [1, 3])
    others[1].cancel()
    others[2].cancel()
    await asyncio.sleep(0)
    claims.gate.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*others, return_exceptions=True)
    assert [len(loop.claimed) for loop in loops] == [1, 1, 0, 0]
    assert len(claims.back) == 2


async def test_no_request_claims_for_more_loops_than_it_may_name() -> None:
    claims, loops = Claims(ASYNCIO), [Loop[Item]() for _ in range(1502)]
    claims.gate.set()
    await asyncio.gather(*(claims.shared.next(loop, 7.0) for loop in loops))
    assert claims.asked == [1, 1000, 501]
    assert {len(loop.claimed) for loop in loops} == {1}
