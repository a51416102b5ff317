"""Returns claims to the queue, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.endings import Ending
from claimq.consuming.engine.verdict_calls import call_of
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.verdicts import ANSWER_SECONDS, Verdicts
from claimq_sidecar.metrics import Metrics

_log = logging.getLogger("claimq_sidecar")


class GiveBacks:
    """Claims on their way back."""

    def __init__(self, verdicts: Verdicts, in_flight: ClaimsInFlight, metrics: Metrics) -> None:
        self._verdicts = verdicts
        self._in_flight = in_flight
        self._metrics = metrics

    def begin(
        self, tokens: Sequence[str], *, cause: str, crash: str | None = None, why: str = ""
    ) -> asyncio.Task[None]:
        """Returns claims that the app will not end. ``crash``: counts a crash with this error. Otherwise the items go
        back to the head of the queue uncounted, with ``why`` in their history if work on them had begun.

        Waits for verdicts in progress first. A claim that cannot be returned is not renewed any more: its lease ends.
        """
        verb, error = ("unclaim", why) if crash is None else ("crash", crash)
        return self._verdicts.settler.give_back(
            tokens, partial(self._give_back, cause, verb, error), within=ANSWER_SECONDS
        )

    def unread(self, tokens: Sequence[str]) -> None:
        """Returns claims that the app never got to the head of the queue, uncounted."""
        if tokens:
            self.begin(tokens, cause="unread")

    def undelivered(self, claims: Sequence[Claim], *, cause: str) -> None:
        """Returns claims that are not in flight yet to the head of the queue, uncounted. Each has a slot until then."""
        if claims:
            self._in_flight.add(claims, None, asyncio.get_running_loop().time())
            self.begin(
                [claim.token for claim in claims], cause=cause
            )  # an outage would keep payloads in memory

    async def _give_back(self, cause: str, verb: str, error_or_why: str, tokens: list[str]) -> None:
        self._metrics.given_back.labels(cause).inc(len(tokens))
        call = call_of(verb, Ending(tokens, error_or_why))
        try:
            await self._verdicts.attempt(verb, tokens, call, remember=False)
        except ClaimqError as error:
            event = "give_back_failed" if isinstance(error, StoreUnavailable) else "give_back_refused"
            _log.warning(LogEvent(event, cause=cause, claims=len(tokens), error=error))
