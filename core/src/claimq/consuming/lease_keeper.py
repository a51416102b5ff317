"""Renews leases while a handler works on the items."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable

from claimq.errors import ClaimqError
from claimq.model import Claim, Outcome, Verdict
from claimq.queue.settling import Settling

_SHARE = 3
_AFTER_FAULT = 0.5
"""Seconds. After an outage holders have a third of a lease, at most ten seconds, to renew, so the next attempt cannot
wait for a whole period."""
_log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews the leases of the claims that it holds, three times per lease, and every ``longest_pause`` seconds. A lost
    claim is dropped; its verdict will be LOST."""

    def __init__(
        self,
        queue: Settling,
        *,
        longest_pause: float = math.inf,
        on_error: Callable[[ClaimqError], None] | None = None,
    ) -> None:
        self._queue = queue
        self._longest_pause = longest_pause
        self._on_error = on_error
        self._held: dict[str, float] = {}  # token -> length of its lease
        self._ahead = 0.0  # the server's clock less this loop's
        self._changed = asyncio.Event()

    def hold(self, claims: Iterable[Claim]) -> None:
        """Renews these from now on. Call it as soon as they are claimed."""
        for claim in claims:
            self._held[claim.token] = _length(claim.lease_until - claim.claimed_at)
            self._ahead = claim.claimed_at - asyncio.get_running_loop().time()
        self._changed.set()

    def release(self, claims: Iterable[Claim]) -> None:
        """Renews these no longer."""
        for claim in claims:
            self._held.pop(claim.token, None)

    @property
    def held(self) -> list[str]:
        """The tokens of the claims that it renews."""
        return list(self._held)

    async def run(self) -> None:
        """Renews until it is cancelled. After an error, which is logged, it tries again: a lease may outlast it."""
        failures = 0
        while True:
            await self._until_due(_AFTER_FAULT if failures else None)
            if not (tokens := self.held):
                continue
            try:
                self._note(await self._queue.renew(tokens))
            except ClaimqError as error:
                failures += 1
                if failures == 1:
                    _log.warning("cannot renew leases on %s: %s", self._queue.name, error)
                if self._on_error is not None:
                    self._on_error(error)
            except Exception:  # noqa: BLE001 - the leases of running handlers depend on this loop
                failures += 1
                if failures == 1:
                    _log.exception("cannot renew leases on %s", self._queue.name)
            else:
                if failures:
                    _log.info(
                        "leases on %s are renewed again after %d failed attempts", self._queue.name, failures
                    )
                failures = 0

    def _note(self, outcomes: Iterable[Outcome]) -> None:
        now = asyncio.get_running_loop().time() + self._ahead
        for outcome in outcomes:
            if outcome.verdict is Verdict.LOST:
                self._held.pop(outcome.token, None)
            elif outcome.lease_until is not None and outcome.token in self._held:
                self._held[outcome.token] = _length(outcome.lease_until - now)

    async def _until_due(self, most: float | None) -> None:
        """Waits for a third of the shortest lease held, at most ``most`` seconds. A claim that is added in between may
        have a shorter lease."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not self._held or loop.time() < started + self._pause(most):
            self._changed.clear()
            if not self._held:
                await self._changed.wait()
                started = loop.time()
                continue
            try:
                async with asyncio.timeout_at(started + self._pause(most)):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _pause(self, most: float | None) -> float:
        share = min(self._longest_pause, min(self._held.values()) / _SHARE)
        return share if most is None else min(share, most)


def _length(seconds: float) -> float:
    return max(seconds, 0.003)
