"""HTTP server for the kubelet and Prometheus: /livez, /readyz, /metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import CONTENT_TYPE, Metrics
from claimq_spec.log_lines import LogEvent

_log = logging.getLogger(__name__)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpServer:
    """Serves the probes and the metrics."""

    def __init__(self, metrics: Metrics, liveness: Liveness, is_ready: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._liveness = liveness
        self._is_ready = is_ready

    async def serve(self, host: str, port: int) -> None:
        """Serves until it is cancelled. Raises OSError if the address is not available."""
        app = web.Application()
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._render)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host or None, port)
            await site.start()
            _log.info(LogEvent("serving", addresses=",".join(_shown(*one[:2]) for one in runner.addresses)))
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _livez(self, request: web.Request) -> web.Response:
        """503 while a loop is stuck. An outage of the API server or of Redis does not make a loop stuck."""
        del request
        stuck = self._liveness.stuck()
        return web.Response(text="\n".join(stuck) or "ok", status=503 if stuck else 200)

    async def _readyz(self, request: web.Request) -> web.Response:
        """503 until all queues have been listed once."""
        del request
        is_ready = self._is_ready()
        return web.Response(
            text="ok" if is_ready else "waiting for the first listing", status=200 if is_ready else 503
        )

    async def _render(self, request: web.Request) -> web.Response:
        del request
        for loop, age in self._liveness.ages().items():
            if not loop.startswith("queue "):
                self._metrics.loop_age.labels(loop).set(age)
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
