"""HTTP server for the kubelet and Prometheus: /livez, /readyz, /metrics. Every pod may reach it, so it has limits."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from claimq_control.queue_metrics import CONTENT_TYPE
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_process.log_lines import LogEvent

PATHS: Final = ("/livez", "/readyz", "/metrics")
_TEXT: Final = "text/plain; charset=utf-8"
_BACKLOG: Final = 128
_SLICE: Final = 64 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What clients may make the server keep. A connection serves one request."""

    head_bytes: int = 16 * 1024
    connections: int = 256
    """The oldest connection is closed when one more is opened."""
    seconds: float = 10.0
    """How long a connection may last, from its opening to the last byte of the response."""
    metrics: int = 8
    """Responses with metrics that may be in progress at the same time; further ones wait."""
    metrics_reuse_factor: float = 5.0
    """Metrics are served again for so many times as long as rendering them took, which blocks the event loop."""


@dataclass(frozen=True)
class _Response:
    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT

    def head(self) -> bytes:
        """The status line and the headers."""
        return (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\ncontent-type: {self.content_type}\r\n"
            f"content-length: {len(self.body)}\r\nconnection: close\r\n\r\n"
        ).encode()


class HttpServer:
    """Serves the probes and the metrics."""

    def __init__(
        self,
        metrics: Metrics,
        liveness: Liveness,
        is_ready: Callable[[], bool],
        limits: Limits | None = None,
    ) -> None:
        self._metrics = metrics
        self._liveness = liveness
        self._is_ready = is_ready
        self._limits = limits or Limits()
        self._metrics_slots = asyncio.Semaphore(self._limits.metrics)
        self._rendered: tuple[float, _Response] | None = None
        """Until when the last metrics are served, by the loop's clock, and the response with them."""
        self._open: dict[asyncio.StreamWriter, None] = {}  # in the order of opening

    async def serve(self, host: str, port: int) -> None:
        """Serves until it is cancelled. Raises OSError if the address cannot be used."""
        server = await asyncio.start_server(
            self._connected, host or None, port, limit=self._limits.head_bytes, backlog=_BACKLOG
        )
        addresses = [_shown(*listener.getsockname()[:2]) for listener in server.sockets]
        _log.info(LogEvent("serving", addresses=",".join(addresses)))
        try:
            await server.serve_forever()
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # drain() waits until all is sent
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SLICE)
        self._open[writer] = None
        if len(self._open) > self._limits.connections:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._answer(reader, writer)
            writer.close()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._open.pop(writer, None)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _send(writer, _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
            return
        method, _, target = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = target.partition(" ")[0].partition("?")[0]
        if not target.rpartition(" ")[2].startswith("HTTP/1."):
            await _send(writer, _plain(HTTPStatus.BAD_REQUEST))
        elif path not in PATHS:
            await _send(writer, _plain(HTTPStatus.NOT_FOUND))
        elif method not in ("GET", "HEAD"):
            await _send(writer, _plain(HTTPStatus.METHOD_NOT_ALLOWED))
        elif path == "/metrics":
            async with self._metrics_slots:
                await _send(writer, self._current_metrics(), is_head=method == "HEAD")
        else:
            await _send(
                writer, self._livez() if path == "/livez" else self._readyz(), is_head=method == "HEAD"
            )

    def _livez(self) -> _Response:
        """503 while a loop is stuck. An outage of the API server or of Redis does not make a loop stuck."""
        stuck = self._liveness.stuck()
        status = HTTPStatus.SERVICE_UNAVAILABLE if stuck else HTTPStatus.OK
        return _Response(status, ("\n".join(stuck) or "ok").encode())

    def _readyz(self) -> _Response:
        """503 until all queues have been listed once."""
        if self._is_ready():
            return _Response(HTTPStatus.OK, b"ok")
        return _Response(HTTPStatus.SERVICE_UNAVAILABLE, b"waiting for the first listing")

    def _current_metrics(self) -> _Response:
        now = asyncio.get_running_loop().time
        began = now()
        if self._rendered is None or began >= self._rendered[0]:
            response = self._render()
            self._rendered = now() + self._limits.metrics_reuse_factor * (now() - began), response
        return self._rendered[1]

    def _render(self) -> _Response:
        for loop, age in self._liveness.ages().items():
            if not loop.startswith("queue "):
                self._metrics.loop_age.labels(loop).set(age)
        return _Response(HTTPStatus.OK, self._metrics.render(), CONTENT_TYPE)


def _plain(status: HTTPStatus) -> _Response:
    return _Response(status, f"{status.value} {status.phrase}".encode())


async def _send(writer: asyncio.StreamWriter, response: _Response, *, is_head: bool = False) -> None:
    """Sends a response in slices, so that the transport copies only one of them."""
    writer.write(response.head())
    whole = memoryview(b"" if is_head else response.body)
    for start in range(0, len(whole), _SLICE):
        writer.write(whole[start : start + _SLICE])
        await writer.drain()
    await writer.drain()


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
