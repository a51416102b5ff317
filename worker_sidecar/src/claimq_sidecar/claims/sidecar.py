"""The sidecar itself, without HTTP: what the app has in hand, and the drain that empties its hands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace

from claimq.background_work import in_background
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim, Enqueued, NewItem, Verdict
from claimq_sidecar.claims.calls import LONGEST_WAIT, ClaimRequest
from claimq_sidecar.claims.claimer import Claimer
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.concurrency import Concurrency, Turn
from claimq_sidecar.claims.drain import Drain, Step
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.notify import Notifier, first_of
from claimq_sidecar.claims.renewer import Renewer
from claimq_sidecar.claims.sessions import Session, SessionNotOpen, Sessions
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.memory import Allowance, Share
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import SidecarSettings
from claimq_sidecar.store import Store
from claimq_spec.log_lines import LogEvent

_LEAVE_SECONDS = 5.0
_HOUSEKEEPING = 0.25
_OWN_HOOK_SECONDS = 5.0
"""After the app's hook has been answered, the sidecar's own must have come by then, or the pod does not end."""
_LEASE_UNTIL_KNOWN = 30.0
_log = logging.getLogger("claimq_sidecar")


class Sidecar:
    """One queue, one app beside it."""

    def __init__(self, settings: SidecarSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.store = Store(settings.redis, settings.queue, settings.worker, self.metrics)
        self.in_flight = InFlight(settings.processing_timeout)
        self.changed = Notifier()
        self.verdicts = Verdicts(self.store, self.in_flight, self.metrics, self.changed)
        self.sessions = Sessions()
        self.draining = asyncio.Event()
        self.leaving = asyncio.Event()
        self._claimer = Claimer(self.store, self.metrics, self.changed, Allowance(settings.memory).claims)
        self.concurrency = Concurrency(settings.concurrency, self._unsettled)
        self.changed.listen(self.concurrency.look)
        self._told_of_limit = False
        self._renewer = Renewer(self.in_flight, self.verdicts)
        self._drain = Drain(settings.drain_timeout)
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def now(self) -> float:
        """The monotonic clock."""
        return asyncio.get_running_loop().time()

    # Claims.
    async def claim(self, request: ClaimRequest, connection: Connection, share: Share) -> list[Claim]:
        """Claims for the app, as many as may be in hand; with none of them free it waits for one as for an item.

        Empty in a drain, or when the client went away meanwhile (what was claimed goes back). Raises what the library
        raises, and SessionNotOpen.
        """
        if self.draining.is_set():
            return []
        session = None if request.session is None else self.sessions.get(request.session)
        stops = [self.draining, connection.gone, *([session.closed] if session else [])]
        if not self.concurrency.free(1):
            self._forget_expired()
        self._tell_of_limit(request.most)
        turn = self.concurrency.ask(request.most)
        try:
            allowed = await self._wait_for_turn(turn, request, *stops)
            claims = [] if allowed is None else await self._claimer.claim(allowed, share, *stops)
            return self._hand_out(claims, session, connection)
        finally:
            self.concurrency.leave(turn)

    async def _wait_for_turn(
        self, turn: Turn, request: ClaimRequest, *stops: asyncio.Event
    ) -> ClaimRequest | None:
        """What may be claimed of the request, and how long that may still wait; None when the wait is over."""
        if not turn.given.is_set():
            wait = request.wait
            if wait is None:
                wait = LONGEST_WAIT if self.store.claim_wait is None else self.store.claim_wait
            deadline = self.now + wait
            if wait:
                await first_of(wait, turn.given, *stops)
            if any(stop.is_set() for stop in stops):
                return None
            if not turn.given.is_set():
                self._refuse_in_outage()
                return None
            request = replace(request, wait=max(deadline - self.now, 0.0))
        return replace(request, most=turn.places)

    def _refuse_in_outage(self) -> None:
        """Where no place is free since nobody knows what earlier claims got, the app is told that."""
        if self._claimer.doubtful and self.store.last_error:
            raise StoreUnavailable(
                f"it is not known yet what earlier claims got, and the store does not answer ({self.store.last_error})"
            )

    def _hand_out(self, claims: list[Claim], session: Session | None, connection: Connection) -> list[Claim]:
        """What the client gets of these; what it can get no more goes back."""
        if self.draining.is_set() or connection.gone.is_set():
            self._claimer.give_back(claims, cause="stopped")
            return []
        if session is not None and session.closed.is_set():
            self._claimer.give_back(claims, cause="stopped")
            raise SessionNotOpen(session.id)
        if not claims:
            return []
        self.in_flight.take(claims, None if session is None else session.id, self.now)
        if session is not None:
            self._renewer.held(claims[0].lease_until - claims[0].claimed_at)
        connection.handed = tuple(claim.token for claim in claims)
        connection.on_unread = self._unread
        self.metrics.claimed.inc(len(claims))
        return claims

    def _tell_of_limit(self, asked: int) -> None:
        """Says once in the log that the app asks for more than it will ever get."""
        limit = self.concurrency.limit
        if limit is not None and asked > limit and not self._told_of_limit:
            self._told_of_limit = True
            _log.info(LogEvent("claim_over_concurrency", asked=asked, concurrency=limit))

    def _unsettled(self) -> int:
        """Items of which nobody knows yet that they are settled: in the app's hands, or on their way back."""
        return (
            len(self.in_flight) + self.verdicts.returning + self._claimer.returning + self._claimer.doubtful
        )

    def _unread(self, tokens: tuple[str, ...]) -> None:
        """The client went away before it had read the reply with these claims."""
        self._in_background(self._give_back(tokens, cause="unread"))

    async def enqueue(self, items: Sequence[NewItem]) -> Enqueued:
        """Enqueues for the app."""
        done = await self.store.call(lambda queue: queue.enqueue_many(items))
        self.metrics.enqueued.inc(len(done.ids) - len(done.duplicates))
        return done

    # Sessions.
    async def open_session(self, connection: Connection, tokens: Sequence[str]) -> tuple[Session, list[str]]:
        """A new session, and which of the claims that it shall hold are lost.

        ``tokens``: what a client has in hand that lost its connection or its sidecar.
        """
        session = self.sessions.open(connection.pid)
        _log.info(LogEvent("session_opened", session=session.id, pid=session.pid, adopted=len(tokens)))
        if not tokens:
            return session, []
        await self.store.look()
        lease = self.store.busy_expiry or _LEASE_UNTIL_KNOWN
        for token in tokens:
            self.in_flight.hold(token, session.id, self.now, lease)
        self._renewer.held(lease)
        try:
            outcomes = await self.verdicts.renew(tokens)
        except ClaimqError:  # not known: the renewals will tell
            return session, []
        return session, [outcome.token for outcome in outcomes if outcome.verdict is Verdict.LOST]

    def close_session(self, session: Session) -> None:
        """Its connection has ended: what it holds goes back at once, as a crash, or in a drain as an interruption."""
        self.sessions.close(session)
        tokens = self.in_flight.of_session(session.id)
        _log.info(LogEvent("session_closed", session=session.id, pid=session.pid, in_hand=len(tokens)))
        if tokens:
            crash = None if self.draining.is_set() else f"{session.who} ended its session without a verdict"
            cause = "drained" if crash is None else "crashed"
            why = f"{session.who} ended its session in a drain"
            self._in_background(self._give_back(tokens, cause=cause, crash=crash, why=why))
        self.changed.fire()

    async def _give_back(
        self, tokens: Sequence[str], *, cause: str, crash: str | None = None, why: str = ""
    ) -> None:
        try:
            await self.verdicts.give_back(tokens, cause=cause, crash=crash, why=why)
        except StoreUnavailable as error:
            _log.warning(LogEvent("give_back_failed", cause=cause, claims=len(tokens), error=error))
        except ClaimqError as error:
            _log.warning(LogEvent("give_back_refused", cause=cause, claims=len(tokens), error=error))
        self.changed.fire()

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = in_background(work, name="giving back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    # The drain.
    def begin_drain(self, *, signalled: bool = False, final: bool = True) -> None:
        """Claims nothing from now on. With a signal the sidecar leaves at the end, with a second one at once."""
        if signalled:
            begun = self._drain.signalled(self.now, at_once=self.settings.leaves_at_sigterm)
        else:
            begun = self._drain.begin(self.now, final=final)
        self._drain = begun
        if not self.draining.is_set():
            _log.info(
                LogEvent(
                    "drain_began", in_hand=len(self.in_flight), timeout=f"{self.settings.drain_timeout:g}"
                )
            )
            self.draining.set()
        self.changed.fire()

    async def app_told_to_end(self) -> None:
        """The app's preStop hook: waits until nothing is in hand or the drain time is over; SIGTERM then follows.

        The kubelet calls it when the pod ends, and also when it restarts just the app. In the first case it calls the
        sidecar's own hook (/drain) at the same time; in the second that does not come, and claims go on. An app
        that is restarted since an item is over its processing time is not waited for.
        """
        if self.draining.is_set() or not self.in_flight.overdue(self.now):
            self.begin_drain(final=False)
            await self.rested()
        asyncio.get_running_loop().call_later(_OWN_HOOK_SECONDS, self._go_on_unless_ending)

    def _go_on_unless_ending(self) -> None:
        self._drain = self._drain.revoked()
        if self._drain.started is None and self.draining.is_set():
            _log.info(LogEvent("drain_revoked", why="only the app was restarted"))
            self.draining.clear()
            self.changed.fire()

    async def rested(self) -> bool:
        """Waits until nothing is in hand or the drain time is over; whether the hands are empty."""
        while self._drain.step(self.now, len(self.in_flight)) is Step.WAIT:
            await self.changed.wait(self._drain.left(self.now))
        return not self.in_flight

    async def left(self) -> None:
        """Waits for the end of a drain that a signal began, then gives back what is left, uncounted and in order."""
        while (step := self._drain.step(self.now, len(self.in_flight))) is not Step.LEAVE:
            await self.changed.wait(self._drain.left(self.now) if step is Step.WAIT else None)
        self.leaving.set()
        tokens = self.in_flight.all()
        _log.info(LogEvent("leaving", in_hand=len(tokens)))
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                if tokens:
                    await self._give_back(tokens, cause="drained", why="its worker was told to end at once")
                if self._returning:
                    await asyncio.wait(set(self._returning))
                await self._claimer.settled(_LEAVE_SECONDS)
        except TimeoutError:
            _log.warning(LogEvent("left_to_leases", claims=len(tokens)))

    # Loops.
    async def renew(self) -> None:
        """Renews what sessions hold, for ever."""
        await self._renewer.run()

    async def keep_house(self) -> None:
        """Forgets claims without a session whose lease is over, for ever."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            self._forget_expired()

    def _forget_expired(self) -> None:
        if self.in_flight and (over := self.in_flight.expire(self.now)):
            _log.warning(LogEvent("leases_over", claims=len(over)))
            self.changed.fire()

    def refresh(self, metrics: Metrics) -> None:
        """Sets the gauges to what holds now."""
        now = self.now
        age = self.store.age(now)
        metrics.in_hand.set(len(self.in_flight))
        metrics.concurrency.set(float("inf") if self.concurrency.limit is None else self.concurrency.limit)
        metrics.waiting.set(self.concurrency.waiting)
        metrics.oldest.set(self.in_flight.oldest(now))
        metrics.overdue.set(len(self.in_flight.overdue(now)))
        metrics.sessions.set(len(self.sessions))
        metrics.draining.set(self.draining.is_set())
        metrics.ready.set(self.store.ready.is_set())
        metrics.round_trip_age.set(float("nan") if age is None else age)
