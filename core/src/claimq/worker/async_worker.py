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
from claimq.worker.async_session import AsyncSession
from claimq.worker.errors import Refused, SidecarUnavailable, StoreUnavailable, WorkerError
from claimq.worker.values import Enqueued, ItemValues, NewItem, Outcome
from claimq.worker.wire import (
    claim_body,
    done_words,
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


class AsyncItem(ItemValues):
    """An item in the app's hands; see :class:`claimq.worker.Item`. Use it with ``async with``.

    Cancelling the task inside gives the item back uncounted.
    """

    __slots__ = ("_worker",)

    def __init__(self, worker: AsyncWorker, **values: Any) -> None:
        super().__init__(**values)
        self._worker = worker

    async def done(self, *, enqueue: Iterable[object] = ()) -> Outcome:
        """The work is finished; ``enqueue`` adds what follows from it in the same atomic step."""
        return (await self._worker.settle("done", [self], done_words(enqueue)))[0]

    async def fail(self, error: object, *, permanent: bool = False) -> Outcome:
        """This attempt failed: requeued by the queue's policy, or failed."""
        return (await self._worker.settle("fail", [self], fail_words(error, permanent=permanent)))[0]

    async def requeue(self, *, delay: float | None = None) -> Outcome:
        """Not now: to the tail, or after ``delay`` seconds. Counts against the limit."""
        return (await self._worker.settle("requeue", [self], {"delay": delay}))[0]

    async def unclaim(self) -> Outcome:
        """The work never began: back to the head, uncounted."""
        return (await self._worker.settle("unclaim", [self], {}))[0]

    async def renew(self) -> Outcome:
        """Moves the end of the lease; only needed without a session."""
        return (await self._worker.renew([self]))[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self.outcome is not None:
            return False
        if error is None:
            if (await self.done()).is_lost:
                _log.warning("item %s was lost before it was done; somebody else has it or will", self.id)
            return False
        if not isinstance(error, Exception):
            await asyncio.shield(self._worker.unclaim_quietly([self]))
            return False
        if isinstance(error, WorkerError):
            return False
        _log.warning("item %s failed", self.id, exc_info=error)
        await self.fail(error)
        return True


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
        """Gives back what is in hand, uncounted; after an exception the session's end does, as a crash."""
        if error is None or not isinstance(error, Exception):
            await asyncio.shield(self.unclaim_quietly(self.in_hand))
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
        return await self._claim(max, wait, try_for=5.0)

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

    async def items(
        self, *, chunk: int = 1, wait: float = 5.0, handle_signals: bool = True
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
                while chunk_left and not self._is_over():
                    yield chunk_left.pop(0)
        finally:
            for number in taken:
                asyncio.get_running_loop().remove_signal_handler(number)
            await asyncio.shield(self.unclaim_quietly(chunk_left))

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

    async def unclaim_quietly(self, items: Iterable[AsyncItem]) -> None:
        """Gives back what was not begun; what cannot be given back goes back with the session."""
        tokens = [item.token for item in items if item.outcome is None]
        try:
            if tokens:
                await self.settle("unclaim", tokens, {})
        except WorkerError as error:
            _log.warning("%d items could not be given back now: %s", len(tokens), error)

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
