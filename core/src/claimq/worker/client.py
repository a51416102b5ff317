"""The client of the sidecar, written once: coroutines over a backend, for :class:`AsyncWorker` and :class:`Worker`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Generic, Unpack

from claimq.arguments import Duration, optional_seconds, seconds, several
from claimq.errors import QueueFull
from claimq.item_options import ItemOptions, new_item
from claimq.model import Enqueued, EnqueuedItem, NewItem, Outcome
from claimq.tracing import Sending
from claimq.worker import wire
from claimq.worker.backends import Backend
from claimq.worker.calls import Calls
from claimq.worker.item import AnyItem
from claimq.worker.loops import endings
from claimq.worker.loops.worker_loops import Loops
from claimq.worker.session import Session


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
        self._calls = calls = Calls(backend, item, self.path, seconds("patience", patience))
        block = "async with item" if hasattr(item, "__aenter__") else "with item"
        self._loops = loops = Loops(calls, block)
        calls.end_block = loops.end_block
        if session:
            in_flight = calls.in_flight
            calls.session = Session(
                self.path,
                backend,
                in_flight.tokens,
                in_flight.note_lost,
                loops.session_opened,
                loops.session_ended,
            )

    @property
    def draining(self) -> bool:
        """Whether the sidecar gives no more items: finish what is in progress and end."""
        return self._calls.draining

    @property
    def in_flight(self) -> list[AnyItem]:
        """Items that were claimed here and have no verdict yet."""
        return self._calls.in_flight.items()

    def stop(self) -> None:
        """Ends :meth:`items` after the item in progress. Safe in a signal handler and in any thread."""
        self._calls.stopping.stop()

    async def open(self, within: Duration) -> None:
        """Opens the session, or finds the socket. Raises SidecarUnavailable with the reason, and is closed then."""
        try:
            limit = seconds("within", within)
            if self._calls.session is not None:
                self._calls.session.start()
                await self._calls.session.id(limit)
            else:
                await self._calls.connections.probe(limit)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the session and all connections.

        What is in progress without a verdict goes back at once, counted as a crash.
        """
        if not self._calls.is_of_this_process:
            return
        await self._loops.close()
        if self._calls.session is not None:
            await self._calls.session.close()
        self._calls.connections.close()

    async def leave(self, error: BaseException | None) -> None:
        """Gives back what is in progress, uncounted, and closes. After an exception, or ``sys.exit`` with a code other
        than 0 that nothing asked for, all that the app has received goes back with the session, as a crash.
        """
        await self._calls.backend.shield(self._give_back_and_close(error))

    async def _give_back_and_close(self, error: BaseException | None) -> None:
        counts = endings.counts_at_the_end(error, is_over=self._calls.is_over())
        try:
            await self._loops.flush()
            back = [one for one in self.in_flight if not (counts and one.is_begun)]
            await self._calls.settle_quietly("unclaim", back, {})
        finally:
            await self.close()

    async def info(self) -> dict[str, Any]:
        """What the sidecar reports of itself (``GET /v1/info``): ``queue``, ``concurrency``, ``ready`` and more."""
        self._calls.check_process()
        return await self._calls.connections.info(self._calls.patience)

    async def claim(self, max: int = 1, *, wait: Duration | None = None) -> list[AnyItem]:  # noqa: A002 - as in the HTTP API
        """Up to ``max`` (1 to 1,000) items, waiting ``wait`` seconds (up to 300) for the first.

        By default it waits as long as the queue's policy says, at most 300 seconds too. Empty when there are none, and
        during a drain (see :attr:`draining`). Raises SidecarUnavailable, 30 s after the wait at the latest if the
        sidecar does not answer, StoreUnavailable, Refused. Cancelling it loses nothing.
        """
        limit = optional_seconds("wait", wait)
        return self._loops.note_claim(await self._calls.claim(max, limit), limit)

    def items(
        self,
        *,
        chunk: int = 1,
        wait: Duration = 5.0,
        handle_signals: bool | None = None,
        settle_elsewhere: bool = False,
    ) -> AsyncGenerator[AnyItem]:
        """Items, one by one; see :meth:`Worker.items`."""
        return self._loops.items(
            chunk=chunk, wait=wait, handle_signals=handle_signals, settle_elsewhere=settle_elsewhere
        )

    async def done(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """The work on these is finished: one or several items or tokens."""
        return await self._calls.settle("done", items, {})

    async def fail(
        self,
        items: AnyItem | str | Iterable[AnyItem | str],
        error: object,
        *,
        permanent: bool = False,
        delay: Duration | None = None,
    ) -> list[Outcome]:
        """This attempt failed for all of these, for the same reason."""
        return await self._calls.settle(
            "fail", items, wire.fail_fields(error, permanent=permanent, delay=delay)
        )

    async def requeue(
        self, items: AnyItem | str | Iterable[AnyItem | str], *, delay: Duration | None = None
    ) -> list[Outcome]:
        """Not now, for all of these."""
        return await self._calls.settle("requeue", items, wire.delay_fields(delay))

    async def unclaim(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """The work on these never began: back to the head in the order of claiming, uncounted."""
        return await self._calls.settle("unclaim", items, {})

    async def renew(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """Extends these leases; only needed without a session."""
        return await self._calls.renew(items)

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
        """Adds payloads or :class:`NewItem` in order. Raises TypeError, ValueError, QueueFull, Refused (a payload too
        large, the store full), StoreUnavailable and SidecarUnavailable: after these two the items may be stored;
        enqueue again only those with ids of your own."""
        self._calls.check_process()
        every = several("items", items)
        repeatable = all(isinstance(item, NewItem) and item.id is not None for item in every)
        replies, within, patience = list[dict[str, Any]](), wire.ANSWER_SECONDS, self._calls.patience
        with Sending(self._calls.queue, len(every)) as span:
            for body in wire.enqueue_bodies(span.carrying(every)):
                try:
                    reply, _ = await self._calls.connections.call(
                        "/v1/enqueue", body, answer_in=within, try_for=patience, repeatable=repeatable
                    )
                except QueueFull as error:
                    error.stored_count += sum(len(earlier["ids"]) for earlier in replies)
                    raise
                replies.append(reply)
        return wire.read_enqueued(replies)
