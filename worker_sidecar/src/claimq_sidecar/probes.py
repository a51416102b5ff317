"""What the kubelet and Prometheus find on the health port."""

from __future__ import annotations

import hmac
from typing import Final

from claimq_sidecar.asgi import App, Exchange
from claimq_sidecar.metrics import CONTENT_TYPE
from claimq_sidecar.problems import key_needed
from claimq_sidecar.sidecar import Sidecar

KEY_HEADER: Final = "Claimq-Lifecycle-Key"
"""The header of a hook in which it shows CLAIMQ_LIFECYCLE_KEY."""


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
        self._check_key(exchange)
        self._sidecar.begin_drain()
        drained = await self._sidecar.rested()
        await exchange.reply_json({"drained": drained, "in_hand": len(self._sidecar.hands)})

    async def _worker_prestop(self, exchange: Exchange) -> None:
        """For the app's preStop hook: like /drain, but claims go on if only the app is restarted."""
        self._check_key(exchange)
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

    def _check_key(self, exchange: Exchange) -> None:
        """Raises a Refusal for who is outside of the pod and does not show the key.

        Whoever asks from the very address that is asked shares the pod: its app might as well claim and end items.
        """
        key = self._sidecar.settings.lifecycle_key
        shown = exchange.header(KEY_HEADER) or ""
        if key is None or exchange.is_from_here or hmac.compare_digest(shown.encode(), key.encode()):
            return
        raise key_needed(exchange.path, KEY_HEADER)
