"""Watches whether the app is ready for items."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from claimq.concurrency.notify import first_of
from claimq_process.log_lines import LogEvent
from claimq_sidecar.push.app_connection import AppConnection
from claimq_sidecar.push.app_connections import AppConnections
from claimq_sidecar.push.decisions import NoResponse, Response
from claimq_sidecar.settings import PushSettings

PROBE_SECONDS: Final = 2.0
"""Pause between probes of an app that is ready. Without a probe path there are none until a connection fails."""
PROBE_TIMEOUT: Final = 5.0
LOST_SECONDS: Final = 5.0
"""How long the app may not be ready before its worker is not either: a restarted app is soon back."""
_RETRY_SECONDS: Final = 0.05
_LONGEST_RETRY_SECONDS: Final = 1.0
_log = logging.getLogger("claimq_sidecar.push")


class Readiness:
    """Whether the app is ready: it accepts connections and, with a probe path, responds to the probe with 2xx."""

    def __init__(
        self,
        settings: PushSettings,
        connections: AppConnections,
        changed: Callable[[], None],
        is_busy: Callable[[], bool],
    ) -> None:
        """``changed`` is called when the app becomes ready, or is no longer ready. ``is_busy``: it works
        on items, and is not silent."""
        self.is_ready = False
        self._settings = settings
        self._connections = connections
        self._changed = changed
        self._is_busy = is_busy
        self._doubted = asyncio.Event()
        self._why = ""
        self._is_refused = False
        self._lost_at: float | None = None
        """When the app last stopped being ready, by the loop's clock; None if it never did. It stays while the app is
        only ready for moments, such as one that accepts connections and closes them at once."""
        self._ready_at = 0.0

    def doubt(self, why: str) -> None:
        """The app may be gone, or hang: it is not ready until a probe succeeds. The first is made after a moment: while
        a process dies, connections to it are still accepted."""
        self._set(is_ready=False, why=why)
        self._doubted.set()

    def trouble(self) -> str:
        """Why the worker is not ready: its app has never been ready, or has not been for LOST_SECONDS. Else empty."""
        now = asyncio.get_running_loop().time()
        if self.is_ready or (self._lost_at is not None and now - self._lost_at < LOST_SECONDS):
            return ""
        if self._is_refused:
            return f"its app does not listen on {self._settings.variable}"
        return f"its app is not ready: {self._why or 'the sidecar has not connected to it yet'}"

    async def run(self) -> None:
        """Probes until it is cancelled: often while the app is not ready."""
        loop = asyncio.get_running_loop()
        pause = _RETRY_SECONDS
        while True:
            self._doubted.clear()
            why = await self._probe()
            if not self._doubted.is_set():
                self._set(is_ready=not why, why=why)
            if self.is_ready:
                since = loop.time()
                await first_of(None if self._settings.probe_path is None else PROBE_SECONDS, self._doubted)
                if not self._doubted.is_set():
                    continue
                if loop.time() - since >= _LONGEST_RETRY_SECONDS:
                    pause = _RETRY_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY_SECONDS)

    def _set(self, *, is_ready: bool, why: str) -> None:
        if is_ready != self.is_ready:
            self.is_ready, now = is_ready, asyncio.get_running_loop().time()
            if is_ready:
                self._ready_at = now
                _log.info(LogEvent("app_ready", address=self._settings.address))
            else:
                if self._lost_at is None or now - self._ready_at >= _LONGEST_RETRY_SECONDS:
                    self._lost_at = now
                _log.warning(LogEvent("app_not_ready", address=self._settings.address, why=why))
            self._changed()
        elif why != self._why and not is_ready:
            _log.info(LogEvent("waiting_for_app", address=self._settings.address, why=why))
        self._why = why

    async def _probe(self) -> str:
        """Why the app is not ready; empty if it is."""
        path = self._settings.probe_path
        try:  # a server with a single thread may serve one connection at a time: use one that is there
            connection = (self._connections.take() if path else None) or await self._connections.open()
        except OSError as error:
            self._is_refused = isinstance(error, ConnectionRefusedError | FileNotFoundError)
            return error.strerror or str(error)
        self._is_refused = False
        if path is None:
            self._connections.give_back(connection)
            return ""
        response = await self._ask(connection, path)
        self._connections.give_back(connection)
        if isinstance(response, Response):
            return "" if 200 <= response.status < 300 else f"the probe got status {response.status}"
        if response is NoResponse.TIMEOUT and self.is_ready and self._is_busy():
            return ""  # an app with a single thread responds to a probe when its item is finished
        return f"the probe got no response ({response})"

    @staticmethod
    async def _ask(connection: AppConnection, path: str) -> Response | NoResponse:
        answered: asyncio.Future[Response | NoResponse] = asyncio.get_running_loop().create_future()

        def end(_: AppConnection, outcome: Response | NoResponse) -> None:
            if not answered.done():
                answered.set_result(outcome)

        connection.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(), PROBE_TIMEOUT, end)
        return await answered
