"""An item in the hands of a program with threads."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from claimq.worker.errors import WorkerError
from claimq.worker.values import ItemValues, Outcome
from claimq.worker.wire import done_words, fail_words

if TYPE_CHECKING:
    from claimq.worker.worker import Worker

_log = logging.getLogger("claimq.worker")


class Item(ItemValues):
    """An item in the app's hands. As a context manager: done at the end, or fail with the exception that left
    it.

    The exception is kept with the item, logged, and goes no further, so that a loop goes on with the next
    item. A KeyboardInterrupt or SystemExit goes on its way: ``sys.exit`` with a code other than 0 fails the
    item unless the worker was asked to stop; otherwise the item goes back uncounted. A verdict given inside
    counts, and the end gives none then.
    """

    __slots__ = ("_worker",)

    def __init__(self, worker: Worker, **values: Any) -> None:
        super().__init__(**values)
        self._worker = worker

    def done(self, *, enqueue: Iterable[object] = ()) -> Outcome:
        """The work is finished. ``enqueue``: payloads or :class:`NewItem` that follow from it, added in the
        same atomic step.
        """
        return self._worker.settle("done", [self], done_words(enqueue))[0]

    def fail(self, error: object, *, permanent: bool = False) -> Outcome:
        """This attempt failed: requeued by the queue's policy, or (at its limit, or ``permanent``) failed."""
        return self._worker.settle("fail", [self], fail_words(error, permanent=permanent))[0]

    def requeue(self, *, delay: float | None = None) -> Outcome:
        """Not now: to the tail, or after ``delay`` seconds. Counts against the limit."""
        return self._worker.settle("requeue", [self], {"delay": delay})[0]

    def unclaim(self) -> Outcome:
        """The work never began: back to the head, uncounted."""
        return self._worker.settle("unclaim", [self], {})[0]

    def renew(self) -> Outcome:
        """Moves the end of the lease; only needed without a session."""
        return self._worker.renew([self])[0]

    def __enter__(self) -> Self:
        self.in_block = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.in_block = False
        if self.outcome is not None:
            return False
        if error is None:
            if self.done().is_lost:
                _log.warning("item %s was lost before it was done; somebody else has it or will", self.id)
            return False
        if not isinstance(error, Exception):
            self._worker.end_interrupted(self, error)
            return False
        if isinstance(error, WorkerError):
            return False
        _log.warning("item %s failed", self.id, exc_info=error)
        self.fail(error)
        return True
