"""Claims ahead for the apps' loops: how many, and when they go back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.permits import Permits
from claimq.consuming.engine.slots import Slots
from claimq.model import Claim
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.calls import ClaimRequest, NextAnswer, VerdictRequest
from claimq_sidecar.claims.claimer import Claimer
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.give_backs import GiveBacks
from claimq_sidecar.claims.next_claim import NextClaim, plain_done
from claimq_sidecar.claims.sessions import Session, Sessions
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.memory import Share
from claimq_sidecar.settings import SidecarSettings
from claimq_sidecar.store import Store

MOST_PERMITS = 500
"""In one response: so many are written into the FIFO at once or not at all."""
_log = logging.getLogger("claimq_sidecar.claims")


class _Deliver(Protocol):
    def __call__(
        self, claims: list[Claim], session: Session, connection: Connection, *, ahead: Permits
    ) -> list[Claim]: ...


class PermittedClaims:
    """For sessions whose app begins items by permits (:class:`Permits`).

    Such claims use slots of the concurrency limit only as far as the app works on them at the same time. Nothing is
    claimed ahead while another claim waits for a slot: then all that was not begun goes back.
    """

    def __init__(
        self,
        settings: SidecarSettings,
        store: Store,
        sessions: Sessions,
        in_flight: ClaimsInFlight,
        concurrency: Slots,
        claimer: Claimer,
        verdicts: Verdicts,
        deliver: _Deliver,
        give_backs: GiveBacks,
    ) -> None:
        """``deliver``: records claims that the app gets."""
        self._settings = settings
        self._store = store
        self._sessions = sessions
        self._in_flight = in_flight
        self._concurrency = concurrency
        self._claimer = claimer
        self._verdicts = verdicts
        self._deliver = deliver
        self._give_backs = give_backs
        self._returning: dict[Permits, asyncio.Task[None]] = {}

    @property
    def limit(self) -> int:
        """How many items an app may have that it has not begun."""
        return 0 if self._store.durable_done or self._store.has_rate else self._settings.claim_ahead

    def open(self, session: Session) -> None:
        """Makes the FIFO of a session. Without one the app claims each item when it begins it."""
        path = self._settings.socket.with_name(f"{self._settings.socket.name}.{session.id}")
        try:
            session.ahead = Permits(path, self._settings.socket_mode, partial(self._look, session))
        except OSError as error:
            _log.warning(LogEvent("no_permits", session=session.id, error=error))

    def close(self, session: Session) -> None:
        """Takes back what the app has not begun, which is noted as such in the claims in flight."""
        if session.ahead is not None:
            self.take_back(session)
            session.ahead.close()
            self._returning.pop(session.ahead, None)

    @property
    def count(self) -> int:
        """The claims that no app has begun."""
        return sum(session.ahead.waiting_count() for session in self._sessions if session.ahead is not None)

    def _look(self, session: Session, is_late: bool) -> None:
        if is_late:
            self.take_back(session)
        elif session.ahead is not None:
            self._note_begun(session.ahead.begun())

    def _note_begun(self, tokens: Sequence[str]) -> None:
        self._in_flight.begin(tokens, asyncio.get_running_loop().time())

    def take_back(self, session: Session) -> None:
        """Returns what the app has not begun to the head, uncounted."""
        if session.ahead is None:
            return
        tokens, begun = session.ahead.take_back()
        self._note_begun(begun)
        if tokens:
            self._returning[session.ahead] = self._give_backs.begin(tokens, cause="not_reached")

    def take_back_all(self) -> None:
        """As :meth:`take_back`, of all sessions: another claim waits for a slot, or a drain begins."""
        for session in self._sessions:
            self.take_back(session)

    async def next(
        self,
        verdicts: Mapping[str, VerdictRequest],
        request: ClaimRequest,
        session: Session,
        connection: Connection,
        share: Share,
        stops: Sequence[asyncio.Event],
    ) -> NextAnswer:
        """Applies verdicts, and claims up to ``request.ahead`` items; never waits for items. Raises what the library
        raises, and ValueError for a session without permits.
        """
        ahead = _permits_of(session)
        self._note_begun(ahead.begun())
        done = plain_done(verdicts)
        tokens = () if done is None else done.tokens
        answers = await self._verdicts.answer_all({} if done else verdicts, share)
        await self._verdicts.wait_for_attempts(tokens)  # which may free their slots
        ended, plain = self._in_flight.count_of(tokens, ahead)
        slots = self._slots(ahead, ended, plain, request)
        count = 0 if any(stop.is_set() for stop in stops) else self._room(ahead, ended, request, slots)
        count = await self._claimer.room_for(count, share) if count else 0
        free = max(slots - ahead.slots_in_use - plain, 0)
        of_ended = slots - min(ahead.count - ended, ahead.slots) - free
        call = NextClaim(self._claimer, self._concurrency, tokens, count, stops, slots=of_ended)
        call.take(free if count else 0)
        is_delivered, first = False, 0
        try:
            if done is not None:
                answers = await self._verdicts.answer("done", done, share, call.call if count else None)
                if count:
                    self._claimer.note_claims(call.claims, share)
            elif count:
                call.claims = await self._claimer.claim(ClaimRequest(count, 0.0), share, *stops)
            is_delivered = True
            if count:  # another claim may have the slots of claims that went back during the call
                self._concurrency.take(ahead.resize(min(slots, ahead.slots_in_use + call.slots)))
            claims = self._deliver(call.claims, session, connection, ahead=ahead)
            if claims:
                first = self._write_permits(ahead, claims)
        finally:
            call.end(is_delivered=is_delivered)
        return NextAnswer(answers, claims, first, ahead.slots, self.limit)

    def _slots(self, ahead: Permits, ended: int, plain: int, request: ClaimRequest) -> int:
        """On how many claims the session's app may work at the same time from now on. ``ended`` claims with permits and
        ``plain`` ones without have ended then."""
        free = self._concurrency.free_of(request.most)
        return max(
            min(ahead.count - ended, ahead.slots), min(request.most, ahead.slots_in_use + plain + free)
        )

    def _room(self, ahead: Permits, ended: int, request: ClaimRequest, slots: int) -> int:
        """How many items to claim. None while earlier ones are on their way back, which come first."""
        returning = self._returning.get(ahead)
        if not slots or self._concurrency.waiting or (returning is not None and not returning.done()):
            return 0
        return max(min(request.ahead, slots + self.limit - (ahead.count - ended), MOST_PERMITS), 0)

    def _write_permits(self, ahead: Permits, claims: list[Claim]) -> int:
        tokens = [claim.token for claim in claims]
        try:
            return ahead.deliver(tokens)
        except BlockingIOError:  # the app has written into the FIFO
            claims.clear()
            self._give_backs.begin(tokens, cause="not_reached")
            return 0


def _permits_of(session: Session) -> Permits:
    if session.ahead is None:
        raise ValueError(f"the session {session.id} has no permits; open one with ahead: true")
    return session.ahead
