"""Calls over a line: a connection that the client library made and we use ourselves.

The client library's own way of making a call costs a caller several times what the server takes for it, and a waiting
claim pays that three times. A line is its connection (so its TLS, log-in, choice of database and Sentinel look-up)
with the transport handed to a protocol of ours: calls are written one after the other and answered in that order, so
many may be under way at once. Nothing is sent twice here: a call whose connection is lost is the caller's to repeat.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

hiredis: Any
try:
    import hiredis
except ImportError:  # the client library can do without; then its own way has to do
    hiredis = None

CAN_BE_USED: bool = hiredis is not None
Word = str | bytes | int | float
_CLOSING_SECONDS = 1.0
_NOTHING: Any = object()


class Line(asyncio.Protocol):
    """One connection. Its calls are answered in order; each within the seconds it is given, or all of them end."""

    def __init__(self, connection: Any) -> None:
        """Takes a connected connection of the client library over."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._reader: Any = hiredis.Reader(
            protocolError=InvalidResponse, replyError=ResponseError, notEnoughData=_NOTHING
        )
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._reason: Exception | None = None
        self._lost = self._loop.create_future()
        self._is_retired = False
        self.is_open = True
        self._transport: Any = connection._writer.transport  # noqa: SLF001 - there is no other way to it
        self._before: Any = self._transport.get_protocol()
        self._transport.set_protocol(self)
        if self._transport.is_closing():
            self._end(None)

    def call(self, words: Sequence[Word], seconds: float) -> asyncio.Future[Any]:
        """Sends a command; the reply, or ResponseError, Disconnected or NoAnswer. Cancelling it hurts no other call."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if not self.is_open:
            answer.set_exception(self._why())
            return answer
        until = self._loop.time() + seconds
        self._waiting.append((answer, until))
        self._transport.write(hiredis.pack_command(tuple(words)))
        if self._watch is None:
            self._watch = self._loop.call_at(until, self._look)
        return answer

    def _look(self) -> None:
        """Ends the line when the oldest call has waited too long; one timer for all calls."""
        self._watch = None
        if not self._waiting or not self.is_open:
            return
        until = self._waiting[0][1]
        if self._loop.time() >= until:
            self.abort(NoAnswer("no reply in time"))
        else:
            self._watch = self._loop.call_at(until, self._look)

    def data_received(self, data: bytes) -> None:
        """Answers calls with the replies that are whole."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _NOTHING:
                answer, _ = self._waiting.popleft()
                if answer.done():
                    continue
                if isinstance(reply, ResponseError):
                    answer.set_exception(reply)
                else:
                    answer.set_result(reply)
        except (InvalidResponse, IndexError) as error:  # not the protocol, or a reply that nobody asked for
            self.abort(Disconnected(f"the server's reply cannot be read ({error})"))
        if self._is_retired:
            self.retire()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all calls under way."""
        self._before.connection_lost(exc)
        self._end(exc)
        self._connection._close()  # noqa: SLF001 - its way to close without waiting; else it warns that nobody did

    def _end(self, error: Exception | None) -> None:
        self.is_open = False
        self._reason = self._reason or error
        if self._watch is not None:
            self._watch.cancel()
        while self._waiting:
            answer, _ = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(self._why())
        if not self._lost.done():
            self._lost.set_result(None)

    def _why(self) -> Exception:
        if isinstance(self._reason, NoAnswer):
            return NoAnswer(*self._reason.args)
        return Disconnected(str(self._reason or "the connection was closed"))

    def retire(self) -> None:
        """Closes it as soon as every call under way is answered; the caller makes no new ones."""
        self._is_retired = True
        if not self._waiting:
            self.abort()

    def abort(self, reason: Exception | None = None) -> None:
        """Closes it at once; calls under way end with ``reason``."""
        self._reason = self._reason or reason
        self.is_open = False
        self._transport.abort()

    async def close(self) -> None:
        """Closes it and waits, briefly, until it is."""
        self.abort()
        await asyncio.wait([self._lost], timeout=_CLOSING_SECONDS)


class LineClient:
    """The client library's client for one server, with scripts and waiting over lines. Everything else is its own."""

    def __init__(self, client: Any, *, reply_timeout: float, most_lines: int) -> None:
        self._client = client
        self._seconds = reply_timeout
        self._most_lines = most_lines
        self._line: Line | None = None
        self._connecting: asyncio.Task[Line] | None = None
        self._idle: list[Line] = []
        self._all: set[Line] = set()

    async def evalsha(self, sha: str, numkeys: int, *words: Word) -> Any:
        """Runs a script by its hash. Raises ResponseError, Disconnected, NoAnswer, OSError."""
        line = self._line
        if line is None or not line.is_open:
            line = await self._connected()
        return await line.call(("EVALSHA", sha, numkeys, *words), self._seconds)

    async def eval(self, text: str, numkeys: int, *words: Word) -> Any:
        """Runs a script by its text. Raises as :meth:`evalsha`."""
        line = await self._connected()
        return await line.call(("EVAL", text, numkeys, *words), self._seconds)

    async def blpop(self, keys: Sequence[str], timeout: float) -> Any:
        """Waits on a line of its own. Cancelled, it closes that line: nobody else may get what this call waited for."""
        line = self._idle.pop() if self._idle else None
        if line is None or not line.is_open:
            line = await self._new_line()
        try:
            reply = await line.call(("BLPOP", *keys, timeout), timeout + self._seconds)
        except BaseException:
            line.abort()
            raise
        if line.is_open:
            self._idle.append(line)
        return reply

    async def execute_command(self, *words: Word, **options: Any) -> Any:
        """Any other command, in the client library's way and with its reading of the reply."""
        return await self._client.execute_command(*words, **options)

    async def _connected(self) -> Line:
        """The line for calls; several that need a new one share it. One that is cancelled stops nobody else."""
        if self._line is not None and self._line.is_open:
            return self._line
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        connecting = self._connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled() and not _is_cancelled():
                raise Disconnected("the connection was closed") from None
            raise

    async def _connect(self) -> Line:
        try:
            self._line = await self._new_line()
            return self._line
        finally:
            self._connecting = None

    async def _new_line(self) -> Line:
        self._all = {line for line in self._all if line.is_open}
        if len(self._all) >= self._most_lines:
            raise Disconnected(f"{len(self._all)} connections are in use; make fewer calls at once")
        connection = self._client.connection_pool.make_connection()
        await connection.connect()
        line = Line(connection)
        self._all.add(line)
        return line

    @property
    def connection_pool(self) -> Any:
        """The client library's connections, for what does not go over lines."""
        return self._client.connection_pool

    def retire_lines(self) -> None:
        """After a fault no line is trusted: the next call makes a new one. Calls under way end where they are."""
        self._line = None
        self._idle = []
        for line in self._all:
            line.retire()

    async def aclose(self) -> None:
        """Closes all lines; calls under way end with Disconnected. Then the client library's client."""
        if self._connecting is not None:
            self._connecting.cancel()
        lines, self._all, self._line = list(self._all), set[Line](), None
        for line in lines:
            await line.close()
        await self._client.aclose()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
