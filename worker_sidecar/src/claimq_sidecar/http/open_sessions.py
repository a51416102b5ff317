"""Sessions and streams: responses that last for as long as the app keeps them open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET

from claimq.concurrency.notify import first_of, unless
from claimq.consuming.engine.slots import Slots
from claimq_sidecar.claims.item_stream import MOST_IN_LINE
from claimq_sidecar.claims.sessions import Session as OpenSession
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.json_text import to_json
from claimq_sidecar.http.requests import session_request, stream_request, window_request
from claimq_sidecar.http.responses import Draining, Session, Stream, Window, claims_body
from claimq_sidecar.http.router import Exchange
from claimq_sidecar.memory import TOKEN_BYTES, Budget, Share

HEARTBEAT_SECONDS = 10.0
"""Longest time between two lines."""
_LARGE_WINDOW: Final = 2 * MOST_IN_LINE
_SEND_BUFFER: Final = 64 * 1024
"""The send buffer of a stream with a large window, in bytes; the kernel takes twice as much memory. With the usual
16 KiB, a line of 250 items needed four writes (docs/decisions/streams.md)."""


@dataclass(slots=True)
class Line:
    """A line with items, which the client has not got yet. ``share``: its memory."""

    tokens: tuple[str, ...]
    body: bytes = b""
    share: Share = field(default_factory=Share)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that opens a session. ``window``: None without a stream."""

    tokens: tuple[str, ...]
    window: int | None
    encoding: str = "base64"
    ahead: bool = False


@dataclass(slots=True)
class _Opened:
    """A session that begins. ``window``: 0 without a stream. ``first``: its first line, until it is sent."""

    session: OpenSession
    window: int
    encoding: str
    first: bytes
    is_draining: bool = field(kw_only=True)


