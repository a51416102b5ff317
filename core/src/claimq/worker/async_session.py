"""A session for an event loop: one connection in a task of its own, opened again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from claimq.worker.async_connection import AsyncConnection
from claimq.worker.errors import SidecarUnavailable
from claimq.worker.session import ANSWER_SECONDS, SILENCE_SECONDS, why_broken
from claimq.worker.wire import BrokenReply, ChunkedLines, read_object, request, session_body

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_log = logging.getLogger("claimq.worker")


class AsyncSession:
    """The counterpart of :class:`claimq.worker.session.Session`. Made inside a running event loop."""

    def __init__(
        self, path: str, in_hand: Callable[[], Iterable[str]], lost: Callable[[Iterable[str]], None]
    ) -> None:
        self._path = path
        self._in_hand = in_hand
        self._lost = lost
        self._id: str | None = None
        self._changed = asyncio.Condition()
        self._why = ""
        self.draining = asyncio.Event()
        self.busy_expiry: float | None = None
        self._running = asyncio.ensure_future(self._run())

    async def id(self, within: float, *, other_than: str | None = None) -> str:
        """The open session's id, waiting for one. Raises SidecarUnavailable with the reason."""
        if self._id is not None and self._id != other_than:
            return self._id
        try:
            async with asyncio.timeout(within), self._changed:
                await self._changed.wait_for(lambda: self._id is not None and self._id != other_than)
        except TimeoutError:
            pass
        if self._id is None or self._id == other_than:
            late = f"the sidecar on {self._path} has not opened a session in {within:g} s"
            raise SidecarUnavailable(self._why or late)
        return self._id

    async def close(self) -> None:
        """Ends it. What is still in hand under it goes back at once, counted as a crash."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            began = loop.time()
            try:
                await self._open_and_read()
            except OSError as error:
                self._why = why_broken(self._path, error)
            except Exception as error:  # noqa: BLE001 - logged with its traceback; the worker needs a session
                self._why = f"the session with the sidecar met an unexpected error: {error!r}"
                _log.exception("unexpected error in the session with the sidecar; opening another")
            was_open, self._id = self._id is not None, None
            if was_open and not self.draining.is_set():
                _log.warning("the session with the sidecar has ended; opening another")
            pause = _FIRST_PAUSE if was_open and loop.time() - began > 1.0 else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _open_and_read(self) -> None:
        connection = await AsyncConnection.open(self._path, ANSWER_SECONDS)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.send(request("/v1/session", session_body(self._in_hand())))
                head, data = await connection.head()
            if head.status != 200 or head.length is not None:
                raise BrokenReply(f"the sidecar refused a session with status {head.status}")
            lines = ChunkedLines()
            while True:
                for line in lines.feed(data):
                    await self._told(read_object(line))
                if lines.ended:
                    return
                async with asyncio.timeout(SILENCE_SECONDS):
                    data = await connection.receive()
        finally:
            connection.close()

    async def _told(self, line: dict[str, Any]) -> None:
        if line.get("draining"):
            self.draining.set()
        if "session" in line:
            self._id, self._why = str(line["session"]), ""
            self.busy_expiry = line.get("busy_expiry")
        if lost := line.get("lost"):
            self._lost(lost)
        async with self._changed:
            self._changed.notify_all()
