"""A small ASGI app: routes, limits on bodies, JSON responses, problem documents, and durations by path."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from claimq.concurrency.notify import unless
from claimq.errors import ClaimqError
from claimq.model import NewItem
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.sessions import SessionNotOpen
from claimq_sidecar.http.json_text import to_json
from claimq_sidecar.http.plain_requests import COMPLETE, KEY
from claimq_sidecar.http.problems import (
    Refusal,
    body_too_large,
    body_too_slow,
    defect,
    method_not_allowed,
    no_room,
    not_found,
    of_library,
    session_not_open,
)
from claimq_sidecar.memory import BODY_FACTOR, SMALL, Bodies, Share
from claimq_sidecar.metrics import Metrics

BODY_SECONDS = 60.0
"""How long a body may take to arrive."""
ROOM_SECONDS = 10.0
"""How long a body waits for memory before it is read."""
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_log = logging.getLogger("claimq_sidecar.http")


class ClientGone(Exception):
    """The client disconnected before its request was complete, so no response is sent."""


class Exchange:
    """One request and its response."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        max_body: int,
        bodies: Bodies | None = None,
        *,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._bodies = bodies
        self._body_seconds = body_seconds
        self.share = Share()
        """The memory that this exchange has reserved."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._max_body = max_body
        self.path: str = scope["path"]
        self.method: str = scope["method"]
        self.connection: Connection = scope.get(KEY) or Connection()
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._length = self.header("content-length")
        self.status = 0
        self.waited = 0.0
        """Seconds that a claim waited for items; they do not count as duration of the request."""

    def header(self, name: str) -> str | None:
        """The first header of that name; None if there is none."""
        raw_name = name.lower().encode()
        for key, value in self._headers:
            if key == raw_name:
                return value.decode("latin-1")
        return None

    async def body(self) -> bytes:
        """The whole body.

        Raises a Refusal when it is too large (without reading it), too slow, or has no room beside others in time;
        ClientGone when it breaks off.
        """
        length = SMALL if self._length is None else int(self._length)
        if length > self._max_body:
            raise body_too_large(self._max_body)
        await self._take_room(length)
        try:
            if COMPLETE in self._scope:  # so that there is nothing to wait for
                return await self._read_body(length)
            async with asyncio.timeout(self._body_seconds):
                return await self._read_body(length)
        except TimeoutError:
            raise body_too_slow(self._body_seconds) from None

    async def _read_body(self, length: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            part: bytes = message["body"]
            size += len(part)
            if size > self._max_body:
                raise body_too_large(self._max_body)
            if size > length:  # a chunked body may grow to the limit
                length = self._max_body
                await self._take_room(length)
            parts.append(part)
            if not message["more_body"]:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def expect(self, items: Iterable[NewItem]) -> None:
        """Reserves more memory if the payloads are larger than the body: 1e15 is stored as 1000000000000000.0.

        Raises a Refusal if there is none in time.
        """
        await self.expect_bytes(sum(len(item.payload) for item in items if isinstance(item.payload, bytes)))

    async def expect_bytes(self, size: int) -> None:
        """Reserves as much memory as for a body of this size. Raises a Refusal if there is none in time."""
        missing = size - self.share.size // BODY_FACTOR
        if missing > 0:
            await self._take_room(missing)

    async def _take_room(self, length: int) -> None:
        if self._bodies is None or await self._bodies.take(self.share, length, 0.0):
            return
        taking = asyncio.ensure_future(self._bodies.take(self.share, length, ROOM_SECONDS))
        if not await unless(taking, self.connection.gone):
            raise ClientGone
        if not taking.result():
            raise no_room(ROOM_SECONDS)

    async def reply(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a whole response."""
        fields = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
        fields += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def reply_json(self, document: object, *, status: int = 200) -> None:
        """Sends a value as JSON."""
        await self.reply(to_json(document) + b"\n", status=status)

    async def refuse(self, refusal: Refusal) -> None:
        """Sends a problem document, unless a response has already begun."""
        if self.status:
            return
        body = to_json(refusal.document()) + b"\n"
        await self.reply(
            body, status=refusal.status, kind="application/problem+json", headers=refusal.headers
        )

    async def begin_stream(self, kind: str) -> None:
        """Starts a response that is sent in parts."""
        self.status = 200
        await self._send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]}
        )

    async def stream(self, part: bytes, *, more: bool = True) -> None:
        """Sends a part of the response."""
        await self._send({"type": "http.response.body", "body": part, "more_body": more})


Handler = Callable[[Exchange], Awaitable[None]]
Routes = Mapping[str, Mapping[str, Handler]]


class App:
    """An ASGI app with a table of routes: path -> method -> handler."""

    def __init__(
        self,
        routes: Routes,
        max_body: int,
        metrics: Metrics | None = None,
        *,
        check: Callable[[Exchange], None] | None = None,
        bodies: Bodies | None = None,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        """``check`` is called for each request and raises a Refusal for one that must not be handled."""
        self._bodies = bodies
        self._body_seconds = body_seconds
        self._check = check
        self.routes = routes
        self._max_body = max_body
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            return
        exchange = Exchange(
            scope, receive, send, self._max_body, self._bodies, body_seconds=self._body_seconds
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._handle(exchange)
        except ClientGone:
            return
        finally:
            exchange.share.end()
            if self._metrics is not None and exchange.status:
                path = exchange.path if exchange.path in self.routes else "other"
                seconds = loop.time() - began - exchange.waited
                self._metrics.observe_request(path, exchange.status, max(seconds, 0.0))

    async def _handle(self, exchange: Exchange) -> None:
        try:
            if self._check is not None:
                self._check(exchange)
            await self._handler(exchange)(exchange)
        except Refusal as refusal:
            await exchange.refuse(refusal)
        except SessionNotOpen as error:
            await exchange.refuse(session_not_open(error.session))
        except (ClaimqError, ValueError, TypeError) as error:
            if not isinstance(error, ClaimqError):
                _log.warning(LogEvent("refused", path=exchange.path[:100], error=type(error).__name__))
            await exchange.refuse(of_library(error))
        except (ClientGone, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - a defect costs one request, not the sidecar and what it holds
            where = traceback.extract_tb(error.__traceback__)[-1]
            _log.error(  # without the message: it may quote a payload
                LogEvent(
                    "defect",
                    path=exchange.path[:100],
                    error=type(error).__name__,
                    at=f"{where.filename}:{where.lineno}",
                )
            )
            await exchange.refuse(defect())

    def _handler(self, exchange: Exchange) -> Handler:
        methods = self.routes.get(exchange.path)
        if methods is None:
            raise not_found(exchange.path, self.routes)
        method = "GET" if exchange.method == "HEAD" else exchange.method
        if method not in methods:
            raise method_not_allowed(
                exchange.method, exchange.path, [*methods, *(["HEAD"] if "GET" in methods else [])]
            )
        return methods[method]