class Changes:
    """The changes of one session, one after the other. While one line is sent, the items of the next are claimed, and
    after a full line those of the next two (docs/decisions/streams.md).
    """

    def __init__(
        self, sidecar: Sidecar, session: OpenSession, exchange: Exchange, encoding: str, unread: Budget
    ) -> None:
        """``unread``: bytes for lines with items that clients have not read yet."""
        self._sidecar = sidecar
        self._session = session
        self._connection = exchange.connection
        self._encoding = encoding
        self._unread = unread
        self._ahead: list[asyncio.Task[Line | None]] = []

    async def next(self, within: float) -> Line | None:
        """Waits for a change, at most ``within`` seconds; returns the line with items to deliver, if there is one."""
        if not self._ahead:
            self._begin(0)
        await asyncio.wait(self._ahead, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        done = next((task for task in self._ahead if task.done()), None)
        if done is None:
            return None
        self._ahead.remove(done)
        line = done.result()
        if line is not None:
            most = 2 if len(line.tokens) == MOST_IN_LINE else 1
            while len(self._ahead) < most:
                self._begin(line.share.size)
        return line

    def _begin(self, expected: int) -> None:
        """Starts to claim the next line. It waits for items only if no other line is being claimed."""
        self._ahead.append(asyncio.ensure_future(self._prepare(expected, waits=not self._ahead)))

    async def _prepare(self, expected: int, *, waits: bool) -> Line | None:
        """The next line with items. None when there are none, and when other lines use all the memory for unread lines:
        then the items go back to the head of the queue, uncounted.

        ``expected``: bytes of memory, those of the line that is sent now. Nothing is claimed unless as many are free.
        """
        if expected and not await self._has_room(expected, 0.0):
            return None
        claimed = Share()
        try:
            claims = await self._sidecar.change(self._session, self._connection, claimed, waits=waits)
            if not claims:
                return None
            line = Line(tuple(claim.token for claim in claims))
            try:
                line.body = claims_body(claims, self._encoding, draining=False)
            except BaseException:
                self.take_back(line)
                raise
            claims.clear()
            size = 2 * len(line.body)
            if await line.share.take(self._unread, size, 0.0):
                return line
            self.take_back(line)
        finally:
            claimed.end()
        waiting = asyncio.ensure_future(self._has_room(size, HEARTBEAT_SECONDS))
        if await unless(waiting, self._connection.gone, self._sidecar.draining, self._sidecar.leaving):
            waiting.result()
        return None

    async def _has_room(self, size: int, within: float) -> bool:
        """Whether so many bytes for unread lines are free, or will be ``within`` seconds. Reserves none."""
        share = Share()
        try:
            return await share.take(self._unread, size, within)
        finally:
            share.end()

    def take_back(self, line: Line) -> tuple[str, ...]:
        """Returns the items of an unsent line to the head of the queue, uncounted."""
        line.body = b""
        line.share.end()
        self._sidecar.give_backs.unread(line.tokens)
        return line.tokens

    def take_back_ready(self) -> tuple[str, ...]:
        """Takes back the lines that are ready to be sent; returns the tokens of their items."""
        tokens: tuple[str, ...] = ()
        for task in list(self._ahead):
            if task.done() and not task.cancelled() and task.exception() is None:
                self._ahead.remove(task)
                if (line := task.result()) is not None:
                    tokens += self.take_back(line)
        return tokens

    async def end(self) -> None:
        """Waits for claims in progress. They end by themselves when the client is gone; their items go back then."""
        if self._ahead:
            if not self._connection.gone.is_set():
                for task in self._ahead:
                    task.cancel()
            await asyncio.wait(self._ahead)
            self.take_back_ready()


class OpenSessions:
    """The handlers of sessions and streams."""

    def __init__(self, sidecar: Sidecar, unread: Budget, send_buffers: Budget) -> None:
        """``unread``: bytes for lines with items that clients have not read yet; ``send_buffers``: for larger buffers
        in the kernel.
        """
        self._sidecar = sidecar
        self._unread = unread
        self._send_buffers = send_buffers
        self._open: dict[str, Changes] = {}

    async def session(self, exchange: Exchange) -> None:
        """Opens a session and keeps it open."""

        def read(raw: bytes) -> _Request:
            tokens, ahead = session_request(raw)
            return _Request(tokens, None, ahead=ahead)

        await self._respond(exchange, await self._open_session(exchange, read))

    async def stream(self, exchange: Exchange) -> None:
        """Opens a session whose response delivers items."""

        def read(raw: bytes) -> _Request:
            tokens, window, encoding = stream_request(raw)
            return _Request(tokens, self._sidecar.window(window), encoding)

        await self._respond(exchange, await self._open_session(exchange, read))

    async def _open_session(self, exchange: Exchange, read: Callable[[bytes], _Request]) -> _Opened:
        """Opens it. The tokens of its request, which may be as large as its body, do not outlive this call."""
        request = read(await exchange.body())
        await exchange.expect_bytes(len(request.tokens) * TOKEN_BYTES)
        window = request.window
        session, lost = await self._sidecar.open_session(
            exchange.connection,
            request.tokens,
            exchange.share,
            None if window is None else Slots(window),
            ahead=request.ahead,
        )
        first = self._first_line(session, lost if request.tokens else None, window)
        return _Opened(session, window or 0, request.encoding, _line(first), is_draining=first.draining)

    async def window(self, exchange: Exchange) -> None:
        """Changes the window of a stream."""
        session, requested = window_request(await exchange.body())
        window = self._sidecar.window(requested)
        tokens = self._sidecar.resize(session, window)
        changes = self._open.get(session)
        if window == 0 and changes is not None:
            returned = set(changes.take_back_ready())
            tokens = [token for token in tokens if token not in returned]
        await exchange.reply_json(Window(window, tokens))

    def _first_line(self, session: OpenSession, lost: list[str] | None, window: int | None) -> Session:
        sidecar = self._sidecar
        values = (
            session.id,
            sidecar.settings.queue,
            sidecar.settings.worker,
            sidecar.store.busy_expiry,
            sidecar.draining.is_set(),
            UNSET if lost is None else lost,
            UNSET if session.ahead is None else str(session.ahead.path),
        )
        return Session(*values) if window is None else Stream(*values, window=window)

    async def _respond(self, exchange: Exchange, opened: _Opened) -> None:
        session = opened.session
        changes = Changes(self._sidecar, session, exchange, opened.encoding, self._unread)
        self._open[session.id] = changes
        connection, buffer = exchange.connection, Share()
        try:
            is_large = opened.window >= _LARGE_WINDOW
            if is_large and await buffer.take(self._send_buffers, 2 * _SEND_BUFFER, 0.0):
                connection.set_send_buffer(_SEND_BUFFER)
            await exchange.begin_stream("application/x-ndjson")
            await exchange.stream(opened.first)
            opened.first = b""
            await connection.flushed.wait()  # until then the line, which names the lost claims, is in memory
            exchange.share.end()
            await self._keep_open(exchange, changes, is_announced=opened.is_draining)
        finally:
            self._sidecar.give_backs.unread(connection.clear_handed())
            changes.take_back_ready()
            self._sidecar.close_session(session, exchange.share)
            del self._open[session.id]
            buffer.end()
            await changes.end()

    async def _keep_open(self, exchange: Exchange, changes: Changes, *, is_announced: bool) -> None:
        """Sends items, a line when a drain begins or ends, and heartbeats, until the client or the sidecar ends.

        ``is_announced``: whether the client has read that there is a drain.
        """
        sidecar, gone = self._sidecar, exchange.connection.gone
        due = sidecar.now + HEARTBEAT_SECONDS
        while not gone.is_set():
            is_known = sidecar.draining.is_set() == is_announced
            line = await changes.next(max(due - sidecar.now, 0.0) if is_known else 0.0)
            is_draining = sidecar.draining.is_set()
            if line is not None:
                await self._send_items(exchange, changes, line)
                due = sidecar.now + HEARTBEAT_SECONDS
            elif is_draining != is_announced or sidecar.now >= due:
                is_announced = is_draining
                await exchange.stream(_line(Draining(is_announced)))
                due = sidecar.now + HEARTBEAT_SECONDS
            if sidecar.leaving.is_set():
                break
        if not gone.is_set():
            await exchange.stream(b"", more=False)

    async def _send_items(self, exchange: Exchange, changes: Changes, line: Line) -> None:
        """Sends a line and waits until the client has read it. Its end may still be in the kernel.

        In a drain its items go back instead, and so do those of the lines after it. A line is left out if the client
        has returned all its items (see :meth:`window`).
        """
        connection, draining, in_flight = exchange.connection, self._sidecar.draining, self._sidecar.in_flight
        is_wanted = any(token in in_flight for token in line.tokens)
        if not is_wanted or connection.gone.is_set() or draining.is_set():
            changes.take_back(line)
            return
        connection.hand(line.tokens, self._sidecar.give_backs.unread)
        body, line.body = line.body, b""
        try:
            await exchange.stream(body)
            del body
            if not connection.flushed.is_set():
                await first_of(None, connection.flushed, draining)
                if draining.is_set():
                    changes.take_back_ready()
                await connection.flushed.wait()
            # A write that failed is reported to the protocol, which returns the items, in this turn of the loop.
            await asyncio.sleep(0)
            connection.clear_handed()  # the client may have read it; what it does not end is counted as a crash
        finally:
            line.share.end()


def _line(message: Session | Draining) -> bytes:
    return to_json(message) + b"\n"
