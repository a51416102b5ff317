"""Limits how long the page waits for a server, and how many requests use it at once: it can belong to anyone."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from weakref import WeakValueDictionary

from claimq.errors import ClaimqError, StoreUnavailable
from claimq_web.users.login import group_of

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the library raises for an answer that no server of ours gives."""
_MOST_WAITING = 10
"""Requests that use one queue or wait for it; more of them are refused at once."""
_OF_A_USER, _OF_A_GROUP = 8, 32
"""Requests of a user, and of all service accounts of a namespace, at the same time."""
_log = logging.getLogger(__name__)


class TooManyRequests(StoreUnavailable):
    """A request is refused, since others take all that it may use. Nothing was done; send it again in a second."""


class RequestsOfUsers:
    """Counts the requests that are in progress, so that those of one user leave room for the others."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    @contextmanager
    def one(self, user: str) -> Generator[None]:
        """One more request of a user, inside the block. Raises TooManyRequests."""
        limits = {f"user {user}": _OF_A_USER, f"group {group_of(user)}": _OF_A_GROUP}
        if any(self._running[key] >= most for key, most in limits.items()):
            raise TooManyRequests("too many of your requests are in progress; send it again in a second")
        self._running.update(limits.keys())
        try:
            yield
        finally:
            self._running.subtract(limits.keys())
            self._running = +self._running


class AtOnce:
    """Limits how many requests use a server at the same time: of a user, of a queue, of the queues of a namespace, and
    of all. A slow server takes at most the slots of its namespace."""

    def __init__(self, of_a_queue: int, of_a_user: int, of_a_namespace: int, altogether: int) -> None:
        self._of_a_queue = of_a_queue
        self._of_a_user = of_a_user
        self._of_a_namespace = of_a_namespace
        self._slots: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()
        self.altogether = asyncio.Semaphore(altogether)

    @asynccontextmanager
    async def slot(self, name: str, user: str = "") -> AsyncGenerator[None]:
        """Waits for a slot of this queue and has it inside the block. Raises TooManyRequests.

        The user's own slot comes first: a request that waits for it holds no slot of a queue of others.
        """
        if self._waiting[name] >= _MOST_WAITING:
            raise TooManyRequests(f"too many requests use {name[:200]}; send it again in a second")
        self._waiting[name] += 1
        try:
            async with (
                self._slot("user", user, self._of_a_user) if user else nullcontext(),
                self._slot("queue", name, self._of_a_queue),
                self._slot("namespace", name.partition(".")[0], self._of_a_namespace),
                self.altogether,
            ):
                yield
        finally:
            self._waiting[name] -= 1
            self._waiting = +self._waiting

    def _slot(self, kind: str, name: str, most: int) -> asyncio.Semaphore:
        return self._slots.setdefault((kind, name), asyncio.Semaphore(most))


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
