"""The sidecar without HTTP: claims, sessions and the drain of the app beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from claimq.concurrency.notify import Notifier, first_of, unless
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.permits import Permits
from claimq.consuming.engine.slots import SlotRequest, Slots
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim, Enqueued, NewItem, Verdict
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.calls import ClaimRequest, NextAnswer, VerdictRequest, default_wait
from claimq_sidecar.claims.claimer import Claimer
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.draining import Draining
from claimq_sidecar.claims.give_backs import GiveBacks
from claimq_sidecar.claims.item_stream import USUAL_WINDOW, ItemStream
from claimq_sidecar.claims.next_claim import join
from claimq_sidecar.claims.permitted_claims import PermittedClaims
from claimq_sidecar.claims.sessions import Session, SessionNotOpen, Sessions
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.memory import Allowance, Share
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import SidecarSettings
from claimq_sidecar.store import Store

_LEAVE_SECONDS = 5.0
_EXPIRE_SECONDS = 0.25
_UNKNOWN_LEASE_SECONDS = 30.0
_log = logging.getLogger("claimq_sidecar")


class Sidecar:
    """Serves one queue to one app."""

    def __init__(self, settings: SidecarSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        allowance = Allowance(settings.memory)
        self.store = Store(
            settings.redis,
            settings.queue,
            settings.worker,
            self.metrics,
            allowance.largest_item,
            settings.concurrency,
        )
        self.changed = Notifier()
        """Notifies of every free slot, and of the begin and end of a drain."""
        self.concurrency = Slots(settings.concurrency, self.changed)
        self.in_flight = ClaimsInFlight(self.concurrency, settings.processing_timeout)
        self.verdicts = Verdicts(self.store, self.in_flight, self.metrics, self._take_back)
        self.give_backs = GiveBacks(self.verdicts, self.in_flight, self.metrics)
        self.sessions = Sessions()
        self.drain = Draining(settings, self.in_flight, self.changed, take_back=self._take_back)
        self.draining = self.drain.begun
        self.leaving = asyncio.Event()
        self.app_trouble: Callable[[], str] = lambda: ""
        """Returns why items cannot be sent to the app; empty if they can, or if the app asks for them."""
        self._claimer = Claimer(self.store, self.give_backs, self.concurrency, allowance.claims)
        self._has_logged_limit = False
        self.ahead = PermittedClaims(
            settings,
            self.store,
            self.sessions,
            self.in_flight,
            self.concurrency,
            self._claimer,
            self.verdicts,
            self._deliver,
            self.give_backs,
        )

    @property
    def now(self) -> float:
        """The monotonic clock."""
        return asyncio.get_running_loop().time()

    def _take_back(self) -> None:
        self.ahead.take_back_all()

    # Claims.
    async def claim(
        self, request: ClaimRequest, connection: Connection, share: Share, *more_stops: asyncio.Event
    ) -> list[Claim]:
        """Claims up to ``request.most`` items, within the concurrency limit. At the limit it waits as for an item.

        Returns an empty list in a drain, when the client has disconnected and after one of ``more_stops``; its items
        go back to the queue. Raises what the library raises, and SessionNotOpen.
        """
        if self.draining.is_set():
            return []
        session = None if request.session is None else self.sessions.get(request.session)
        stops = [self.draining, connection.gone, *more_stops, *([session.closed] if session else [])]
        if self.concurrency.is_full:
            self._expire()
        self._log_limit(request.most)
        slots = self.concurrency.request(request.most)
        try:
            allowed = await self._wait_for_slots(slots, request, *stops)
            last = connection.last_claim
            claims = [] if allowed is None else await self._claimer.claim(allowed, share, *stops, last=last)
            return self._deliver(claims, session, connection, *more_stops)
        finally:
            self.concurrency.finish(slots)

    async def next(
        self,
        verdicts: Mapping[str, VerdictRequest],
        request: ClaimRequest,
        connection: Connection,
        share: Share,
    ) -> NextAnswer:
        """Applies verdicts, by verb, and then claims as :meth:`claim` does, whatever their outcomes.

        Only ``done`` without items that follow: both in one call to the server, unless other claims wait for a slot.
        Raises as :meth:`claim`, SessionNotOpen before the verdicts; a verdict that was applied is recognized when the
        request is repeated.
        """
        session = None if request.session is None else self.sessions.get(request.session)
        stops = [self.draining, connection.gone, *([session.closed] if session else [])]
        if session is not None and request.ahead:
            return await self.ahead.next(verdicts, request, session, connection, share, stops)
        joined = await join(
            self.verdicts, self.concurrency, self.in_flight, self._claimer, verdicts, request, share, stops
        )
        self._log_limit(request.most)
        if joined is None:
            answers = await self.verdicts.answer_all(verdicts, share)
            share.end()  # the items that follow are stored
            return NextAnswer(answers, await self.claim(request, connection, share))
        is_delivered = False
        try:
            answers = await self.verdicts.answer("done", verdicts["done"], share, joined.call)
            self._claimer.note_claims(joined.claims, share)
            is_delivered = True
            claims = self._deliver(joined.claims, session, connection)
        finally:
            joined.end(is_delivered=is_delivered)
        if not claims and request.wait != 0:
            claims = await self.claim(request, connection, share)
        return NextAnswer(answers, claims)

    async def _wait_for_slots(
        self, slots: SlotRequest, request: ClaimRequest, *stops: asyncio.Event
    ) -> ClaimRequest | None:
        """The part of the request that may be claimed now, with the rest of its wait. None if the wait is over."""
        if not slots.granted.is_set():
            wait = default_wait(self.store.claim_wait) if request.wait is None else request.wait
            timeout_at = self.now + wait
            self.ahead.take_back_all()
            if wait:
                await first_of(wait, slots.granted, *stops)
            if any(stop.is_set() for stop in stops):
                return None
            if not slots.granted.is_set():
                self._refuse_in_outage()
                return None
            request = replace(request, wait=max(timeout_at - self.now, 0.0))
        return replace(request, most=slots.slots)

    def _refuse_in_outage(self) -> None:
        """Raises StoreUnavailable if slots are in use only because an outage hides what earlier claims returned."""
        if self._claimer.has_unknown_claims and self.store.last_error:
            why = f"the server does not respond: {self.store.last_error}"
            raise StoreUnavailable(f"the outcome of earlier claims is unknown; retry ({why})")

    def _deliver(
        self,
        claims: list[Claim],
        session: Session | None,
        connection: Connection,
        *stops: asyncio.Event,
        ahead: Permits | None = None,
    ) -> list[Claim]:
        """Records claims as in flight, or returns them to the queue if the client cannot get them any more."""
        if any(stop.is_set() for stop in (self.draining, connection.gone, *stops)):
            self._claimer.give_back(claims, cause="stopped")
            return []
        if session is not None and session.closed.is_set():
            self._claimer.give_back(claims, cause="stopped")
            raise SessionNotOpen(session.id)
        if not claims:
            return []
        self.in_flight.add(claims, None if session is None else session.id, self.now, ahead)
        if session is not None:
            self.verdicts.renewer.note_lease(claims[0].lease_until - claims[0].claimed_at)
        self.metrics.count_claims(claims)
        return claims

    def _log_limit(self, most: int) -> None:
        """Logs once that the app requests more items than the limit allows."""
        limit = self.concurrency.limit
        if limit is not None and most > limit and not self._has_logged_limit:
            self._has_logged_limit = True
            _log.info(LogEvent("claim_over_concurrency", asked=most, concurrency=limit))

    async def enqueue(self, items: Sequence[NewItem]) -> Enqueued:
        """Enqueues items for the app."""
        done = await self.store.call(lambda queue: queue.enqueue_many(items))
        self.metrics.enqueued.inc(len(done.ids) - len(done.duplicates))
        return done

    # Sessions.
    async def open_session(
        self,
        connection: Connection,
        tokens: Sequence[str],
        share: Share,
        window: Slots | None = None,
        *,
        ahead: bool = False,
    ) -> tuple[Session, list[str]]:
        """Opens a session. Returns it, and which of the adopted claims are lost.

        ``tokens``: claims to adopt, of a client that has lost its connection or whose sidecar was restarted.
        ``share``: their memory. It stays reserved until the server has answered which of them exist.
        ``window``: how many claims it may have when items are delivered to it. ``ahead``: whether its app begins items
        by permits.
        """
        session = self.sessions.open(connection.pid)
        if ahead:
            self.ahead.open(session)
        if window is not None:
            self.in_flight.limit(session.id, window)
            session.items = ItemStream(
                session.id,
                window,
                lambda request, share, stop: self.claim(request, connection, share, stop),
                self.draining,
                connection.gone,
            )
        _log.info(LogEvent("session_opened", session=session.id, pid=session.pid, adopted=len(tokens)))
        if not tokens:
            return session, []
        await self.store.check()
        lease = self.store.busy_expiry or _UNKNOWN_LEASE_SECONDS
        for token in tokens:
            self.in_flight.adopt(token, session.id, self.now, lease)
        self.verdicts.renewer.note_lease(lease)
        try:
            outcomes = await self.verdicts.renew_for_app(tokens)
        except ClaimqError:  # unknown; the next renewal finds out
            renewed = unless(self.verdicts.renewer.answered.wait(), session.closed)
            share.keep_for(asyncio.ensure_future(renewed))
            return session, []
        return session, [outcome.token for outcome in outcomes if outcome.verdict is Verdict.LOST]

    def window(self, requested: int | None) -> int:
        """The window that a stream gets which wants this one; None: as large as the concurrency allows."""
        limit = self.concurrency.limit
        if requested is None:
            return USUAL_WINDOW if limit is None else limit
        self._log_limit(requested)
        return requested if limit is None else min(requested, limit)

    def resize(self, session_id: str, window: int) -> list[str]:
        """Changes the window of a stream; returns the tokens of its unsettled claims. Raises SessionNotOpen, and
        ValueError for a session without a stream.
        """
        session = self.sessions.get(session_id)
        if session.items is None:
            raise ValueError(f"the session {session_id} delivers no items; open one with POST /v1/stream")
        session.items.resize(window)
        return self.in_flight.of_session(session_id)

    async def change(
        self, session: Session, connection: Connection, share: Share, *, waits: bool
    ) -> list[Claim]:
        """The next items of a session. Empty when a drain begins or ends, when the connection or the sidecar ends, and
        after ten seconds without items (without ``waits``: at once if there are none).
        """
        if session.items is not None and not self.draining.is_set():
            return await session.items.next(share, waits=waits)
        drain = self.drain.serving if self.draining.is_set() else self.draining
        await first_of(None, drain, connection.gone, self.leaving)
        return []

    def close_session(self, session: Session, share: Share) -> None:
        """Returns the session's claims now that its connection has ended: as a crash, in a drain as an interruption.
        ``share``: what is reserved for its request stays reserved until the claims are back.
        """
        self.sessions.close(session)
        self.ahead.close(session)
        self.in_flight.end_session(session.id)
        tokens = self.in_flight.of_session(session.id)
        _log.info(LogEvent("session_closed", session=session.id, pid=session.pid, in_flight=len(tokens)))
        if tokens:
            crash = None if self.draining.is_set() else f"{session.who} ended its session without a verdict"
            cause = "drained" if crash is None else "crashed"
            why = f"{session.who} ended its session in a drain"
            share.keep_for(self.give_backs.begin(tokens, cause=cause, crash=crash, why=why))

    async def left(self) -> None:
        """Waits for the end of a drain with a signal, then returns the remaining claims, uncounted and in order."""
        await self.drain.over()
        self.leaving.set()
        tokens = self.in_flight.all()
        _log.info(LogEvent("leaving", in_flight=len(tokens)))
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                if tokens:
                    self.give_backs.begin(tokens, cause="drained", why="its worker was stopped")
                await self._claimer.settled(_LEAVE_SECONDS)
                await self.verdicts.settler.given_back()
        except TimeoutError:
            _log.warning(LogEvent("claims_left_to_leases", claims=len(tokens)))

    # Loops.
    async def expire(self) -> None:
        """Removes claims without a session whose leases have ended, until it is cancelled."""
        while True:
            await asyncio.sleep(_EXPIRE_SECONDS)
            self._expire()

    def _expire(self) -> None:
        if self.in_flight and (expired := self.in_flight.expire(self.now, self.verdicts.has_attempt)):
            _log.warning(LogEvent("leases_expired", claims=len(expired)))

    def refresh(self, metrics: Metrics) -> None:
        """Sets the gauges to the present values."""
        now = self.now
        age = self.store.age(now)
        metrics.in_flight.set(len(self.in_flight) - self.ahead.count)
        metrics.concurrency.set(float("inf") if self.concurrency.limit is None else self.concurrency.limit)
        metrics.waiting.set(self.concurrency.waiting)
        metrics.oldest.set(self.in_flight.oldest(now))
        metrics.overdue.set(len(self.in_flight.overdue(now)))
        metrics.sessions.set(len(self.sessions))
        metrics.draining.set(self.draining.is_set())
        metrics.ready.set(self.store.ready.is_set())
        metrics.response_age.set(float("nan") if age is None else age)
