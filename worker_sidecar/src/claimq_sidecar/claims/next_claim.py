"""A claim in the same call to the server as the verdicts on the items before it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.slots import Slots
from claimq.errors import NotReplicated
from claimq.internals.next_claims import next_claims
from claimq.model import Claim, Outcome
from claimq.queue.settling import Settling
from claimq_sidecar.claims.calls import ClaimRequest, VerdictRequest
from claimq_sidecar.claims.claimer import Claimer
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.memory import Share


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
        *,
        slots: int | None = None,
    ) -> None:
        """``tokens``: the claims to end. ``most``: how many items to claim. ``slots``: how many the new claims take
        over from those that end; None: one for each item.
        """
        self.claims: list[Claim] = []
        self._claimer = claimer
        self._concurrency = concurrency
        self._tokens = tokens
        self._most = most
        self._stops = stops
        self._slots_of_ended = slots
        self._slots = 0
        self._is_wanted = True

    def take(self, slots: int) -> None:
        """Reserves slots in addition to those that the ended claims will free."""
        self._slots += slots
        self._concurrency.take(slots)

    @property
    def slots(self) -> int:
        """How many slots it has reserved."""
        return self._slots

    async def call(self, queue: Settling) -> list[Outcome]:
        """Ends the claims and claims the next items; returns the outcomes of the verdicts."""
        try:
            step = next_claims(queue).done_and_claim(self._tokens, self._most)
            outcomes, claims = await self._claimer.settled_call(self._most, step)
        except NotReplicated as error:
            outcomes, claims = cast("tuple[list[Outcome], list[Claim]]", error.result)
            self._note(claims)
            raise NotReplicated(str(error), outcomes) from error
        self._note(claims)
        return outcomes

    def _note(self, claims: list[Claim]) -> None:
        if self._is_wanted:  # before the verdicts free the slots of the claims that have ended
            self.take(len(claims) if self._slots_of_ended is None else self._slots_of_ended)
        if self._is_wanted and not any(stop.is_set() for stop in self._stops):
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


def plain_done(verdicts: Mapping[str, VerdictRequest]) -> VerdictRequest | None:
    """The verdicts, if all are ``done`` without items that follow: these and a claim can be one call."""
    done = verdicts.get("done")
    if done is None or len(verdicts) > 1 or any(ending.enqueue for ending in done.endings):
        return None
    return done


async def join(
    verdict_calls: Verdicts,
    concurrency: Slots,
    in_flight: ClaimsInFlight,
    claimer: Claimer,
    verdicts: Mapping[str, VerdictRequest],
    request: ClaimRequest,
    share: Share,
    stops: Sequence[asyncio.Event],
) -> NextClaim | None:
    """The claim to make in one call with the verdicts; None if it must be a call of its own."""
    done = plain_done(verdicts)
    if done is None:
        return None
    await verdict_calls.wait_for_attempts(done.tokens)  # which may free their slots
    if concurrency.waiting or any(stop.is_set() for stop in stops):
        return None
    ending = sum(token in in_flight for token in done.tokens)
    most = await claimer.room_for(min(request.most, ending + concurrency.free_of(request.most)), share)
    if not most:
        return None
    joined = NextClaim(claimer, concurrency, done.tokens, most, stops)
    joined.take(max(most - ending, 0))
    return joined
