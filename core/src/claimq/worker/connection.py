"""HTTP/1.1 on a Unix socket for threads: connections that are reused, calls that are repeated where that is
harmless.
"""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from claimq.worker.errors import SidecarUnavailable, StoreUnavailable
from claimq.worker.wire import (
    BrokenReply,
    Head,
    cannot_connect,
    no_answer,
    read_object,
    refusal,
    request,
    split_head,
)

_LONGEST_PAUSE = 1.0


def open_socket(path: str, timeout: float) -> socket.socket:
    """Connects. Raises OSError."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made


def read_head(sock: socket.socket, deadline: float) -> tuple[Head, bytes]:
    """The head of a reply and the first bytes after it. Raises OSError; TimeoutError after the deadline."""
    buffer = b""
    while (found := split_head(buffer)) is None:
        buffer += receive(sock, deadline)
    return found


def receive(sock: socket.socket, deadline: float) -> bytes:
    """Some bytes. Raises OSError, also for the end of the stream; TimeoutError after the deadline."""
    sock.settimeout(max(deadline - time.monotonic(), 0.001))
    data = sock.recv(256 * 1024)
    if not data:
        raise BrokenReply("the connection ended before the reply was complete")
    return data


class Connection:
    """One connection, for one exchange at a time."""

    def __init__(self, path: str, timeout: float) -> None:
        self.socket = open_socket(path, timeout)
        self.is_reusable = True

    def exchange(self, raw: bytes, deadline: float) -> tuple[int, bytes]:
        """Sends a request; returns the status and the body of the reply. Raises OSError; the connection is
        spent then.
        """
        self.is_reusable = False
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            self.socket.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the sidecar refused a body without reading it all: its reply may be there
        head, body = read_head(self.socket, deadline)
        if head.length is None:
            raise BrokenReply("the reply has no length; is this socket the sidecar's?")
        parts = [body]
        missing = head.length - len(body)
        while missing > 0:
            parts.append(receive(self.socket, deadline))
            missing -= len(parts[-1])
        self.is_reusable = not head.closes and missing == 0
        return head.status, b"".join(parts)

    def is_stale(self) -> bool:
        """Whether the sidecar has closed this idle connection."""
        readable, _, _ = select.select([self.socket], [], [], 0)
        return bool(readable)

    def interrupt(self) -> None:
        """Ends an exchange under way in another thread, or in this one below a signal handler."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended already

    def close(self) -> None:
        """Closes it."""
        self.socket.close()


class Connections:
    """Calls from any number of threads, each over a connection of its own for as long as it lasts."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def call(
        self,
        path: str,
        body: bytes,
        *,
        answer_in: float,
        try_for: float = 0.0,
        repeatable: bool = True,
        using: Callable[[Connection | None], None] | None = None,
        abandon: Callable[[], bool] = lambda: False,
    ) -> tuple[dict[str, Any], bool]:
        """Makes a call; returns the reply and whether an earlier try of it may have had its effect.

        ``answer_in``: seconds for one try. A try that fails is repeated for ``try_for`` seconds where that is
        harmless: always while the request cannot have arrived, afterwards only if ``repeatable``. ``using``
        is told the connection during a try; after ``abandon`` says so there is no other. Raises
        SidecarUnavailable, StoreUnavailable, Refused.
        """
        raw = request(path, body)
        give_up = time.monotonic() + try_for
        pause, sent = 0.02, False
        while True:
            try:
                connection = self._take(answer_in)
            except OSError as error:
                failure: SidecarUnavailable | StoreUnavailable = SidecarUnavailable(
                    cannot_connect(self.path, error)
                )
                failure.__cause__ = error
            else:
                try:
                    return self._exchange(connection, raw, answer_in, using), sent
                except OSError as error:
                    failure = no_answer(self.path, error, known=repeatable)
                    sent = True
                    if not repeatable:
                        raise failure from error
                except StoreUnavailable as error:
                    failure, sent = error, True
            if abandon() or time.monotonic() + pause > give_up:
                raise failure
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - spreads tries, guards no secret
            pause = min(pause * 2, _LONGEST_PAUSE)

    def probe(self, within: float) -> None:
        """Waits until somebody accepts connections. Raises SidecarUnavailable that says why nobody does."""
        give_up = time.monotonic() + within
        while True:
            try:
                self._put_back(Connection(self.path, within))
            except OSError as error:
                if time.monotonic() > give_up:
                    raise SidecarUnavailable(cannot_connect(self.path, error)) from error
                time.sleep(0.05)
            else:
                return

    def _exchange(
        self,
        connection: Connection,
        raw: bytes,
        answer_in: float,
        using: Callable[[Connection | None], None] | None,
    ) -> dict[str, Any]:
        if using is not None:
            using(connection)
        try:
            status, answer = connection.exchange(raw, time.monotonic() + answer_in)
        finally:
            if using is not None:
                using(None)
            self._put_back(connection)
        if status != 200:
            raise refusal(status, answer)
        return read_object(answer)

    def _take(self, timeout: float) -> Connection:
        while True:
            with self._lock:
                if self._closed:
                    raise SidecarUnavailable("this worker is closed; connect anew")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return Connection(self.path, timeout)
            if not connection.is_stale():
                return connection
            connection.close()

    def _put_back(self, connection: Connection) -> None:
        with self._lock:
            if connection.is_reusable and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Closes the idle connections; calls under way end by themselves."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
