"""Bounds how many passes run at once when the process has too little processor time for all of them."""

from __future__ import annotations

import asyncio
from collections import deque

_FIRST = 16
_LEAST = 4
_MOST = 4096
_LATE = 0.5
_PROMPT = 0.1


def adapted(limit: int, lag: float) -> int:
    """The next limit, by how many seconds late the event loop was.

    Passes of all queues at once make each request so slow that it times out, and then no pass ends. A prompt loop has
    no need of a limit: its passes wait for servers, and a server that does not answer must not delay other queues.
    """
    if lag > _LATE:
        return max(limit // 2, _LEAST)
    return min(limit * 2, _MOST) if lag < _PROMPT else limit


class PassLimit:
    """``async with`` waits for a turn, in the order of asking. :meth:`adapt` is called once a second."""

    def __init__(self) -> None:
        self._limit = _FIRST
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def adapt(self, lag: float) -> None:
        """Adapts the limit; see :func:`adapted`."""
        self._limit = adapted(self._limit, lag)
        self._admit()

    async def __aenter__(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came at the same moment
                self._end()
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._end()

    def _end(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._running < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
