"""Limits how long the page waits for a server, and how many requests use it at once: it can belong to anyone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from claimq.errors import ClaimqError, StoreUnavailable

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the library raises for an answer that no server of ours gives."""
_log = logging.getLogger(__name__)


class AtOnce:
    """Limits how many requests use a queue, and all queues, at the same time."""

    def __init__(self, of_a_queue: int, altogether: int) -> None:
        self._of_a_queue = of_a_queue
        self._of_queues: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.altogether = asyncio.Semaphore(altogether)

    @asynccontextmanager
    async def slot(self, name: str) -> AsyncGenerator[None]:
        """Waits for a slot of this queue and has it inside the block."""
        of_queue = self._of_queues.setdefault(name, asyncio.Semaphore(self._of_a_queue))
        async with of_queue, self.altogether:
            yield


@asynccontextmanager
async def answering(name: str, seconds: float) -> AsyncGenerator[None]:
    """Ends the reads of a queue inside the block after so many seconds. Raises StoreUnavailable then, and for answers
    that cannot be read. ``name``: for the log; the problems of queues are grouped by their messages.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except ClaimqError:
        raise
    except TimeoutError:
        raise StoreUnavailable(f"the server did not finish its answers within {seconds:g} s") from None
    except _UNREADABLE as error:
        _log.warning("%s: the answers of its server cannot be read: %r", name, error)
        raise StoreUnavailable("the answers of the server cannot be read") from error
