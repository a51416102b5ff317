"""A task: a function that items call by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from claimq.arguments import optional_count, optional_seconds
from claimq.codec import check_new_item, last_frames
from claimq.consuming.handling import is_coroutine_function
from claimq.handler_verdicts import Fail
from claimq.item_options import OF_ENQUEUE, OF_OTHERS, ItemOptions, expect_no_instant, new_item
from claimq.model import EnqueuedItem, NewItem
from claimq.tasks.calls import Call, payload_of
from claimq.tasks.producer import Producer

P = ParamSpec("P")
R = TypeVar("R")
_OF_CELERY = {
    "delay": "TASK.enqueue(...)",
    "apply_async": "TASK.options(delay=...).enqueue(...)",
    "apply": "TASK(...)",
    "s": "TASK.item(...)",
    "si": "TASK.item(...)",
    "signature": "TASK.item(...)",
    "retry": "raise Fail(why, delay=...)",
    "request": "current_item()",
}
"""Attributes of a task there, and what to write here."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a task is tried again after a failure, and after how many seconds. None: as the queue's policy says,
    whose requeue limit holds in any case."""

    count: int | None
    delay: float | None

    @classmethod
    def of(cls, count: object, delay: object) -> Retries:
        """Checks the arguments of the decorator."""
        return cls(optional_count("retries", count), optional_seconds("retry_delay", delay))

    def failure(self, error: Exception, fail_count: int, *, without: str) -> Exception:
        """The verdict on an attempt that raised. ``without``: a file whose frames are not kept with the item."""
        if self == Retries(None, None):
            return error
        is_last = self.count is not None and fail_count >= self.count
        if isinstance(error, Fail):
            delay = self.delay if error.delay is None else error.delay
            verdict = Fail(
                error.error, permanent=error.permanent or is_last, detail=error.detail, delay=delay
            )
            verdict.__cause__ = error.__cause__
            return verdict
        text, detail = f"{type(error).__name__}: {error}", last_frames(error, without=without)
        verdict = Fail(text, permanent=is_last, detail=detail, delay=self.delay)
        verdict.__cause__ = error
        return verdict


class Task(Generic[P, R]):
    """A function that items of the app's queue call. Made by :meth:`claimq.tasks.App.task`.

    Called directly, it is the function itself.
    """

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        retries: Retries,
        producer: Producer,
        options: NewItem | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name
        self.retries = retries
        self._producer = producer
        self._options = options or NewItem(b"")
        self.is_coroutine_function = is_coroutine_function(function)
        self._signature = inspect.signature(function)
        self._fitting_counts = _fitting_counts(self._signature)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self.function(*args, **kwargs)

    def options(self, **options: Unpack[ItemOptions]) -> Task[P, R]:
        """The task with options for its next items, those of :class:`claimq.NewItem` without instants:
        ``send_email.options(delay=60).enqueue("ann@example.com")``. Raises TypeError, ValueError, InvalidName."""
        chosen = new_item(b"", options)
        expect_no_instant(chosen)
        check_new_item(chosen)
        return Task(self.function, self.name, self.retries, self._producer, chosen)

    def item(self, *args: P.args, **kwargs: P.kwargs) -> NewItem:
        """The item that calls the task with these arguments: for ``enqueue_many``, ``done(enqueue=)`` and tests.

        Raises TypeError for arguments that the function does not take or JSON cannot represent, and ValueError.
        """
        self.check(args, kwargs)
        return replace(self._options, payload=payload_of(Call(self.name, args, kwargs)))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedItem:
        """Enqueues a call. For threads: in a coroutine it raises RuntimeError, because it would block the event loop.

        Raises as :meth:`item` and :meth:`claimq.ReliableQueue.enqueue`.
        """
        return self._producer.enqueue(self.item(*args, **kwargs))

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> EnqueuedItem:
        """The same for coroutines."""
        return await self._producer.enqueue_async(self.item(*args, **kwargs))

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises TypeError that names the task for arguments that the function does not take."""
        if not kwargs and len(args) in self._fitting_counts:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            option = next((name for name in kwargs if OF_OTHERS.get(name, name) in OF_ENQUEUE), None)
            advice = "" if option is None else f"; options of the item: {self.name}.options(...).enqueue(...)"
            raise TypeError(f"{self.name}: {error}{advice}") from None

    if not TYPE_CHECKING:  # which finds a wrong name by itself

        def __getattr__(self, name):
            """Raises AttributeError with what to write instead."""
            advice = _OF_CELERY.get(name, "").replace("TASK", self.__dict__.get("name", "TASK"))
            raise AttributeError(f"a task has no {name}{advice and '; write '}{advice}")

    def __repr__(self) -> str:
        return f"<Task {self.name} of {self._producer.queue}>"


def _fitting_counts(signature: inspect.Signature) -> range:
    """Numbers of arguments without names that certainly fit: a check that takes a tenth of the time of ``bind``."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    is_required = [
        parameter.default is inspect.Parameter.empty for parameter in signature.parameters.values()
    ]
    if any(parameter.kind not in positional for parameter in signature.parameters.values()):
        return range(0)
    return range(sum(is_required), len(is_required) + 1)
