"""consume() with a plain function: a thread calls a quick one for several items in a row."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable

import pytest

from claimq import Claim, Item, ReliableQueue, Requeue, State
from claimq.consuming import run, thread_turns
from claimq.consuming.thread_turns import ThreadTurn
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually, eventually_sync
from testkit.workers.handlers import fill


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> list[ThreadTurn]:
    """The turns of the test. A function counts as quick, however slow this machine is."""
    monkeypatch.setattr(thread_turns, "QUICK_SECONDS", 3600.0)
    found: list[ThreadTurn] = []
    run = ThreadTurn.run

    def noted(self: ThreadTurn, claim: Claim) -> None:
        found.append(self)
        run(self, claim)

    monkeypatch.setattr(ThreadTurn, "run", noted)
    return found


def done(valkey: Server) -> int:
    stored = valkey.call("HGET", "cq:{q}:stats", "done")
    return int(stored) if isinstance(stored, bytes) else 0


async def test_a_thread_calls_a_quick_function_for_one_item_after_another(
    queue: ReliableQueue, turns: list[ThreadTurn]
) -> None:
    payloads = await fill(queue, 300)
    order: list[str] = []
    consumed = await queue.consume(lambda item: order.append(item.text), chunk=300, max_items=300)
    assert (consumed.done, order) == (300, payloads)
    assert len(turns) < 300


async def test_no_verdict_waits_for_a_slow_call_of_the_same_turn(
    queue: ReliableQueue, valkey: Server
) -> None:
    await fill(queue, 10)

    def handler(item: Item) -> None:
        if item.text == "5":
            eventually_sync(lambda: done(valkey) == 5, why="the verdicts before it are stored")

    assert (await queue.consume(handler, chunk=10, max_items=10)).done == 10


async def test_each_item_has_its_own_verdict(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["a", "bad", "b", "again", "c", "later", "d"])

    async def later() -> None:
        assert threading.current_thread() is threading.main_thread()

    def handler(item: Item) -> Awaitable[None] | str:
        assert threading.current_thread() is not threading.main_thread()
        if item.text == "bad":
            raise ValueError("no")
        if item.text == "again" and not item.requeue_count:
            raise Requeue
        return later() if item.text == "later" else "a result"

    consumed = await queue.consume(handler, chunk=7, return_when_empty=True, on_failure="fail")
    assert (consumed.done, consumed.failed, consumed.requeued) == (6, 1, 1)
    (failed,) = await queue.items(State.FAILED)
    assert (failed.item.text, failed.item.last_error) == ("bad", "ValueError: no")


def _raise(_: object) -> type:
    raise RuntimeError("outside of a request")


UNREADABLE = type("Unreadable", (), {"__class__": property(_raise)})()
"""A result that cannot be looked at, like the proxy objects of some frameworks outside of a request."""


async def test_a_result_that_cannot_be_looked_at_fails_its_item_alone(queue: ReliableQueue) -> None:
    await fill(queue, 10)
    consumed = await queue.consume(
        lambda item: UNREADABLE if item.text == "5" else None, chunk=10, max_items=10, on_failure="fail"
    )
    assert (consumed.done, consumed.failed) == (9, 1)
    (failed,) = await queue.items(State.FAILED)
    assert (failed.item.text, failed.item.last_error) == ("5", "RuntimeError: outside of a request")


async def test_a_call_has_a_context_of_its_own(queue: ReliableQueue) -> None:
    await fill(queue, 20)
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("of the caller")
    found: list[str] = []

    def handler(item: Item) -> None:
        found.append(variable.get())
        variable.set(item.text)

    await queue.consume(handler, chunk=20, max_items=20)
    assert found == ["of the caller"] * 20


@pytest.mark.parametrize("ending", ["stop", "cancellation", "error"])
async def test_a_turn_ends_with_the_run_after_the_call_in_progress(queue: ReliableQueue, ending: str) -> None:
    payloads = await fill(queue, 10)
    stop, is_running, may_go_on = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    def handler(item: Item) -> None:
        order.append(item.text)
        if item.text == "5":
            is_running.set()
            assert may_go_on.wait(PATIENCE)
            if ending == "error":
                raise ValueError("no")

    consuming = asyncio.ensure_future(
        queue.consume(handler, chunk=10, max_items=10, stop=stop, die_on_error=True, on_failure="fail")
    )
    await eventually(is_running.is_set)
    if ending == "stop":
        stop.set()
        await eventually(
            lambda: _waiting(queue, payloads[6:]), why="what no handler has begun goes back at once"
        )
    if ending == "cancellation":
        consuming.cancel()
        await asyncio.sleep(0)
    may_go_on.set()
    endings = {"cancellation": asyncio.CancelledError, "error": ValueError}
    if ending == "stop":
        assert (await consuming).done == 6
    else:
        with pytest.raises(endings[ending]):
            await consuming
    assert order == payloads[:6]
    assert await _waiting(queue, payloads[6:])
    lengths = await queue.lengths()
    assert (lengths[State.BUSY], lengths[State.FAILED]) == (0, ending == "error")


async def test_an_exit_gives_its_item_back(queue: ReliableQueue) -> None:
    payloads = await fill(queue, 10)

    def handler(item: Item) -> None:
        if item.text == "5":
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        await queue.consume(handler, chunk=10, max_items=10)
    assert await _waiting(queue, payloads[5:])
    assert (await queue.lengths())[State.BUSY] == 0


async def _waiting(queue: ReliableQueue, texts: list[str]) -> bool:
    return [item.text for item in await queue.peek(99)] == texts


async def test_an_item_that_has_crashed_a_worker_is_not_called_in_a_row(
    queue: ReliableQueue, valkey: Server, turns: list[ThreadTurn], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the crash of the process would count for the items before it too."""
    monkeypatch.setattr(run, "QUICK_SECONDS", 3600.0)  # the turn could go on
    await queue.enqueue("suspect")
    claims = await queue.claim()
    await queue.enqueue_many(["1", "2", "3", "4"])
    await queue.crash(claims, "died")
    turn_of: dict[str, int] = {}

    def handler(item: Item) -> None:
        turn_of[item.text] = len(turns)
        if item.text == "4":
            eventually_sync(
                lambda: valkey.call("LLEN", "cq:{q}:main") == 0, why="the suspect is claimed ahead"
            )
        if item.crash_count:
            assert done(valkey) == 4

    assert (await queue.consume(handler, chunk=4, max_items=5)).done == 5
    assert turn_of["suspect"] > turn_of["4"]
