"""HTTP/1.1 on a Unix socket: connections that are reused, calls that are repeated where that is harmless."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from claimq.concurrency.backoff import Backoff
from claimq.errors import StoreUnavailable
from claimq.worker.backends import Backend, Stream
from claimq.worker.errors import SidecarUnavailable
from claimq.worker.stopping import Stopping
from claimq.worker.wire import (
    ANSWER_SECONDS,
    BrokenReply,
    Head,
    cannot_connect,
    no_answer,
    read_object,
    refusal,
    request,
    split_head,
)

_KEEP_SECONDS = 5.0
CLOSED = "this worker is closed; connect again"


async def read_head(stream: Stream, timeout_at: float) -> tuple[Head, bytes]:
    """The head of a reply and the first bytes after it. Raises OSError."""
    buffer = await receive(stream, timeout_at)
    while (found := split_head(buffer)) is None:
        buffer += await receive(stream, timeout_at)
    return found


async def receive(stream: Stream, timeout_at: float) -> bytes:
    """Some bytes. Raises OSError, also at the end of the stream."""
    data = await stream.receive(timeout_at)
    if not data:
        raise BrokenReply("the connection ended before the reply was complete")
    return data


async def exchange(stream: Stream, raw: bytes, timeout_at: float) -> tuple[int, bytes, bool]:
    """Sends a request. Returns the status and the body of the reply, and whether the connection can be reused.

    Raises OSError; the connection has to be closed then.
    """
    try:
        await stream.send(raw, timeout_at)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the sidecar refused the body without reading all of it: its reply may be there
    head, body = await read_head(stream, timeout_at)
    if head.length is None:
        raise BrokenReply("the reply has no length; is this socket the sidecar's?")
    parts, missing = [body], head.length - len(body)
    while missing > 0:
        parts.append(await receive(stream, timeout_at))
        missing -= len(parts[-1])
    return head.status, b"".join(parts), not head.closes and missing == 0


class Connections:
    """Calls from any number of threads or tasks. Each has a connection of its own for as long as it lasts.

    Without a lock: adding to a list and taking from it are atomic, and a signal handler may not wait for a lock.
    """

    def __init__(self, path: str, backend: Backend) -> None:
        self.path = path
        self._backend = backend
        self._idle: list[Stream] = []
        self._closed = False
        self._default_wait = -_KEEP_SECONDS, 0.0

    async def call(
        self,
        path: str,
        body: bytes | None,
        *,
        answer_in: float,
        try_for: float = 0.0,
        repeatable: bool = True,
        stopping: Stopping | None = None,
        abandon: Callable[[], bool] = lambda: False,
        if_late: Callable[[dict[str, Any]], Coroutine[Any, Any, None]] | None = None,
    ) -> tuple[dict[str, Any], bool]:
        """Makes a call (a GET if there is no body). Returns the reply and whether an earlier try of it may have had its
        effect.

        ``answer_in``: seconds for one try. A try that fails is repeated for ``try_for`` seconds where that is
        harmless: always while the request cannot have arrived, afterwards only if ``repeatable``. A stop by
        ``stopping`` ends the wait for the reply, and there is no other try. Nor is there one once ``abandon`` returns
        true. Cancelling the call closes its connection; a reply that had arrived by then is given to ``if_late``.
        Raises SidecarUnavailable, StoreUnavailable, Refused.
        """
        raw = request(path, body)
        give_up = time.monotonic() + try_for
        pauses, sent = Backoff(0.02, 1.0, jitter=0.5), False
        failure: SidecarUnavailable | StoreUnavailable
        while True:
            try:
                stream = await self._take(answer_in)
            except OSError as error:
                failure = SidecarUnavailable(cannot_connect(self.path, error))
                failure.__cause__ = error
            else:
                try:
                    return await self._reply(stream, raw, answer_in, stopping, if_late), sent
                except OSError as error:
                    failure, sent = no_answer(self.path, error, known=repeatable), True
                    if not repeatable:
                        raise failure from error
                except StoreUnavailable as error:
                    failure, sent = error, True
            left = give_up - time.monotonic()
            if (stopping is not None and stopping.is_asked) or abandon() or left <= 0:
                raise failure
            await self._backend.sleep(min(pauses.next(), left))

    async def info(self, try_for: float) -> dict[str, Any]:
        """The response to ``GET /v1/info``. Raises SidecarUnavailable, StoreUnavailable, Refused."""
        return (await self.call("/v1/info", None, answer_in=ANSWER_SECONDS, try_for=try_for))[0]

    async def default_wait(self, try_for: float) -> float:
        """Seconds that a claim waits if it does not say how long, asked for at most every five seconds. A claim that
        names its wait notices in time that the sidecar does not answer. Raises SidecarUnavailable, StoreUnavailable,
        Refused.
        """
        read_at, wait = self._default_wait
        if time.monotonic() - read_at >= _KEEP_SECONDS:
            wait = (await self.info(try_for))["claim_wait"]
            self._default_wait = time.monotonic(), wait
        return wait

    async def probe(self, within: float) -> None:
        """Waits until the socket accepts connections. Raises SidecarUnavailable with the reason why it does not."""
        give_up = time.monotonic() + within
        while True:
            try:
                self._put_back(await self._take(within))
            except OSError as error:
                if time.monotonic() > give_up:
                    raise SidecarUnavailable(cannot_connect(self.path, error)) from error
                await self._backend.sleep(0.05)
            else:
                return

    async def _reply(
        self,
        stream: Stream,
        raw: bytes,
        answer_in: float,
        stopping: Stopping | None,
        if_late: Callable[[dict[str, Any]], Coroutine[Any, Any, None]] | None,
    ) -> dict[str, Any]:
        work = self._exchange(stream, raw, answer_in, stopping)
        return await (work if if_late is None else self._backend.received(work, stream, if_late))

    async def _exchange(
        self, stream: Stream, raw: bytes, answer_in: float, stopping: Stopping | None
    ) -> dict[str, Any]:
        is_reusable = False
        if stopping is not None:
            stopping.add(stream)
        try:
            status, body, is_reusable = await exchange(stream, raw, time.monotonic() + answer_in)
        finally:
            if stopping is not None:
                stopping.discard(stream)
            if is_reusable:
                self._put_back(stream)
            else:
                stream.close()
        if status != 200:
            raise refusal(status, body)
        return read_object(body)

    async def _take(self, timeout: float) -> Stream:
        while True:
            if self._closed:
                raise SidecarUnavailable(CLOSED)
            try:
                stream = self._idle.pop()
            except IndexError:
                return await self._backend.connect(self.path, time.monotonic() + timeout)
            if not stream.is_stale():
                return stream
            stream.close()

    def _put_back(self, stream: Stream) -> None:
        self._idle.append(stream)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Closes the idle connections; calls in progress end by themselves."""
        self._closed = True
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return  # another thread closes them too
