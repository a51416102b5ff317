"""Claims items, sends them to the app, and applies the verdicts of its responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from claimq.concurrency.background_work import spawn
from claimq.concurrency.notify import unless
from claimq.consuming.engine.endings import Ending
from claimq.consuming.engine.settler import RETRY_SECONDS
from claimq.consuming.engine.shared_done import SharedDone
from claimq.errors import ClaimqError
from claimq.model import Claim
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.calls import ClaimRequest, VerdictRequest
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.memory import Share
from claimq_sidecar.metrics import PushMetrics
from claimq_sidecar.push.app_connection import AppConnection
from claimq_sidecar.push.app_connections import AppConnections
from claimq_sidecar.push.cloud_events import Events
from claimq_sidecar.push.decisions import Decision, NoResponse, Response, decide, decide_without
from claimq_sidecar.push.pace import Pace, Sent
from claimq_sidecar.push.readiness import Readiness
from claimq_sidecar.settings import PushSettings

CLAIM_SECONDS: Final = 30.0
"""How long one claim waits for items."""
_log = logging.getLogger("claimq_sidecar.push")


@dataclass(slots=True)
class _Claimed:
    """The items of one call to the store. ``share``: their memory, until the last of their requests is written."""

    share: Share
    requests: int

    def end_request(self) -> None:
        """One of the requests is written, or cannot be sent."""
        self.requests -= 1
        if not self.requests:
            self.share.end()


@dataclass(frozen=True, slots=True)
class _Request:
    """One request in progress. ``began`` by the loop's clock."""

    tokens: tuple[str, ...]
    began: float
    sent: Sent


