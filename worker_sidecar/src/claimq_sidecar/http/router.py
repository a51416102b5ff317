"""A small ASGI app and its server: routes, limits on bodies, JSON responses, problem documents, durations by path."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from uvicorn.config import Config
from uvicorn.server import Server

from claimq.concurrency.notify import unless
from claimq.errors import ClaimqError
from claimq.model import NewItem
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.sessions import SessionNotOpen
from claimq_sidecar.http.connection.shortcuts import COMPLETE, KEY
from claimq_sidecar.http.json_text import to_json
from claimq_sidecar.http.problems import Refusal, of_library
from claimq_sidecar.memory import BODY_FACTOR, SMALL, Bodies, Share
from claimq_sidecar.metrics import Metrics

BODY_SECONDS = 60.0
"""How long a body may take to arrive."""
CLAIM_PATH = "/v1/claim"
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
        if self.path != CLAIM_PATH:
            self.connection.last_claim.forget()
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
            raise self._too_large()
        await self._take_room(length)
        try:
            if COMPLETE in self._scope:  # so that there is nothing to wait for
                return await self._read_body(length)
            async with asyncio.timeout(self._body_seconds):
                return await self._read_body(length)
        except TimeoutError:
            detail = f"the body was not complete after {self._body_seconds:g} s; send it in one go"
            raise Refusal("body-too-slow", detail) from None

    def _too_large(self) -> Refusal:
        detail = f"a body has at most {self._max_body} bytes (CLAIMQ_MAX_BODY); send fewer items at once"
        return Refusal("body-too-large", detail)

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
                raise self._too_large()
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
            raise Refusal(
                "busy",
                f"other requests used all the memory for bodies for {ROOM_SECONDS:g} s; send less at once",
            )

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
            why = "is not open; open one with POST /v1/session and keep its connection open"
            await exchange.refuse(Refusal("session-not-open", f"the session {error.session[:64]} {why}"))
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
            why = "the request could not be handled; see event=defect in the sidecar's log"
            await exchange.refuse(Refusal("defect", why))

    def _handler(self, exchange: Exchange) -> Handler:
        methods = self.routes.get(exchange.path)
        if methods is None:
            detail = f"{exchange.path[:100]} does not exist; there are {', '.join(self.routes)}"
            raise Refusal("not-found", detail)
        method = "GET" if exchange.method == "HEAD" else exchange.method
        if method not in methods:
            allowed = ", ".join(sorted([*methods, *(["HEAD"] if "GET" in methods else [])]))
            detail = f"{exchange.path} takes {allowed}, not {exchange.method[:20]}"
            raise Refusal("method-not-allowed", detail, headers={"allow": allowed})
        return methods[method]


class HttpServer:
    """One of the two HTTP servers of the sidecar."""

    def __init__(
        self, app: App, listening: socket.socket, protocol: type[asyncio.Protocol], idle: int
    ) -> None:
        self._listening = listening
        config = Config(
            app, http=protocol, ws="none", lifespan="off", interface="asgi3", timeout_keep_alive=idle,
            timeout_graceful_shutdown=2, log_config=None, access_log=False, proxy_headers=False,
            server_header=False, date_header=False,
        )  # fmt: skip
        config.load()
        self._server = Server(config)
        self._server.lifespan = config.lifespan_class(config)

    async def start(self) -> None:
        """Starts accepting connections."""
        await self._server.startup(sockets=[self._listening])

    async def stop(self) -> None:
        """Stops accepting connections and closes open ones after their responses."""
        await self._server.shutdown(sockets=[self._listening])
