"""What the kubelet and Prometheus find on the health port."""

from __future__ import annotations

from claimq_sidecar.asgi import App, Exchange
from claimq_sidecar.metrics import CONTENT_TYPE
from claimq_sidecar.sidecar import Sidecar


class Probes:
    """The handlers of the health port's paths."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    def app(self) -> App:
        """The ASGI app."""
        routes = {
            "/healthz": {"GET": self._healthz},
            "/readyz": {"GET": self._readyz},
            "/metrics": {"GET": self._metrics},
            "/drain": {"GET": self._drain, "POST": self._drain},
            "/worker/livez": {"GET": self._worker_livez},
            "/worker/prestop": {"GET": self._worker_prestop},
        }
        return App(routes, 1024)

    async def _healthz(self, exchange: Exchange) -> None:
        """That the event loop turns is all that matters: an outage of the store is no reason to restart."""
        await exchange.reply_json({"status": "ok"})

    async def _readyz(self, exchange: Exchange) -> None:
        """Ready from the first good round trip on: an unready pod is the first that a scale-down takes."""
        store = self._sidecar.store
        if store.ready.is_set():
            await exchange.reply_json({"status": "ready"})
        else:
            why = store.last_error or "the store has not answered yet"
            await exchange.reply_json({"status": "not ready", "why": why}, status=503)

    async def _metrics(self, exchange: Exchange) -> None:
        await exchange.reply(self._sidecar.metrics.render(self._sidecar.refresh), kind=CONTENT_TYPE)

    async def _drain(self, exchange: Exchange) -> None:
        """Stops claiming; answers when nothing is in hand or the drain time is over."""
        self._sidecar.begin_drain()
        drained = await self._sidecar.rested()
        await exchange.reply_json({"drained": drained, "in_hand": len(self._sidecar.hands)})

    async def _worker_prestop(self, exchange: Exchange) -> None:
        """For the app's preStop hook: like /drain, but claims go on if only the app is restarted."""
        await self._sidecar.app_told_to_end()
        await exchange.reply_json({"in_hand": len(self._sidecar.hands)})

    async def _worker_livez(self, exchange: Exchange) -> None:
        """Whether the app gets on: no item has been in its hands for longer than the processing time-out."""
        overdue = self._sidecar.hands.overdue(self._sidecar.now)
        if not overdue:
            await exchange.reply_json({"status": "ok"})
            return
        limit = self._sidecar.settings.processing_timeout
        why = f"{len(overdue)} items are over the processing time-out of {limit:g} s"
        await exchange.reply_json({"status": "stuck", "why": why, "tokens": overdue[:10]}, status=503)
