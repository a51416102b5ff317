"""Calls of a plain function as the handler of ``consume``: a thread calls a quick one for several items in a row."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from claimq.consuming.handling import Handler, call_in_context
from claimq.model import Claim

QUICK_SECONDS = 0.001
"""Seconds after which a turn takes no further item. A switch of threads takes longer than a quick function."""


class FinishedCall(NamedTuple):
    """A call of the handler, what it returned to be awaited, and what it raised. ``begun_at``: seconds by the clock of
    the turn."""

    claim: Claim
    work: Awaitable[object] | None
    error: BaseException | None
    begun_at: float

    @property
    def is_done(self) -> bool:
        """Whether the item is done; else there is an error, or something to await."""
        return self.error is None and self.work is None


class ThreadTurn:
    """One turn in a thread. Its finished calls can be taken while it runs, so that none waits for a slow one."""

    def __init__(
        self, handler: Handler, following: Callable[[], Claim | None], clock: Callable[[], float]
    ) -> None:
        """``following`` is called in the thread: the next claim, or None if none waits. ``clock``: that of the event
        loop."""
        self.finished: deque[FinishedCall] = deque()
        self.is_over = False
        """Set from outside: the turn goes on to no further item."""
        self._handler = handler
        self._following = following
        self._clock = clock
        self._context = contextvars.copy_context()

    def run(self, first: Claim) -> None:
        """Calls the handler for this claim, and for those that follow while it is quick and their items are done."""
        claim: Claim | None = first
        begun_at = self._clock()
        until = begun_at + QUICK_SECONDS
        while claim is not None:
            work, error = call_in_context(self._context.copy(), self._handler, claim.item)
            call = FinishedCall(claim, work, error, begun_at)
            self.finished.append(call)
            begun_at = self._clock()
            goes_on = call.is_done and begun_at < until and not self.is_over
            claim = self._following() if goes_on else None

    def take_finished(self) -> list[FinishedCall]:
        """The calls whose items are done, up to the first of another kind. If that is the first of all, it alone."""
        calls: list[FinishedCall] = []
        while self.finished and (self.finished[0].is_done or not calls):
            calls.append(self.finished.popleft())
            if not calls[0].is_done:
                break
        return calls
