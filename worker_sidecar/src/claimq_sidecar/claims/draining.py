"""The drain of a sidecar: nothing is claimed, and the app finishes its items."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from claimq.concurrency.notify import Notifier
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.drain import Drain, Step
from claimq_sidecar.settings import SidecarSettings

_OWN_HOOK_SECONDS = 5.0
"""When the pod ends, the kubelet calls the sidecar's own preStop hook within this time after the app's has returned."""
_log = logging.getLogger("claimq_sidecar")


class Draining:
    """Begins drains, and waits for their ends."""

    def __init__(
        self,
        settings: SidecarSettings,
        in_flight: ClaimsInFlight,
        changed: Notifier,
        take_back: Callable[[], None],
    ) -> None:
        """``take_back``: takes back what the app has not begun."""
        self.begun = asyncio.Event()
        self.serving = asyncio.Event()
        """Set while there is no drain."""
        self.serving.set()
        self._leaves_at_sigterm = settings.leaves_at_sigterm
        self._in_flight = in_flight
        self._changed = changed
        self._take_back = take_back
        self._drain = Drain(settings.drain_timeout)

    def begin(self, *, signalled: bool = False, final: bool = True) -> None:
        """Stops claiming. After a signal the sidecar exits when it is drained, after a second one immediately."""
        if signalled:
            drain = self._drain.signalled(_now(), at_once=self._leaves_at_sigterm)
        else:
            drain = self._drain.begin(_now(), final=final)
        self._drain = drain
        if not self.begun.is_set():
            _log.info(LogEvent("drain_started", in_flight=len(self._in_flight), timeout=f"{drain.timeout:g}"))
            self.begun.set()
            self.serving.clear()
            self._take_back()
        self._changed.notify()

    async def app_stopping(self) -> None:
        """Handles the app's preStop hook: drains, and returns when the app may get SIGTERM.

        The kubelet calls it when the pod ends, and also when it restarts only the app. In the first case it calls the
        sidecar's own hook (/drain) at the same time; without that, claims continue. There is no wait for an app that is
        restarted because it has worked on an item for too long.
        """
        if self.begun.is_set() or not self._in_flight.overdue(_now()):
            self.begin(final=False)
            await self.drained()
        asyncio.get_running_loop().call_later(_OWN_HOOK_SECONDS, self._revoke)

    def _revoke(self) -> None:
        self._drain = self._drain.revoked()
        if self._drain.started is None and self.begun.is_set():
            _log.info(LogEvent("drain_revoked", why="only the app was restarted"))
            self.begun.clear()
            self.serving.set()
            self._changed.notify()

    def _step(self) -> Step:
        return self._drain.step(_now(), len(self._in_flight))

    async def drained(self) -> bool:
        """Waits until nothing is in flight or the drain times out; returns whether nothing is in flight."""
        while self._step() is Step.WAIT:
            await self._changed.wait(self._drain.left(_now()))
        return not self._in_flight

    async def over(self) -> None:
        """Waits for the end of a drain with a signal."""
        while (step := self._step()) is not Step.LEAVE:
            if step is Step.SERVE:
                await self.begun.wait()  # not for each verdict
            else:
                await self._changed.wait(self._drain.left(_now()) if step is Step.WAIT else None)


def _now() -> float:
    return asyncio.get_running_loop().time()
