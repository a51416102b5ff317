"""An app: the tasks of a queue, and a run of its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from claimq import arguments
from claimq.arguments import Duration
from claimq.item_options import check_options
from claimq.tasks import working
from claimq.tasks.handler import TaskHandler
from claimq.tasks.producer import Producer
from claimq.tasks.task import Retries, Task

if TYPE_CHECKING:
    from claimq.consuming.observing import ConsumeObserver
    from claimq.redis_store.settings import RedisSettings

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """The tasks of one queue. ``url`` and ``settings``: the server, as for :func:`claimq.connect`.

    As a context manager (``async with`` for coroutines) it closes the connections on which tasks were enqueued.
    """

    def __init__(self, queue: str, *, url: str | None = None, settings: RedisSettings | None = None) -> None:
        self._producer = Producer(queue, {"url": url, "settings": settings})
        self.queue = queue
        self.tasks: dict[str, Task[..., Any]] = {}
        """The tasks, by name."""

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        retries: int | None = None,
        retry_delay: Duration | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        retries: int | None = None,
        retry_delay: Duration | None = None,
        **unknown: object,
    ) -> Any:
        """Makes a function, or a coroutine function, a task: ``@app.task`` or ``@app.task(retries=3)``.

        ``name``: in payloads; by default that of the function. ``retries``: attempts after a failed one, within the
        queue's requeue limit; ``retry_delay``: seconds before each. Without them the queue's policy decides. Raises
        ValueError if the app has a task of that name.
        """
        check_options("a task", unknown, ("name", "retries", "retry_delay"))
        limits = Retries.of(retries, retry_delay)

        def made(function: Callable[..., Any]) -> Task[..., Any]:
            if not callable(function):
                raise TypeError(f"{function!r} is no function; write @app.task above a function")
            task_name = getattr(function, "__name__", "") if name is None else arguments.text("name", name)
            if not task_name or task_name in self.tasks:
                raise ValueError(f"the app has a task {task_name!r}; give another one with name=")
            self.tasks[task_name] = Task(function, task_name, limits, self._producer)
            return self.tasks[task_name]

        return made if function is None else made(function)

    @property
    def handle(self) -> TaskHandler:
        """Calls the task of an item; for a coroutine function, returns what to await. A handler for ``consume``, which
        runs plain functions in threads, and for tests.

        Raises what the task raises, or the verdict :class:`claimq.Fail` that its retries make of it; and a permanent
        Fail for a payload that is no call, an unknown task, and arguments that the function does not take.
        """
        return TaskHandler(self.tasks)

    def run(
        self,
        *,
        concurrency: int | None = None,
        die_on_error: bool = False,
        return_when_empty: bool = False,
        observer: ConsumeObserver | None = None,
    ) -> None:
        """Works on the items of the queue until SIGTERM, SIGINT or a drain: through the sidecar if ``$CLAIMQ_SOCKET``
        is set, else with ``consume``. Tasks in progress are finished first.

        ``concurrency``: tasks at a time; by default the limit of the sidecar, else 1. ``die_on_error`` and
        ``return_when_empty`` are those of :meth:`claimq.ReliableQueue.consume`; the latter only without a sidecar.
        ``observer`` is that of ``consume`` too; behind a sidecar, which has metrics of its own, it is not called.
        """
        asyncio.run(
            self.run_async(
                concurrency=concurrency,
                die_on_error=die_on_error,
                return_when_empty=return_when_empty,
                observer=observer,
            )
        )

    async def run_async(
        self,
        *,
        concurrency: int | None = None,
        die_on_error: bool = False,
        return_when_empty: bool = False,
        observer: ConsumeObserver | None = None,
    ) -> None:
        """The same for programs with an event loop."""
        arguments.optional_count("concurrency", concurrency, least=1)
        retries = {name: task.retries.count for name, task in self.tasks.items() if task.retries.count}
        options = working.Options(concurrency, die_on_error, return_when_empty, observer, retries)
        try:
            await working.work(self._producer, self.handle, options)
        finally:
            await self._producer.close_async()
            self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.close_async()
