"""An item in the hands of an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from claimq.worker.errors import WorkerError
from claimq.worker.values import ItemValues, Outcome
from claimq.worker.wire import done_words, fail_words

if TYPE_CHECKING:
    from claimq.worker.async_worker import AsyncWorker

_log = logging.getLogger("claimq.worker")


class AsyncItem(ItemValues):
    """An item in the app's hands; see :class:`claimq.worker.Item`. Use it with ``async with``.

    Cancelling the task inside gives the item back uncounted. Something cancelled that the work waits for, in a
    task that is not cancelled itself, is the item's failure.
    """

    __slots__ = ("_worker",)

    def __init__(self, worker: AsyncWorker, **values: Any) -> None:
        super().__init__(**values)
        self._worker = worker

    async def done(self, *, enqueue: Iterable[object] = ()) -> Outcome:
        """The work is finished; ``enqueue`` adds what follows from it in the same atomic step."""
        return (await self._worker.settle("done", [self], done_words(enqueue)))[0]

    async def fail(self, error: object, *, permanent: bool = False) -> Outcome:
        """This attempt failed: requeued by the queue's policy, or failed."""
        return (await self._worker.settle("fail", [self], fail_words(error, permanent=permanent)))[0]

    async def requeue(self, *, delay: float | None = None) -> Outcome:
        """Not now: to the tail, or after ``delay`` seconds. Counts against the limit."""
        return (await self._worker.settle("requeue", [self], {"delay": delay}))[0]

    async def unclaim(self) -> Outcome:
        """The work never began: back to the head, uncounted."""
        return (await self._worker.settle("unclaim", [self], {}))[0]

    async def renew(self) -> Outcome:
        """Moves the end of the lease; only needed without a session."""
        return (await self._worker.renew([self]))[0]

    async def __aenter__(self) -> Self:
        self.in_block = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.in_block = False
        if self.outcome is not None:
            return False
        if error is None:
            if (await self.done()).is_lost:
                _log.warning("item %s was lost before it was done; somebody else has it or will", self.id)
            return False
        if isinstance(error, asyncio.CancelledError) and not _is_cancelled():
            error = RuntimeError("something that the work waited for was cancelled (CancelledError)")
        if not isinstance(error, Exception):
            await asyncio.shield(self._worker.end_interrupted(self, error))
            return False
        if isinstance(error, WorkerError):
            return False
        _log.warning("item %s failed", self.id, exc_info=error)
        await self.fail(error)
        return True


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
