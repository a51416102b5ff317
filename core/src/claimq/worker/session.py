"""A session: a connection that proves to the sidecar that this process is alive, opened again whenever it breaks."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from claimq.concurrency.backoff import Backoff
from claimq.worker.backends import Backend, Stream, is_ending
from claimq.worker.connection import read_head, receive
from claimq.worker.errors import SidecarUnavailable
from claimq.worker.wire import (
    ANSWER_SECONDS,
    BrokenReply,
    ChunkedLines,
    cannot_connect,
    read_object,
    request,
    session_body,
)

SILENCE_SECONDS = 60.0
"""Seconds without data after which a session counts as broken."""
_log = logging.getLogger("claimq.worker")


class Session:
    """One session after another, in the background.

    When the connection breaks (the sidecar restarted) it is opened again, and the new session takes over the claims
    that ``in_flight`` names, so that their leases are renewed further; ``lost`` is called with those that it cannot
    take over.
    """

    def __init__(
        self,
        path: str,
        backend: Backend,
        in_flight: Callable[[], Iterable[str]],
        lost: Callable[[Iterable[str]], None],
        opened: Callable[[str, str | None], None],
        ended: Callable[[], None],
    ) -> None:
        """``opened``: called with each session's id and its FIFO, if it has one. ``ended``: called at its end."""
        self._path = path
        self._backend = backend
        self._in_flight = in_flight
        self._lost = lost
        self._opened = opened
        self._ended = ended
        self._id: str | None = None
        self._why_none = ""
        self._stream: Stream | None = None
        self._is_open, self._is_closing = backend.event(), backend.event()
        self._end: Callable[[], Awaitable[None]] | None = None
        self.draining = False
        self.busy_expiry: float | None = None
        self.queue: str | None = None

    def start(self) -> None:
        """Begins to open it."""
        _in_this_process.add(self)
        self._end = self._backend.start(self._keep_open())

    @property
    def present(self) -> str | None:
        """The open session's id; None while there is none."""
        return self._id

    async def id(
        self, within: float, *, other_than: str | None = None, abandon: Callable[[], bool] = lambda: False
    ) -> str:
        """The open session's id, waiting for one. Raises SidecarUnavailable with the reason."""
        give_up = time.monotonic() + within
        while (found := self._id) is None or found == other_than:
            if self._is_closing.is_set() or abandon() or time.monotonic() > give_up:
                late = f"the sidecar on {self._path} has not opened a session in {within:g} s"
                raise SidecarUnavailable(self._why_none or late)
            if found is None:
                await self._is_open.wait_for(0.1)
            else:  # the sidecar has closed it, and this side has not noticed yet
                await self._backend.sleep(0.02)
        return found

    async def close(self) -> None:
        """Ends it. Items in progress under it go back at once, counted as a crash."""
        if is_ending():  # its thread may have stopped anywhere; the connection ends with the process
            return
        self._is_closing.set()
        if self._stream is not None:
            self._stream.interrupt()
        if self._end is not None:
            await self._end()
        self._note_ended()  # a task that was cancelled has not

    def close_copy(self) -> None:
        """In the child of a fork, whose copy of the connection would keep the session open after the parent's
        death.
        """
        if self._stream is not None:
            self._stream.close_copy()

    async def _keep_open(self) -> None:
        pauses = Backoff(0.02, 1.0)
        while not self._is_closing.is_set():
            began = time.monotonic()
            try:
                await self._open_and_read()
            except OSError as error:
                self._why_none = _why_broken(self._path, error)
            except Exception as error:  # noqa: BLE001 - logged with its traceback; the worker needs a session
                self._why_none = f"the session with the sidecar met an unexpected error: {error!r}"
                _log.exception("unexpected error in the session with the sidecar; opening another")
            if self._note_ended() and time.monotonic() - began > 1.0:
                pauses.reset()
            await self._is_closing.wait_for(pauses.next())

    def _note_ended(self) -> bool:
        """Whether a session was open that has ended now."""
        was_open, self._id, self._stream = self._id is not None, None, None
        self._is_open.clear()
        if was_open:
            self._ended()
        if was_open and not (self._is_closing.is_set() or self.draining):
            _log.warning("the session with the sidecar has ended; opening another")
        return was_open

    async def _open_and_read(self) -> None:
        timeout_at = time.monotonic() + ANSWER_SECONDS
        stream = self._stream = await self._backend.connect(self._path, timeout_at)
        try:
            if self._is_closing.is_set():
                return
            await stream.send(request("/v1/session", session_body(self._in_flight())), timeout_at)
            head, data = await read_head(stream, timeout_at)
            if head.status != 200 or head.length is not None:
                raise BrokenReply(f"the sidecar refused a session with status {head.status}")
            lines = ChunkedLines()
            while True:
                for line in lines.feed(data):
                    self._note(read_object(line))
                if lines.ended:
                    return
                data = await receive(stream, time.monotonic() + SILENCE_SECONDS)
        finally:
            stream.close()

    def _note(self, line: dict[str, Any]) -> None:
        if line.get("draining"):
            self.draining = True
        if "session" in line:
            self.busy_expiry, self.queue = line.get("busy_expiry"), line.get("queue")
            self._opened(str(line["session"]), line.get("permits"))
            self._id, self._why_none = str(line["session"]), ""
            self._is_open.set()
        if lost := line.get("lost"):
            self._lost(lost)


def _why_broken(path: str, error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError, PermissionError)):
        return cannot_connect(path, error)
    return f"the session on {path} broke ({error})"


_in_this_process: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    for session in list(_in_this_process):
        session.close_copy()


os.register_at_fork(after_in_child=_after_fork)
