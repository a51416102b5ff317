"""The client of the sidecar, written once: coroutines over a backend, for :class:`AsyncWorker` and :class:`Worker`."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Generic, Unpack

from claimq.arguments import Duration, optional_seconds, seconds, several
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.item_options import ItemOptions, new_item
from claimq.model import Enqueued, EnqueuedItem, NewItem, Outcome
from claimq.tracing import Sending
from claimq.worker import endings, wire
from claimq.worker.backends import Backend
from claimq.worker.connection import Connections
from claimq.worker.errors import ItemNotSettled, Refused, SidecarUnavailable
from claimq.worker.in_hand import InHand
from claimq.worker.item import AnyItem, ClaimedItem, listed, tokens_of
from claimq.worker.loop import Loop
from claimq.worker.session import Session
from claimq.worker.steps import Steps
from claimq.worker.stopping import Stopping

_log = logging.getLogger("claimq.worker")
_LOST = "another worker has it or will, unless the sidecar was killed right after it had applied the verdict"


class Client(Generic[AnyItem]):
    """A connection to the sidecar. Any thread (or any task of one event loop) may call its methods.

    Claims are made under a session: the sidecar renews their leases while this process lives, and gives them
    back at once when it dies. ``patience``: seconds for which a verdict is tried in an outage.
    """

    def __init__(
        self,
        backend: Backend,
        item: type[AnyItem],
        socket: str | os.PathLike[str] | None,
        *,
        session: bool,
        patience: Duration,
    ) -> None:
        self.path = wire.socket_path(socket)
        self._backend = backend
        self._item = item
        self._block = "async with item" if hasattr(item, "__aenter__") else "with item"
        self._patience = seconds("patience", patience)
        self._connections = Connections(self.path, backend)
        self._in_hand: InHand[AnyItem] = InHand()
        self._stopping = Stopping()
        self._drain_seen = False
        self._pid = os.getpid()
        in_hand, wait = self._in_hand, self._patience
        note = in_hand.note_outcomes
        self._steps = Steps(self._connections, backend, wait, self._received, note, self._unclaim)
        self._session = Session(self.path, backend, in_hand.tokens, in_hand.note_lost) if session else None

    @property
    def draining(self) -> bool:
        """Whether the sidecar gives no more items: finish what is in progress and end."""
        return self._drain_seen or (self._session is not None and self._session.draining)

    @property
    def queue(self) -> str | None:
        """The queue of the sidecar, if the session knows its name."""
        return self._session.queue if self._session is not None else None

    @property
    def in_hand(self) -> list[AnyItem]:
        """Items that were claimed here and have no verdict yet."""
        return self._in_hand.items()

    def stop(self) -> None:
        """Ends :meth:`items` after the item in progress. Safe in a signal handler and in any thread."""
        self._stopping.stop()

    def is_over(self) -> bool:
        """Whether the worker was asked to stop, by the program or by the sidecar."""
        return self._stopping.is_asked or self.draining

    async def open(self, within: Duration) -> None:
        """Opens the session, or finds the socket. Raises SidecarUnavailable with the reason, and is closed then."""
        try:
            limit = seconds("within", within)
            if self._session is not None:
                self._session.start()
                await self._session.id(limit)
            else:
                await self._connections.probe(limit)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the session and all connections.

        What is in progress without a verdict goes back at once, counted as a crash.
        """
        if os.getpid() != self._pid:
            return
        if self._session is not None:
            await self._session.close()
        self._connections.close()

    async def leave(self, error: BaseException | None) -> None:
        """Gives back what is in progress, uncounted, and closes. After an exception, or ``sys.exit`` with a code other
        than 0 that nothing asked for, all that the app has received goes back with the session, as a crash.
        """
        counts = endings.counts_at_the_end(error, is_over=self.is_over())
        back = [one for one in self.in_hand if not (counts and one.is_begun)]
        await self._backend.shield(self._unclaim_and_close(back))

    async def _unclaim_and_close(self, items: Sequence[AnyItem]) -> None:
        try:
            await self._unclaim(items)
        finally:
            await self.close()

    async def info(self) -> dict[str, Any]:
        """What the sidecar reports of itself (``GET /v1/info``): ``queue``, ``concurrency``, ``ready`` and more."""
        self._check_process()
        return await self._connections.info(self._patience)

    # Claiming.
    async def claim(self, max: int = 1, *, wait: Duration | None = None) -> list[AnyItem]:  # noqa: A002 - as in the HTTP API
        """Up to ``max`` (1 to 1,000) items, waiting ``wait`` seconds (up to 300) for the first.

        By default it waits as long as the queue's policy says, at most 300 seconds too. Empty when there are none, and
        during a drain (see :attr:`draining`). Raises SidecarUnavailable, 30 s after the wait at the latest if the
        sidecar does not answer, StoreUnavailable, Refused. Cancelling it loses nothing.
        """
        limit = optional_seconds("wait", wait)
        return self._note_claim(await self._claim(max, limit), limit)

    async def _claim(self, most: int, wait: float | None, stopping: Stopping | None = None) -> list[AnyItem]:
        """``stopping``: of a loop, which waits for the sidecar for ``patience`` seconds."""
        session_in = wire.ANSWER_SECONDS if stopping is None else self._patience
        try_for = 5.0 if stopping is None else self._patience
        self._check_process()
        wait = await self._connections.default_wait(try_for) if wait is None else wait
        session: str | None = None
        for _ in range(3):
            if self._session is not None:
                session = await self._session.id(session_in, other_than=session, abandon=self.is_over)
            body = wire.claim_body(most, wait, session)
            try:
                reply, _ = await self._connections.call(
                    "/v1/claim",
                    body,
                    answer_in=wire.answer_in(wait),
                    try_for=try_for,
                    stopping=stopping,
                    abandon=self.is_over if stopping else lambda: False,
                    if_late=self._unclaim_late,
                )
            except Refused as refused:
                if session is None or refused.status != 409:
                    raise
            else:
                return self._received(reply)
        raise SidecarUnavailable(f"the sidecar on {self.path} closes every session; see its log")

    def _received(self, reply: dict[str, Any]) -> list[AnyItem]:
        """The items in a reply, which have no verdict yet."""
        self._drain_seen = self._drain_seen or bool(reply["draining"])
        items = [self._item(self, **values) for values in wire.read_claims(reply)]
        self._in_hand.add(items)
        return items

    async def _unclaim_late(self, reply: dict[str, Any]) -> None:
        """Gives back what a claim received whose caller was cancelled."""
        await self._unclaim(self._received(reply))

    async def _unclaim(self, items: Sequence[AnyItem]) -> None:
        await self._settle_quietly("unclaim", items, {})

    def _note_claim(self, items: list[AnyItem], wait: float | None) -> list[AnyItem]:
        """Notes who has claimed these; logs once what a claim that waited for nothing may have waited for."""
        me = self._backend.caller()
        for item in items:
            item.claimed_by = me
        if items or wait == 0:
            return items
        held = [one for one in self.in_hand if one.claimed_by == me and not one.in_block]
        if held:
            _log.warning("%s", endings.waits_for_itself(held, block=self._block))
            for item in held:
                item.claimed_by = None
        return items

    async def items(
        self,
        *,
        chunk: int = 1,
        wait: Duration = 5.0,
        handle_signals: bool = True,
        settle_elsewhere: bool = False,
    ) -> AsyncGenerator[AnyItem]:
        """Items, one by one; see :meth:`Worker.items`."""
        loop: Loop[AnyItem] = Loop(chunk)
        limit = seconds("wait", wait)
        with self._stopping.on_signals() if handle_signals else nullcontext():
            try:
                while not self.is_over():
                    if not loop.ahead:
                        claimed = await self._claim_through_outages(chunk, limit)
                        loop.add(claimed if settle_elsewhere else self._note_claim(claimed, limit))
                    while loop.ahead and not self.is_over():
                        item = loop.begin()
                        item.loop = None if settle_elsewhere else loop
                        yield item
                        loop.note_asked(time.monotonic())
                        if not settle_elsewhere and endings.is_forgotten(item):
                            await self._settle_quietly("fail", [item], wire.fail_fields(endings.NO_VERDICT))
                            raise ItemNotSettled(endings.message_if_forgotten(item, block=self._block))
            finally:
                loop.current = None
                await self._backend.shield(self._unclaim(loop.ahead))

    async def _claim_through_outages(self, chunk: int, wait: float) -> list[AnyItem]:
        try:
            return await self._claim(chunk, wait, self._stopping)
        except (StoreUnavailable, SidecarUnavailable) as error:
            if not self.is_over():
                if isinstance(error, SidecarUnavailable):
                    raise
                _log.warning("%s", error)
            return []

    # Verdicts.
    async def done(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """The work on these is finished: one or several items or tokens."""
        return await self.settle("done", items, {})

    async def fail(
        self,
        items: AnyItem | str | Iterable[AnyItem | str],
        error: object,
        *,
        permanent: bool = False,
        delay: Duration | None = None,
    ) -> list[Outcome]:
        """This attempt failed for all of these, for the same reason."""
        return await self.settle("fail", items, wire.fail_fields(error, permanent=permanent, delay=delay))

    async def requeue(
        self, items: AnyItem | str | Iterable[AnyItem | str], *, delay: Duration | None = None
    ) -> list[Outcome]:
        """Not now, for all of these."""
        return await self.settle("requeue", items, wire.delay_fields(delay))

    async def unclaim(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """The work on these never began: back to the head in the order of claiming, uncounted."""
        return await self.settle("unclaim", items, {})

    async def renew(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """Extends these leases; only needed without a session."""
        every = listed(items)
        outcomes = await self._verdict("renew", tokens_of(every), {})
        for item, outcome in zip(every, outcomes, strict=True):
            if isinstance(item, ClaimedItem) and outcome.lease_until is not None:
                item.lease_until = outcome.lease_until
        return outcomes

    async def settle(
        self, verb: str, items: AnyItem | str | Iterable[AnyItem | str], words: dict[str, object]
    ) -> list[Outcome]:
        """A verdict on these, tried for ``patience`` seconds; each item's ``outcome`` says what it did.

        Raises SidecarUnavailable, StoreUnavailable.
        """
        tokens = tokens_of(listed(items))
        with self._in_hand.ending(tokens):
            return self._in_hand.note_outcomes(await self._verdict(verb, tokens, words))

    async def _verdict(self, verb: str, tokens: list[str], words: dict[str, object]) -> list[Outcome]:
        self._check_process()
        outcomes: list[Outcome] = []
        for body in wire.verdict_bodies(tokens, words):
            reply, repeated = await self._connections.call(
                f"/v1/{verb}", body, answer_in=wire.ANSWER_SECONDS, try_for=self._patience
            )
            outcomes += wire.read_outcomes(reply, repeated=repeated)
        return outcomes

    async def _settle_quietly(self, verb: str, items: Sequence[AnyItem], words: dict[str, object]) -> None:
        """A verdict on those that have none. An error is logged: the items go back with the session then."""
        tokens = [item.token for item in items if item.outcome is None]
        try:
            if tokens:
                await self.settle(verb, tokens, words)
        except ClaimqError as error:
            _log.warning("%d items could not be given back now: %s", len(tokens), error)

    async def end_block(self, item: AnyItem, error: BaseException | None) -> bool:
        """The verdict at the end of an item's block, by the exception that leaves it; returns whether that is not
        raised further.
        """
        item.in_block = False
        if item.outcome is not None:
            return False
        if error is None:
            (outcome,) = await self._end("done", item, {})
            if outcome.is_lost:
                _log.warning("item %s was lost before it was done: %s", item.id, _LOST)
            return False
        if isinstance(error, asyncio.CancelledError) and not self._backend.is_cancelled():
            error = RuntimeError("something that the work waited for was cancelled (CancelledError)")
        if not isinstance(error, Exception):
            await self._backend.shield(self._end_interrupted(item, error))
            return False
        if isinstance(error, SidecarUnavailable):
            return False
        verb, words, cause = endings.verdict_on(error)
        if verb == "fail":
            _log.warning("item %s failed: %s", item.id, words["error"], exc_info=cause)
        await self._end(verb, item, words)
        return True

    async def _end(self, verb: str, item: AnyItem, words: dict[str, object]) -> list[Outcome]:
        """The verdict at the end of a block. In a quick loop the same request claims the next items."""
        loop: Loop[AnyItem] | None = item.loop
        if loop and loop.claims_after(item, self._backend.caller()) and not self.is_over():
            try:
                return await self._end_and_claim(verb, item, words, loop)
            except Refused as refused:  # the session has ended, or the sidecar is older than this client
                loop.is_served = refused.status != 404
        outcomes = await self.settle(verb, [item], words)
        if loop:
            loop.note_end(time.monotonic())
        return outcomes

    async def _end_and_claim(
        self, verb: str, item: AnyItem, words: dict[str, object], loop: Loop[AnyItem]
    ) -> list[Outcome]:
        self._check_process()
        session = self._session.present if self._session is not None else None
        if self._session is not None and session is None:  # a verdict waits for none
            return await self.settle(verb, [item], words)
        with self._in_hand.ending([item.token]):
            outcome, items = await self._steps.step(verb, item.token, words, loop.chunk, session)
        loop.add(self._note_claim(items, 0))
        loop.note_end(time.monotonic())
        return [outcome]

    async def _end_interrupted(self, item: AnyItem, error: BaseException) -> None:
        """A failure where the program ended itself with an error and had not been asked to stop, else uncounted."""
        why = None if self.is_over() else endings.exit_error(error)
        if why is None:
            await self._settle_quietly("unclaim", [item], {})
        else:
            _log.warning("item %s failed: %s", item.id, why)
            await self._settle_quietly("fail", [item], wire.fail_fields(why))

    async def enqueue(
        self,
        payload: object,
        **options: Unpack[ItemOptions],
    ) -> EnqueuedItem:
        """Adds one item (bytes, text, dict, list) to the sidecar's queue. ``options``: those of :class:`claimq.NewItem`
        without instants. Errors as :meth:`enqueue_many`, TypeError for an unknown option."""
        done = await self.enqueue_many([new_item(payload, options)])
        return EnqueuedItem(done.ids[0], done.length, is_duplicate=bool(done.duplicates))

    async def enqueue_many(self, items: Iterable[object]) -> Enqueued:
        """Adds payloads or :class:`NewItem` in order. Raises TypeError, ValueError, Refused (a payload too large, the
        store full), StoreUnavailable and SidecarUnavailable: after these two the items may be stored; enqueue again
        only those with ids of your own."""
        self._check_process()
        every = several("items", items)
        repeatable = all(isinstance(item, NewItem) and item.id is not None for item in every)
        replies, within, patience = list[dict[str, Any]](), wire.ANSWER_SECONDS, self._patience
        with Sending(self.queue, len(every)) as span:
            for body in wire.enqueue_bodies(span.carrying(every)):
                reply, _ = await self._connections.call(
                    "/v1/enqueue", body, answer_in=within, try_for=patience, repeatable=repeatable
                )
                replies.append(reply)
        return wire.read_enqueued(replies)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise SidecarUnavailable("it was connected before a fork; connect again in the child process")
