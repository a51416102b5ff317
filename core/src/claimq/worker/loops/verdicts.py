"""The verdicts of loops: those that come while a request is in flight share the next one, which also claims items."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic

from claimq.errors import ClaimqError
from claimq.handler_verdicts import attempt_at, next_attempt
from claimq.model import Outcome
from claimq.worker import wire
from claimq.worker.backends import Backend, Waiter, is_ending, refuse_if_ending
from claimq.worker.connection import CLOSED, Connections
from claimq.worker.errors import Refused, SidecarUnavailable
from claimq.worker.in_flight import InFlight
from claimq.worker.item import AnyItem, ClaimedItem
from claimq.worker.loops.ahead import Room

_IDLE_SECONDS = 3600.0
_NO_SESSION = 409
_LOST = "another worker has it or will, unless the sidecar was killed right after it had applied the verdict"
_log = logging.getLogger("claimq.worker")


def log_outcome(verb: str, item: ClaimedItem, outcome: Outcome) -> None:
    """Logs that an item whose work has been done was lost before, and when a failed one is attempted again."""
    if verb == "done" and outcome.is_lost:
        _log.warning("item %s was lost before it was done: %s", item.id, _LOST)
    elif verb == "fail" and (after := next_attempt(outcome)):
        _log.info("item %s: %s", attempt_at(item), after)


@dataclass(slots=True, eq=False)
class PendingVerdict(Generic[AnyItem]):
    """A verdict on one item. ``claims``: whether its loop will ask for the next item soon."""

    verb: str
    item: AnyItem
    words: dict[str, object]
    claims: bool
    is_settled: bool = False
    error: ClaimqError | None = None
    waiters: list[Waiter] = field(default_factory=list[Waiter])


class Verdicts(Generic[AnyItem]):
    """Sends one request at a time, in the background."""

    def __init__(
        self,
        connections: Connections,
        backend: Backend,
        patience: float,
        in_flight: InFlight[AnyItem],
        room: Callable[[int], Room | None],
        received: Callable[[dict[str, Any], Room], Sequence[AnyItem]],
    ) -> None:
        """``room``: what a request with the verdicts of so many loops may claim now. ``received``: keeps the items of
        its reply; returns those to give back.
        """
        self._connections = connections
        self._backend = backend
        self._patience = patience
        self._in_flight = in_flight
        self._room = room
        self._received = received
        self._lock = threading.Lock()
        self._pending: deque[PendingVerdict[AnyItem]] = deque()
        """Those that are not settled, in order; the first of them may be in flight."""
        self._event = backend.event()
        self._end: Callable[[], Awaitable[None]] | None = None
        self._is_closing = False

    def add(
        self, verb: str, item: AnyItem, words: dict[str, object], *, claims: bool = False
    ) -> PendingVerdict[AnyItem]:
        """Sends a verdict as soon as no request is in flight. Raises SidecarUnavailable after :meth:`close`, and while
        the interpreter ends.
        """
        refuse_if_ending()
        pending = PendingVerdict(verb, item, words, claims)
        with self._lock:
            if self._is_closing:
                raise SidecarUnavailable(CLOSED)
            item.is_ending = True
            self._pending.append(pending)
            if self._end is None:
                self._end = self._backend.start(self._run())
        self._event.set()
        return pending

    @property
    def is_full(self) -> bool:
        """Whether so many wait that the next has to wait too."""
        return len(self._pending) >= wire.MOST

    async def wait(self, pending: PendingVerdict[AnyItem]) -> None:
        """Waits until it has its outcome. Raises SidecarUnavailable, StoreUnavailable, Refused."""
        refuse_if_ending()  # a thread that has the lock may never run again
        with self._lock:
            waiter = None if pending.is_settled else self._backend.waiter()
            if waiter is not None:
                pending.waiters.append(waiter)
        if waiter is not None:
            await waiter.wait()
        if pending.error is not None:
            raise pending.error

    async def flush(self) -> None:
        """Waits for the outcomes of those that are pending now. Their loops get the errors."""
        if is_ending():
            return
        with self._lock:
            last = self._pending[-1] if self._pending else None
        if last is not None:
            with suppress(ClaimqError):
                await self.wait(last)

    async def close(self) -> None:
        """Ends the background work, after the verdicts that are pending now."""
        await self.flush()
        end, self._is_closing = self._end, True
        if end is not None and not is_ending():
            self._event.set()
            await end()

    async def _run(self) -> None:
        why = CLOSED
        try:
            while not self._is_closing:
                with self._lock:
                    batch = list(islice(self._pending, wire.MOST))
                if batch:
                    await self._send(batch)
                else:
                    await self._event.wait_for(_IDLE_SECONDS)
                    self._event.clear()
        except BaseException as error:
            why = f"the verdict may not have been sent: {error!r}"
            if not isinstance(error, Exception):
                raise
            _log.exception("unexpected error while verdicts were sent")
        finally:
            with self._lock:
                rest, self._end = list(self._pending), None  # the next verdict starts it again
            if rest:
                self._settle(rest, SidecarUnavailable(why))

    async def _send(self, batch: Sequence[PendingVerdict[AnyItem]]) -> None:
        loops = sum(one.claims for one in batch)
        room = self._room(loops) if loops else None
        try:
            with self._in_flight.ending([one.item.token for one in batch]):
                reply = await self._request(batch, room)
        except Refused as error:
            if room is not None and error.status == _NO_SESSION:
                for one in batch:
                    one.claims = False  # sent again
            elif len(batch) > 1:  # nothing was carried out
                for one in batch:
                    await self._send([one])
            else:
                self._settle(batch, error)
        except ClaimqError as error:
            self._settle(batch, error)
        else:
            if room is not None:
                for item in self._received(reply, room):
                    self.add("unclaim", item, {})
            self._settle(batch, None)

    async def _request(self, batch: Sequence[PendingVerdict[AnyItem]], room: Room | None) -> dict[str, Any]:
        endings = [(one.verb, one.item.token, one.words) for one in batch]
        if room is None:
            path, body = "/v1/verdicts", wire.verdicts_body(endings)
        else:
            path, body = "/v1/next", wire.next_body(endings, room.most, room.count, room.session)
        reply, is_repeated = await self._connections.call(
            path, body, answer_in=wire.ANSWER_SECONDS, try_for=self._patience
        )
        outcomes = {outcome.token: outcome for outcome in wire.read_outcomes(reply, repeated=is_repeated)}
        for one in batch:
            log_outcome(one.verb, one.item, outcomes[one.item.token])
        self._in_flight.note_outcomes(list(outcomes.values()))
        return reply

    def _settle(self, batch: Sequence[PendingVerdict[AnyItem]], error: ClaimqError | None) -> None:
        with self._lock:
            for one in batch:
                if self._pending and self._pending[0] is one:
                    self._pending.popleft()
                one.is_settled, one.error = True, error
                if error is not None:
                    one.item.is_ending = False
                    if one.item.loop is not None:
                        one.item.loop.error = error
            waiters = [waiter for one in batch for waiter in one.waiters]
        for waiter in waiters:
            waiter.wake()
