"""The health port: probes, hooks and metrics."""

from __future__ import annotations

import hmac

from claimq.consuming.engine.taken_items import TAKEN_SECONDS
from claimq_process.http_host import is_own_host
from claimq_process.names import LIFECYCLE_KEY_HEADER, WAITS_FOR_APP
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.problems import Refusal
from claimq_sidecar.http.router import App, Exchange
from claimq_sidecar.metrics import CONTENT_TYPE


class Probes:
    """The handlers of the health port's paths."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    def app(self) -> App:
        """The ASGI app. Hooks of a pod can only send GET, so requests that drain are protected by the key instead."""
        routes = {
            "/healthz": {"GET": self._healthz},
            "/readyz": {"GET": self._readyz},
            "/metrics": {"GET": self._metrics},
            "/drain": {"GET": self._drain, "POST": self._drain},
            "/worker/livez": {"GET": self._worker_livez},
            "/worker/prestop": {"GET": self._worker_prestop, "POST": self._worker_prestop},
        }
        return App(routes, 1024, check=self._check_source)

    async def _healthz(self, exchange: Exchange) -> None:
        """200 while the event loop runs. An outage of the store is no reason to restart the sidecar."""
        await exchange.reply_json({"status": "ok"})

    async def _readyz(self, exchange: Exchange) -> None:
        """200 after the first successful call to the store, unless items are sent to an app that is not ready. A
        scale-down removes pods that are not ready first."""
        store = self._sidecar.store
        if not store.ready.is_set():
            why = store.last_error or "the store has not answered yet"
            await exchange.reply_json({"status": "not ready", "why": why}, status=503)
        elif why := self._sidecar.app_trouble():
            await exchange.reply_json({"status": WAITS_FOR_APP, "why": why}, status=503)
        else:
            await exchange.reply_json({"status": "ready"})

    async def _metrics(self, exchange: Exchange) -> None:
        await exchange.reply(self._sidecar.metrics.render(self._sidecar.refresh), kind=CONTENT_TYPE)

    async def _drain(self, exchange: Exchange) -> None:
        """Stops claiming; answers when no claim is in flight or the drain timeout is over.

        With ``Prefer: respond-async`` (RFC 7240) it answers at once.
        """
        self._check_key(exchange)
        self._sidecar.drain.begin()
        if exchange.header("prefer") == "respond-async":
            await exchange.reply_json({"in_flight": len(self._sidecar.in_flight)}, status=202)
            return
        drained = await self._sidecar.drain.drained()
        await exchange.reply_json({"drained": drained, "in_flight": len(self._sidecar.in_flight)})

    async def _worker_prestop(self, exchange: Exchange) -> None:
        """For the app's preStop hook: like /drain, but claiming resumes if only the app restarts."""
        self._check_key(exchange)
        await self._sidecar.drain.app_stopping()
        await exchange.reply_json({"in_flight": len(self._sidecar.in_flight)})

    async def _worker_livez(self, exchange: Exchange) -> None:
        """503 while the app is stuck: it has worked on an item for too long, also on one that was taken from it."""
        overdue = self._sidecar.in_flight.overdue(self._sidecar.now)
        if not overdue:
            await exchange.reply_json({"status": "ok"})
            return
        limit = self._sidecar.settings.processing_timeout
        items = "1 item" if len(overdue) == 1 else f"{len(overdue):,} items"
        why = f"the app has not answered for {items} within the processing timeout of {limit or 0:g} s"
        if limit is None:
            why = f"the app has not answered for {items} within {TAKEN_SECONDS:g} s after another process took it away"
        await exchange.reply_json({"status": "stuck", "why": why, "tokens": overdue[:10]}, status=503)

    def _check_source(self, exchange: Exchange) -> None:
        """Raises a Refusal for a request from a web page: it has the page's origin, or a host name that resolves to
        this address (DNS rebinding)."""
        if exchange.header("origin") is not None:
            raise Refusal(
                "from-a-web-page", "the request has an Origin header; web pages may not use this port"
            )
        host = exchange.header("host")
        if host is not None and not is_own_host(host, self._sidecar.settings.health_host):
            detail = f"the Host header is {host[:60]!a}; use an IP address or localhost"
            raise Refusal("foreign-host", detail)

    def _check_key(self, exchange: Exchange) -> None:
        """Raises a Refusal for a request without the key, also from loopback."""
        key = self._sidecar.settings.lifecycle_key
        key_sent = exchange.header(LIFECYCLE_KEY_HEADER) or ""
        if key is None or not hmac.compare_digest(key_sent.encode(), key.encode()):
            raise Refusal(
                "key-needed",
                f"{exchange.path} makes this worker stop claiming; start the sidecar with CLAIMQ_LIFECYCLE_KEY and "
                f"send it in the header {LIFECYCLE_KEY_HEADER}, or send the sidecar SIGTERM; the app asks with "
                "POST /v1/prestop on its socket",
            )
