"""The handler of an app: calls the task that an item names."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from claimq.handler_verdicts import Fail, NotNow
from claimq.model import Item
from claimq.tasks.calls import Call, read_call, shown
from claimq.tasks.task import Task
from claimq.worker.item import ClaimedItem

AnyItem = Item | ClaimedItem
_current: ContextVar[AnyItem] = ContextVar("the item that called the task")


def current_item() -> AnyItem:
    """The item that has called the task which runs here: its id, client and counters. Raises LookupError elsewhere."""
    return _current.get()


class TaskHandler:
    """Calls the tasks of an app, by name."""

    def __init__(self, tasks: Mapping[str, Task[..., Any]]) -> None:
        self._tasks = tasks

    def __call__(self, item: AnyItem) -> Awaitable[None] | None:
        """See :attr:`claimq.tasks.App.handle`."""
        task, call = self._called(item)
        with _Attempt(task, item):
            reply = task.function(*call.args, **call.kwargs)
        return _finished(task, item, reply) if inspect.isawaitable(reply) else None

    def in_loop(self, item: AnyItem) -> Awaitable[None] | None:
        """See :class:`claimq.consuming.handling.LoopHandler`."""
        try:
            task, call = self._called(item)
        except Exception:  # noqa: BLE001 - the call of the handler raises it again, for the item's verdict
            return None
        return _called_in_loop(task, item, call) if task.is_coroutine_function else None

    def _called(self, item: AnyItem) -> tuple[Task[..., Any], Call]:
        call = read_call(item.payload)
        task = self._tasks.get(call.task)
        if task is None:
            names = ", ".join(sorted(self._tasks)) or "none"
            raise Fail(f"there is no task {shown(call.task)}; the worker has: {names}", permanent=True)
        try:
            task.check(call.args, call.kwargs)
        except TypeError as error:
            note = f"; its field {shown(call.ignored[0])} was ignored" if call.ignored else ""
            raise Fail(f"{error}{note}", permanent=True) from None
        return task, call


class _Attempt:
    """One attempt at a task: :func:`current_item` inside, and the verdict of the task's retries on what it raises."""

    __slots__ = ("_before", "_item", "_task")

    def __init__(self, task: Task[..., Any], item: AnyItem) -> None:
        self._task, self._item = task, item

    def __enter__(self) -> None:
        self._before: Token[AnyItem] = _current.set(self._item)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._before)
        if isinstance(error, Exception) and not isinstance(error, NotNow):
            verdict = self._task.retries.failure(error, self._item.fail_count, without=__file__)
            if verdict is not error:
                raise verdict from verdict.__cause__


async def _called_in_loop(task: Task[..., Any], item: AnyItem, call: Call) -> None:
    with _Attempt(task, item):
        await task.function(*call.args, **call.kwargs)


async def _finished(task: Task[..., Any], item: AnyItem, work: Awaitable[object]) -> None:
    with _Attempt(task, item):
        await work
