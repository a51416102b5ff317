"""A session for threads: one connection on a thread of its own, opened again whenever it breaks."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from claimq.worker.connection import open_socket, read_head, receive
from claimq.worker.errors import SidecarUnavailable
from claimq.worker.wire import BrokenReply, ChunkedLines, cannot_connect, read_object, request, session_body

ANSWER_SECONDS = 30.0
"""How long the sidecar may take to open a session."""
SILENCE_SECONDS = 60.0
"""A session without a sign of life for so long is broken."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_log = logging.getLogger("claimq.worker")


def why_broken(path: str, error: OSError) -> str:
    """What to say about a session that could not be opened or kept."""
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError, PermissionError)):
        return cannot_connect(path, error)
    return f"the session on {path} broke ({error})"


class Session:
    """Proves to the sidecar that this process is alive, for as long as it is.

    When the connection breaks (the sidecar restarted) it is opened again, and the new session takes over the
    claims that ``in_hand`` names, so that their leases go on being renewed; ``lost`` is told those that it
    cannot.
    """

    def __init__(
        self, path: str, in_hand: Callable[[], Iterable[str]], lost: Callable[[Iterable[str]], None]
    ) -> None:
        self._path = path
        self._in_hand = in_hand
        self._lost = lost
        self._state = threading.Condition()
        self._id: str | None = None
        self._socket: socket.socket | None = None
        self._closed = False
        self._why = ""
        self.draining = False
        self.busy_expiry: float | None = None
        _in_this_process.add(self)
        self._thread = threading.Thread(target=self._run, name="claimq-session", daemon=True)
        self._thread.start()

    def id(
        self, within: float, *, other_than: str | None = None, abandon: Callable[[], bool] = lambda: False
    ) -> str:
        """The open session's id, waiting for one. Raises SidecarUnavailable with the reason."""
        give_up = time.monotonic() + within
        with self._state:
            while self._id is None or self._id == other_than:
                if self._closed or abandon() or time.monotonic() > give_up:
                    late = f"the sidecar on {self._path} has not opened a session in {within:g} s"
                    raise SidecarUnavailable(self._why or late)
                self._state.wait(0.1)
            return self._id

    def close(self) -> None:
        """Ends it. What is still in hand under it goes back at once, counted as a crash."""
        with self._state:
            self._closed = True
            open_now = self._socket
            self._state.notify_all()
        if open_now is not None:
            try:
                open_now.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    def close_copy(self) -> None:
        """In the child of a fork, whose copy of the connection would keep the session open after the parent's
        death.
        """
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closed:
            began = time.monotonic()
            try:
                self._open_and_read()
            except OSError as error:
                self._why = why_broken(self._path, error)
            except Exception as error:  # noqa: BLE001 - logged with its traceback; the worker needs a session
                self._why = f"the session with the sidecar met an unexpected error: {error!r}"
                _log.exception("unexpected error in the session with the sidecar; opening another")
            was_open = self._note_ended()
            lasted = time.monotonic() - began > 1.0
            pause = _FIRST_PAUSE if was_open and lasted else min(pause * 2, _LONGEST_PAUSE)
            with self._state:
                self._state.wait_for(lambda: self._closed, pause)

    def _note_ended(self) -> bool:
        """Whether a session was open that has ended now."""
        with self._state:
            was_open, self._id, self._socket = self._id is not None, None, None
            if was_open and not (self._closed or self.draining):
                _log.warning("the session with the sidecar has ended; opening another")
            return was_open

    def _open_and_read(self) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        with open_socket(self._path, ANSWER_SECONDS) as sock:
            if not self._adopt(sock):
                return
            sock.sendall(request("/v1/session", session_body(self._in_hand())))
            head, data = read_head(sock, deadline)
            if head.status != 200 or head.length is not None:
                raise BrokenReply(f"the sidecar refused a session with status {head.status}")
            lines = ChunkedLines()
            while True:
                for line in lines.feed(data):
                    self._told(read_object(line))
                if lines.ended:
                    return
                data = receive(sock, time.monotonic() + SILENCE_SECONDS)

    def _adopt(self, sock: socket.socket) -> bool:
        """Makes this the session's connection; false if the session was closed meanwhile."""
        with self._state:
            self._socket = sock
            return not self._closed

    def _told(self, line: dict[str, Any]) -> None:
        with self._state:
            self.draining = self.draining or bool(line.get("draining"))
            if "session" in line:
                self._id, self._why = str(line["session"]), ""
                self.busy_expiry = line.get("busy_expiry")
            self._state.notify_all()
        if lost := line.get("lost"):
            self._lost(lost)


_in_this_process: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    for session in list(_in_this_process):
        session.close_copy()


os.register_at_fork(after_in_child=_after_fork)
