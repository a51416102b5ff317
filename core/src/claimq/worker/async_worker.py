"""The client for event loops: ``claimq.worker.connect_async()``. The names are those of
:class:`claimq.worker.Worker`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

from claimq.worker.async_connection import AsyncConnections
from claimq.worker.async_item import AsyncItem
from claimq.worker.async_session import AsyncSession
from claimq.worker.endings import (
    NO_VERDICT,
    counts_at_the_end,
    exit_error,
    forgotten_message,
    is_forgotten,
    waits_for_itself,
)
from claimq.worker.errors import ItemNotSettled, Refused, SidecarUnavailable, StoreUnavailable, WorkerError
from claimq.worker.values import Enqueued, NewItem, Outcome
from claimq.worker.wire import (
    claim_body,
    enqueue_bodies,
    fail_words,
    read_enqueued,
    read_items,
    read_outcomes,
    socket_path,
    verdict_bodies,
)
from claimq.worker.worker import ANSWER_SECONDS

_log = logging.getLogger("claimq.worker")


class AsyncWorker:
    """A connection to the sidecar for one event loop; see :class:`claimq.worker.Worker`."""

    def __init__(
        self, socket: str | os.PathLike[str] | None, *, session: bool, within: float, patience: float
    ) -> None:
        self.path = socket_path(socket)
        self._wants_session = session
        self._within = within
        self._patience = patience
        self._connections = AsyncConnections(self.path)
        self._session: AsyncSession | None = None
        self._in_hand: dict[str, AsyncItem] = {}
        self._over = asyncio.Event()

    @property
    def draining(self) -> bool:
        """Whether the sidecar hands out no more: finish what is in hand and end."""
        return self._session is not None and self._session.draining.is_set()

    @property
    def in_hand(self) -> list[AsyncItem]:
        """Items that were claimed here and have no verdict yet."""
        return list(self._in_hand.values())

    async def __aenter__(self) -> Self:
        try:
            if self._wants_session:
                self._session = AsyncSession(self.path, lambda: list(self._in_hand), self._note_lost)
                await self._session.id(self._within)
            else:
                await self._connections.probe(self._within)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives back what is in hand; see :meth:`claimq.worker.Worker.__exit__`."""
        counts = counts_at_the_end(error, is_over=self._is_over())
        back = [one for one in self.in_hand if not (counts and one.is_begun)]
        await asyncio.shield(self.settle_quietly("unclaim", back, {}))
        await self.close()

    async def close(self) -> None:
        """Ends the session and all connections. What is in hand without a verdict goes back, counted as a
        crash.
        """
        if self._session is not None:
            await self._session.close()
        self._connections.close()

    # Claiming.
    async def claim(self, max: int = 1, *, wait: float | None = None) -> list[AsyncItem]:  # noqa: A002 - as in the HTTP API
        """Up to ``max`` items, waiting ``wait`` seconds for the first; see :meth:`claimq.worker.Worker.claim`.

        Cancelling it loses nothing: the sidecar gives back what nobody reads.
        """
        return self._note_claim(await self._claim(max, wait, try_for=5.0), wait)

    async def _claim(self, most: int, wait: float | None, *, try_for: float) -> list[AsyncItem]:
        answer_in = ANSWER_SECONDS + (wait or 0.0)
        session = None if self._session is None else await self._session.id(ANSWER_SECONDS)
        for _ in range(3):
            try:
                reply, _ = await self._connections.call(
                    "/v1/claim", claim_body(most, wait, session), answer_in=answer_in, try_for=try_for
                )
                break
            except Refused as refused:
                if self._session is None or refused.status != 409:
                    raise
                session = await self._session.id(ANSWER_SECONDS, other_than=session)
        else:
            raise SidecarUnavailable(f"the sidecar on {self.path} closes every session; see its log")
        if reply["draining"]:
            self._over.set()
        items = read_items(reply, lambda **values: AsyncItem(self, **values))
        self._in_hand.update((item.token, item) for item in items)
        return items

    def _note_claim(self, items: list[AsyncItem], wait: float | None) -> list[AsyncItem]:
        """Notes who has claimed these; logs once what a claim that waited for nothing may have waited for."""
        me = asyncio.current_task()
        for item in items:
            item.claimed_by = me
        held = [one for one in self.in_hand if one.claimed_by is me and not one.in_block]
        if held and not items and wait != 0:
            _log.warning("%s", waits_for_itself(held, block="async with item"))
            for item in held:
                item.claimed_by = None
        return items

    async def items(
        self,
        *,
        chunk: int = 1,
        wait: float = 5.0,
        handle_signals: bool = True,
        settle_elsewhere: bool = False,
    ) -> AsyncIterator[AsyncItem]:
        """Items, one by one, until a drain or a signal; see :meth:`claimq.worker.Worker.items`.

        async for item in worker.items():
            async with item:
                await work(item.json())
        """
        taken = self._take_signals() if handle_signals else []
        chunk_left: list[AsyncItem] = []
        try:
            while not self._is_over():
                chunk_left = await self._unless_over(self._claim(chunk, wait, try_for=self._patience))
                if not settle_elsewhere:
                    self._note_claim(chunk_left, wait)
                for item in chunk_left:
                    item.is_begun = False
                while chunk_left and not self._is_over():
                    item = chunk_left.pop(0)
                    item.is_begun = True
                    yield item
                    if not settle_elsewhere and is_forgotten(item):
                        await self.settle_quietly("fail", [item], fail_words(NO_VERDICT, permanent=False))
                        raise ItemNotSettled(forgotten_message(item, block="async with item"))
        finally:
            for number in taken:
                asyncio.get_running_loop().remove_signal_handler(number)
            await asyncio.shield(self.settle_quietly("unclaim", chunk_left, {}))

    def stop(self) -> None:
        """Ends :meth:`items` after the item in hand."""
        self._over.set()

    def _is_over(self) -> bool:
        return self._over.is_set() or self.draining

    async def _unless_over(self, claiming: Coroutine[Any, Any, list[AsyncItem]]) -> list[AsyncItem]:
        """The claimed items; a stop or a drain ends the wait for them, an outage of the store just takes
        time.
        """
        running = asyncio.ensure_future(claiming)
        watching = [asyncio.ensure_future(self._over.wait())]
        if self._session is not None:
            watching.append(asyncio.ensure_future(self._session.draining.wait()))
        try:
            await asyncio.wait({running, *watching}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
            return await running
        except asyncio.CancelledError:
            running.cancel()
            if self._is_over():
                return []
            raise
        except StoreUnavailable as error:
            _log.warning("%s", error)
            return []
        except SidecarUnavailable:
            if self._is_over():
                return []
            raise
        finally:
            for watch in watching:
                watch.cancel()

    def _take_signals(self) -> list[signal.Signals]:
        loop = asyncio.get_running_loop()
        taken: list[signal.Signals] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.stop)
                taken.append(number)
            except (NotImplementedError, RuntimeError, ValueError):  # not the main thread: its owner decides
                break
        return taken

    # Verdicts.
    async def done(self, items: Iterable[AsyncItem | str]) -> list[Outcome]:
        """The work on all of these is finished. Items or tokens."""
        return await self.settle("done", items, {})

    async def fail(
        self, items: Iterable[AsyncItem | str], error: object, *, permanent: bool = False
    ) -> list[Outcome]:
        """This attempt failed for all of these, for the same reason."""
        return await self.settle("fail", items, fail_words(error, permanent=permanent))

    async def requeue(self, items: Iterable[AsyncItem | str], *, delay: float | None = None) -> list[Outcome]:
        """Not now, for all of these."""
        return await self.settle("requeue", items, {"delay": delay})

    async def unclaim(self, items: Iterable[AsyncItem | str]) -> list[Outcome]:
        """The work on these never began: back to the head in the order of claiming, uncounted."""
        return await self.settle("unclaim", items, {})

    async def renew(self, items: Iterable[AsyncItem | str]) -> list[Outcome]:
        """Moves the ends of these leases; only needed without a session."""
        listed = list(items)
        outcomes = await self._verdict("renew", [_token(item) for item in listed], {})
        for item, outcome in zip(listed, outcomes, strict=True):
            if isinstance(item, AsyncItem) and outcome.lease_until is not None:
                item.lease_until = outcome.lease_until
        return outcomes

    async def settle(
        self, verb: str, items: Iterable[AsyncItem | str], words: dict[str, object]
    ) -> list[Outcome]:
        """A verdict on these, tried for ``patience`` seconds; each item's ``outcome`` says what it did."""
        outcomes = await self._verdict(verb, [_token(item) for item in items], words)
        for outcome in outcomes:
            item = self._in_hand.pop(outcome.token, None)
            if item is not None:
                item.outcome = outcome
        return outcomes

    async def _verdict(self, verb: str, tokens: list[str], words: dict[str, object]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for body in verdict_bodies(tokens, words):
            reply, repeated = await self._connections.call(
                f"/v1/{verb}", body, answer_in=ANSWER_SECONDS, try_for=self._patience
            )
            outcomes += read_outcomes(reply, repeated=repeated)
        return outcomes

    async def settle_quietly(self, verb: str, items: Iterable[AsyncItem], words: dict[str, object]) -> None:
        """A verdict on those that have none; what it cannot be given for now goes back with the session."""
        tokens = [item.token for item in items if item.outcome is None]
        try:
            if tokens:
                await self.settle(verb, tokens, words)
        except WorkerError as error:
            _log.warning("%d items could not be given back now: %s", len(tokens), error)

    async def end_interrupted(self, item: AsyncItem, error: BaseException) -> None:
        """Its block was left by something that is no Exception; see :meth:`claimq.worker.Worker.end_interrupted`."""
        why = None if self._is_over() else exit_error(error)
        if why is None:
            await self.settle_quietly("unclaim", [item], {})
        else:
            _log.warning("item %s failed: %s", item.id, why)
            await self.settle_quietly("fail", [item], fail_words(why, permanent=False))

    async def enqueue(self, items: Iterable[object]) -> Enqueued:
        """Adds payloads or :class:`NewItem` in order; see :meth:`claimq.worker.Worker.enqueue`."""
        listed = list(items)
        repeatable = all(isinstance(item, NewItem) and item.id is not None for item in listed)
        replies: list[dict[str, Any]] = []
        for body in enqueue_bodies(listed):
            reply, _ = await self._connections.call(
                "/v1/enqueue", body, answer_in=ANSWER_SECONDS, try_for=self._patience, repeatable=repeatable
            )
            replies.append(reply)
        return read_enqueued(replies)

    def _note_lost(self, tokens: Iterable[str]) -> None:
        """The sidecar came back and these were not held any more."""
        for token in tokens:
            item = self._in_hand.pop(token, None)
            if item is not None:
                item.outcome = Outcome(token, "lost")
                _log.warning(
                    "item %s was lost while the sidecar was away; somebody else has it or will", item.id
                )


def _token(item: AsyncItem | str) -> str:
    return item if isinstance(item, str) else item.token


def connect_async(
    socket: str | os.PathLike[str] | None = None,
    *,
    session: bool = True,
    within: float = 10.0,
    patience: float = 120.0,
) -> AsyncWorker:
    """The sidecar as an async context manager; see :func:`claimq.worker.connect`."""
    return AsyncWorker(socket, session=session, within=within, patience=patience)