class Pusher:
    """A client of the sidecar's claims, as an app is that claims its items itself."""

    def __init__(self, sidecar: Sidecar, settings: PushSettings) -> None:
        self._sidecar = sidecar
        self._settings = settings
        self._limit = sidecar.settings.concurrency or 1
        self._pace = Pace(self._limit)
        self._sends_alone = False
        """Whether the last claim had items that were tried before, each of which has a request of its own."""
        self._metrics = PushMetrics(sidecar.metrics.registry)
        self._metrics.limit.set_function(lambda: self._pace.allowed)
        self._events = Events(settings.path, settings.mode, sidecar.settings.queue)
        self._connections = AppConnections(settings.port, settings.socket)
        self._readiness = Readiness(
            settings,
            self._connections,
            self._note_change,
            lambda: self._pace.in_progress > 0 and not self._pace.is_silent,
        )
        sidecar.app_trouble = self._readiness.trouble
        self._until_answered = partial(sidecar.verdicts.settler.until_answered, repeated=ClaimqError)
        self._session = sidecar.sessions.open(0)
        self._gate = Connection()
        """Its ``gone`` is set while nothing may be sent, which ends claims that wait."""
        self._gate.gone.set()
        self._resume_at = 0.0
        self._resume_timer: asyncio.TimerHandle | None = None
        self._closing = 0
        """Verdicts that are to close something, until they are stored."""
        self._done: SharedDone[str] = SharedDone(self._end_done, self._in_background)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Sends items until it is cancelled. Items without a response are then given back by the sidecar's drain."""
        loops = [asyncio.ensure_future(loop) for loop in (self._readiness.run(), self._claim())]
        try:
            await asyncio.gather(*loops)
        finally:
            for task in (*loops, *self._tasks):
                task.cancel()
            self._connections.close()

    # Whether items may be sent.
    def _pause(self, seconds: float) -> None:
        """Sends nothing for so long; a longer pause goes on."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if seconds and loop.time() >= self._resume_at:  # once for the responses that arrive in a pause
            limit = self._pace.allowed
            _log.info(LogEvent("push_paused", seconds=f"{seconds:g}", limit=limit))
        if until > self._resume_at:
            self._resume_at = until
            if self._resume_timer is not None:
                self._resume_timer.cancel()
            self._resume_timer = loop.call_at(until, self._note_change)
        self._note_change()

    def _note_closing(self, change: int) -> None:
        self._closing += change
        self._note_change()

    def _note_change(self) -> None:
        """Opens or closes the gate, now that the app's readiness, a pause or a closing has changed."""
        is_paused = self._closing > 0 or asyncio.get_running_loop().time() < self._resume_at
        self._metrics.paused.set(is_paused)
        self._metrics.ready.set(self._readiness.is_ready)
        if is_paused or not self._readiness.is_ready:
            self._gate.gone.set()
        elif self._gate.gone.is_set():
            self._gate = Connection()
        self._sidecar.changed.notify()

    @property
    def _may_send(self) -> bool:
        return not self._gate.gone.is_set() and not self._sidecar.draining.is_set()

    # Claiming.
    async def _claim(self) -> None:
        """Claims items for the free slots, and waits for them. Slots of items that end are used by `_end_and_claim`."""
        while True:
            while not (self._may_send and (slots := self._sidecar.concurrency.free_of(self._pace.free))):
                await self._sidecar.changed.wait()
            try:
                await self._claim_and_send(
                    slots,
                    CLAIM_SECONDS,
                    lambda request, share: self._sidecar.claim(request, self._gate, share),
                )
            except ClaimqError:  # the store has logged it
                await asyncio.sleep(RETRY_SECONDS)

    async def _claim_and_send(
        self, room: int, wait: float, claim: Callable[[ClaimRequest, Share], Awaitable[list[Claim]]]
    ) -> None:
        """Claims items for ``room`` requests, which are reserved until the claim ends, and sends them.

        ``wait``: seconds until there is an item. Raises ClaimqError; then nothing was sent.
        """
        most = min(room if self._sends_alone else room * self._settings.batch_size, self._limit)
        share = Share()
        self._pace.reserved += room
        try:
            claims = await claim(ClaimRequest(most, wait, self._session.id), share)
        except ClaimqError:
            share.end()
            raise
        finally:
            self._pace.reserved -= room
            self._sidecar.changed.notify()  # the other loop may claim for those that are not used
        self._send_all(claims, share)

    # Sending.
    def _send_all(self, claims: Sequence[Claim], share: Share) -> None:
        """Sends items in requests of at most the batch size. What may not be sent any more, or is more requests than
        expected, goes back."""
        batches = list(_batches(claims, self._settings.batch_size))
        if claims:
            self._sends_alone = any(map(_was_sent, claims))
        free = self._pace.free
        self._sidecar.give_backs.unread([claim.token for batch in batches[free:] for claim in batch])
        del batches[free:]
        if not batches:
            share.end()
        source = _Claimed(share, len(batches))
        for batch in batches:
            self._pace.in_progress += 1
            connection = self._connections.take()
            if connection is None:
                self._in_background(self._connect_and_send(batch, source))
            else:
                self._send(connection, batch, source)

    async def _connect_and_send(self, batch: Sequence[Claim], source: _Claimed) -> None:
        """Items that the app cannot get go back to the head of the queue, uncounted; at once in a drain."""
        opening, why = asyncio.ensure_future(self._connections.open()), ""
        try:
            is_wanted = await unless(opening, self._sidecar.draining, self._gate.gone)
            connection = opening.result() if is_wanted else None
        except OSError as error:
            connection, why = None, error.strerror or str(error)
        if connection is not None:
            if connection.is_open and self._may_send:
                self._send(connection, batch, source)
                return
            why = "" if connection.is_open else "it closes connections at once"
            self._connections.give_back(connection)
        if why:
            self._metrics.count("refused")
            self._readiness.doubt(why)
        self._end_request()
        source.end_request()
        self._sidecar.give_backs.unread([claim.token for claim in batch])

    def _send(self, connection: AppConnection, batch: Sequence[Claim], source: _Claimed) -> None:
        began = asyncio.get_running_loop().time()
        request = _Request(tuple(claim.token for claim in batch), began, self._pace.sent())
        connection.send(
            self._events.request(batch),
            self._settings.timeout,
            lambda connection, outcome: self._note_result(request, connection, outcome),
            source.end_request,
        )

    def _note_result(
        self, request: _Request, connection: AppConnection, outcome: Response | NoResponse
    ) -> None:
        """Applies the verdict of a response, or of its absence."""
        self._connections.give_back(connection)
        self._metrics.observe(asyncio.get_running_loop().time() - request.began)
        if isinstance(outcome, Response):
            self._metrics.count(f"{outcome.status // 100}xx")
            now = datetime.now(UTC)  # noqa: TID251 - compared with a date of the app, which has this machine's clock
            decision = decide(outcome, now, retries_client_errors=self._settings.retries_client_errors)
            is_refused, is_done = decision.pause is not None, decision.verb == "done"
            self._pace.note_response(request.sent, is_done=is_done, is_refused=is_refused)
        else:
            self._metrics.count(outcome)
            decision = decide_without(outcome, self._settings.timeout)
            self._note_no_response(outcome, request, decision.error)
        self._end_request()
        if outcome is NoResponse.BROKEN and self._sidecar.draining.is_set():
            self._sidecar.give_backs.begin(request.tokens, cause="drained", why=decision.error)
            return
        if decision.close is not None:  # the store ends this pause, or who resumes the queue
            _log.info(LogEvent("push_closed", unit=decision.close, seconds=f"{decision.delay or 0:g}"))
            self._note_closing(1)
        elif decision.pause is not None:
            self._pause(decision.pause)
        if decision.verb == "done":
            self._done.add(request.tokens)
        else:
            self._in_background(self._end(request.tokens, decision))

    def _end_request(self) -> None:
        """A request is no longer in progress. Its slot may be free already, if its claims were lost."""
        self._pace.in_progress -= 1
        self._sidecar.changed.notify()

    def _note_no_response(self, reason: NoResponse, request: _Request, why: str) -> None:
        """After a broken connection the app is not ready until it can be reached again. With a probe path also when it
        is silent."""
        if reason is NoResponse.BROKEN:
            self._pace.note_broken(request.sent)
            self._readiness.doubt(why)
        elif reason is NoResponse.TIMEOUT:
            was_silent = self._pace.is_silent
            if not self._pace.note_timeout(request.sent):
                return
            if not was_silent:
                _log.warning(LogEvent("app_silent", address=self._settings.address, why=why))
            if self._settings.probe_path is not None:
                self._readiness.doubt(why)

    # Verdicts.
    async def _end_done(self, tokens: list[str]) -> None:
        """Ends finished items in one call, which also claims the next ones."""
        done = VerdictRequest(tuple(tokens), (Ending(tokens),))
        await self._until_answered(partial(self._end_and_claim, done))

    async def _end_and_claim(self, done: VerdictRequest) -> None:
        if self._may_send and (room := self._pace.free):
            await self._claim_and_send(room, 0.0, partial(self._claim_next, done))
        else:
            await self._sidecar.verdicts.answer("done", done)

    async def _claim_next(self, done: VerdictRequest, request: ClaimRequest, share: Share) -> list[Claim]:
        return (await self._sidecar.next({"done": done}, request, self._gate, share)).claims

    async def _end(self, tokens: tuple[str, ...], decision: Decision) -> None:
        words = (decision.error, decision.permanent, decision.detail, decision.delay)
        request = VerdictRequest(tokens, (Ending(tokens, *words, close=decision.close),))
        try:
            await self._until_answered(partial(self._sidecar.verdicts.answer, decision.verb, request))
        finally:
            if decision.close is not None:
                self._note_closing(-1)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = spawn(work, name="push")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _was_sent(claim: Claim) -> bool:
    """Whether the app has refused the item before, or failed on it."""
    return bool(claim.item.requeue_count or claim.item.postponed_count)


def _batches(claims: Sequence[Claim], size: int) -> Iterator[Sequence[Claim]]:
    """Divides items into batches. An item that was tried before is alone: it may be what made its batch fail. It comes
    first, so that it is not given back again and again."""
    for claim in claims:
        if _was_sent(claim):
            yield [claim]
    fresh = [claim for claim in claims if not _was_sent(claim)]
    for start in range(0, len(fresh), size):
        yield fresh[start : start + size]
