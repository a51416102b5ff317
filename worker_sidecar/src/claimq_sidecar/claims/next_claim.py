"""A claim in the same call to the server as the verdicts on the items before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from claimq.consuming.engine.slots import Slots
from claimq.errors import NotReplicated
from claimq.internals.next_claims import next_claims
from claimq.model import Claim, Outcome
from claimq.queue.settling import Settling
from claimq_sidecar.claims.claimer import Claimer


class NextClaim:
    """One such claim, from its call until the app has its items or they are on their way back.

    The call goes on for as long as a verdict is retried. What it claims when its request has ended, or when one of the
    events ``stops`` is set, goes back to the head of the queue, uncounted.
    """

    def __init__(
        self,
        claimer: Claimer,
        concurrency: Slots,
        tokens: Sequence[str],
        most: int,
        stops: Sequence[asyncio.Event],
    ) -> None:
        """``tokens``: the claims to end, whose slots the new ones take over. ``most``: how many items to claim."""
        self.claims: list[Claim] = []
        self._claimer = claimer
        self._concurrency = concurrency
        self._tokens = tokens
        self._most = most
        self._stops = stops
        self._slots = 0
        self._is_wanted = True

    def take(self, slots: int) -> None:
        """Reserves slots in addition to those that the ended claims will free."""
        self._slots += slots
        self._concurrency.take(slots)

    async def call(self, queue: Settling) -> list[Outcome]:
        """Ends the claims and claims the next items; returns the outcomes of the verdicts."""
        try:
            step = next_claims(queue).done_and_claim(self._tokens, self._most)
            outcomes, claims = await self._claimer.settled_call(queue, self._most, step)
        except NotReplicated as error:
            outcomes, claims = cast("tuple[list[Outcome], list[Claim]]", error.result)
            self._note(claims)
            raise NotReplicated(str(error), outcomes) from error
        self._note(claims)
        return outcomes

    def _note(self, claims: list[Claim]) -> None:
        if self._is_wanted and not any(stop.is_set() for stop in self._stops):
            self.take(len(claims))  # before the verdicts free the slots of the claims that have ended
            self.claims = claims
        else:
            self._claimer.give_back(claims, cause="stopped")

    def end(self, *, is_delivered: bool) -> None:
        """The request has ended. Releases the slots; what was delivered has slots of its own."""
        self._is_wanted = False
        if not is_delivered:
            self._claimer.give_back(self.claims, cause="stopped")
        slots, self._slots = self._slots, 0
        self._concurrency.release(slots)
