"""Sessions and streams: responses that last for as long as the app keeps them open."""

from __future__ import annotations

import asyncio

from msgspec import UNSET

from claimq.model import Claim
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.concurrency import Concurrency
from claimq_sidecar.claims.sessions import Session as OpenSession
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.json_text import to_json
from claimq_sidecar.http.requests import session_tokens, stream_request, window_request
from claimq_sidecar.http.responses import Draining, Session, Stream, Window, claims_body
from claimq_sidecar.http.router import Exchange
from claimq_sidecar.memory import Budget, Share

HEARTBEAT_SECONDS = 10.0
"""Longest time between two lines."""


class _Changes:
    """The changes of one session, one after the other."""

    def __init__(self, sidecar: Sidecar, session: OpenSession, exchange: Exchange) -> None:
        self._sidecar = sidecar
        self._session = session
        self._exchange = exchange
        self._next: asyncio.Task[list[Claim]] | None = None

    async def next(self, within: float) -> list[Claim]:
        """Waits for a change, at most ``within`` seconds; returns the items to deliver."""
        exchange = self._exchange
        task = self._next = self._next or asyncio.ensure_future(
            self._sidecar.change(self._session, exchange.connection, exchange.share)
        )
        await asyncio.wait({task}, timeout=within)
        if not task.done():
            return []
        self._next = None
        if not task.result():
            exchange.share.end()
        return task.result()

    async def end(self) -> None:
        """Waits for a claim in progress. It ends by itself when the client is gone; its items go back then."""
        if self._next is not None:
            if not self._exchange.connection.gone.is_set():
                self._next.cancel()
            await asyncio.wait({self._next})


class OpenSessions:
    """The handlers of sessions and streams."""

    def __init__(self, sidecar: Sidecar, unread: Budget) -> None:
        """``unread``: bytes for lines with items that clients have not read yet."""
        self._sidecar = sidecar
        self._unread = unread

    async def session(self, exchange: Exchange) -> None:
        """Opens a session and keeps it open."""
        tokens = session_tokens(await exchange.body())
        exchange.share.end()
        session, lost = await self._sidecar.open_session(exchange.connection, tokens)
        first = self._first_line(session, lost if tokens else None)
        await self._respond(exchange, session, first, "base64")

    async def stream(self, exchange: Exchange) -> None:
        """Opens a session whose response delivers items."""
        tokens, wanted, encoding = stream_request(await exchange.body())
        exchange.share.end()
        window = self._sidecar.window(wanted)
        counted = Concurrency(window)
        session, lost = await self._sidecar.open_session(exchange.connection, tokens, counted)
        first = self._first_line(session, lost if tokens else None, window)
        await self._respond(exchange, session, first, encoding)

    async def window(self, exchange: Exchange) -> None:
        """Changes the window of a stream."""
        session, wanted = window_request(await exchange.body())
        window = self._sidecar.window(wanted)
        await exchange.reply_json(Window(window, self._sidecar.resize(session, window)))

    def _first_line(self, session: OpenSession, lost: list[str] | None, window: int | None = None) -> Session:
        sidecar = self._sidecar
        values = (
            session.id,
            sidecar.settings.queue,
            sidecar.settings.worker,
            sidecar.store.busy_expiry,
            sidecar.draining.is_set(),
            UNSET if lost is None else lost,
        )
        return Session(*values) if window is None else Stream(*values, window=window)

    async def _respond(self, exchange: Exchange, session: OpenSession, first: Session, encoding: str) -> None:
        changes = _Changes(self._sidecar, session, exchange)
        try:
            await exchange.begin_stream("application/x-ndjson")
            await exchange.stream(_line(first))
            await self._keep_open(exchange, changes, encoding, is_announced=first.draining)
        finally:
            self._take_back(exchange.connection)
            self._sidecar.close_session(session)
            await changes.end()

    async def _keep_open(
        self, exchange: Exchange, changes: _Changes, encoding: str, *, is_announced: bool
    ) -> None:
        """Sends items, a line when a drain begins or ends, and heartbeats, until the client or the sidecar ends.

        ``is_announced``: whether the client has read that there is a drain.
        """
        sidecar, gone = self._sidecar, exchange.connection.gone
        due = sidecar.now + HEARTBEAT_SECONDS
        while not gone.is_set():
            claims = await changes.next(max(due - sidecar.now, 0.0))
            is_draining = sidecar.draining.is_set()
            if claims:
                await self._send_items(exchange, claims, encoding)
                due = sidecar.now + HEARTBEAT_SECONDS
            elif is_draining != is_announced or sidecar.now >= due:
                is_announced = is_draining
                await exchange.stream(_line(Draining(is_announced)))
                due = sidecar.now + HEARTBEAT_SECONDS
            if sidecar.leaving.is_set():
                break
        if not gone.is_set():
            await exchange.stream(b"", more=False)

    def _take_back(self, connection: Connection) -> None:
        """Returns the items of a line that is not sent."""
        tokens, connection.handed = connection.handed, ()
        if tokens:
            self._sidecar.give_back_unread(tokens)

    async def _send_items(self, exchange: Exchange, claims: list[Claim], encoding: str) -> None:
        """Sends a line and waits until the client has read it, or all but the last 16 KiB of it.

        If other lines use all the memory for unread lines, the items go back to the head of the queue, uncounted.
        """
        connection, line = exchange.connection, Share()
        body = claims_body(claims, encoding, draining=self._sidecar.draining.is_set())
        claims.clear()
        size = 2 * len(body)
        has_room = await line.take(self._unread, size, 0.0)
        try:
            if connection.gone.is_set() or not has_room:
                self._take_back(connection)
                del body
                exchange.share.end()
                await line.take(self._unread, size, HEARTBEAT_SECONDS)
                return
            exchange.share.end()
            await exchange.stream(body)
            del body
            await connection.flushed.wait()
            # A write that failed is reported to the protocol, which returns the items, in this turn of the loop.
            await asyncio.sleep(0)
            connection.handed = ()  # the client may have read it; what it does not end is counted as a crash
        finally:
            line.end()


def _line(value: Session | Draining) -> bytes:
    return to_json(value) + b"\n"
