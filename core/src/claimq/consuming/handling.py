"""Calling the handler of ``consume``: a coroutine function or a plain function, which may raise anything."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, cast, runtime_checkable

from claimq.codec import last_frames

Handler = Callable[[Any], Awaitable[object] | object]
Caller = Callable[[object], Coroutine[Any, Any, tuple[BaseException | None, bool]]]


@runtime_checkable
class LoopHandler(Protocol):
    """A plain function as a handler, some of whose calls need no thread."""

    def in_loop(self, item: Any, /) -> Awaitable[object] | None:
        """What to await instead of calling the handler in a thread; None if that call is needed. Quick; raises nothing.

        The awaitable does all of the call: without an ``await`` nothing has begun.
        """
        ...


def call_in_loop(handler: object) -> Callable[[Any], Awaitable[object] | None]:
    """The method :meth:`LoopHandler.in_loop` of a handler, or one like it that returns None."""
    return handler.in_loop if isinstance(handler, LoopHandler) else lambda _: None


def handler_caller(handler: Handler, threads: ThreadPoolExecutor) -> Caller:
    """A function that calls the handler. It returns what the handler raised (also SystemExit and KeyboardInterrupt),
    and whether the caller was cancelled while it ran and still has to end.

    A cancellation of the caller interrupts a coroutine. A plain function runs in a thread, which cannot be interrupted:
    the cancellation waits for its end. An awaitable that it returns is awaited.
    """

    async def call_coroutine(argument: object) -> tuple[BaseException | None, bool]:
        return await outcome_of(cast("Awaitable[object]", handler(argument)))

    in_loop = call_in_loop(handler)

    async def call_function(argument: object) -> tuple[BaseException | None, bool]:
        if (work := in_loop(argument)) is not None:
            return await outcome_of(work)
        return await _in_thread(handler, argument, threads)

    return call_coroutine if is_coroutine_function(handler) else call_function


def is_coroutine_function(handler: Callable[..., object]) -> bool:
    """Whether the handler is a coroutine function, or an object whose ``__call__`` is one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def call_in_context(
    context: contextvars.Context, handler: Handler, argument: object
) -> tuple[Awaitable[object] | None, BaseException | None]:
    """Calls the handler; returns its result if that is to be awaited, else None, and what it raised."""
    try:
        reply = context.run(handler, argument)
        return (reply, None) if inspect.isawaitable(reply) else (None, None)
    except BaseException as error:  # noqa: BLE001 - a future takes no StopIteration, and would never be done
        return None, error


async def _in_thread(
    handler: Handler, argument: object, threads: ThreadPoolExecutor
) -> tuple[BaseException | None, bool]:
    context, loop = contextvars.copy_context(), asyncio.get_running_loop()
    running = loop.run_in_executor(threads, call_in_context, context, handler, argument)
    interrupted = False
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            interrupted = True
    work, error = running.result()
    if work is not None:
        error = await _awaited(work)
    return as_failure(error), interrupted


async def outcome_of(work: Awaitable[object]) -> tuple[BaseException | None, bool]:
    """Awaits what a handler returned; returns what the function of :func:`handler_caller` returns."""
    return await _awaited(work), False


async def _awaited(work: Awaitable[object]) -> BaseException | None:
    try:
        await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return as_failure(error)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - it is the item's failure, kept with it
        return error
    return None


def as_failure(error: BaseException | None) -> BaseException | None:
    """If a handler awaits something that was cancelled, its item fails; nothing else ends."""
    if not isinstance(error, asyncio.CancelledError):
        return error
    failure = RuntimeError("something that the handler waited for was cancelled (CancelledError)")
    failure.__cause__ = error
    return failure


def handler_frames(error: BaseException) -> str:
    """The frames of a handler's exception, as :func:`claimq.codec.last_frames` writes them."""
    return last_frames(error, without=__file__)
