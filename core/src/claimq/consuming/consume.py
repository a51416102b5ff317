"""``consume``: a worker without a sidecar."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from claimq import arguments
from claimq.arguments import Duration, optional_seconds, seconds
from claimq.concurrency.background_work import all_or_first_error
from claimq.concurrency.green_threads import refuse_green_threads
from claimq.concurrency.stop_signals import ended_by_signals
from claimq.consuming.handling import Handler
from claimq.consuming.observing import ConsumeObserver, Reports
from claimq.consuming.options import Consumed, OnFailure, Options, QueueCalls
from claimq.consuming.run import ConsumeRun
from claimq.internals.operations import internals
from claimq.queue.claiming import Claiming
from claimq.queue.settling import Settling
from claimq.queue.token_groups import BATCH
from claimq.redis_store.presence import Presence

_POLL_STOP_SECONDS = 0.05


class Consuming(Claiming, Settling):
    """Runs a handler on claimed items."""

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        chunk: int | None = None,
        max_items: int | None = None,
        max_seconds: Duration | None = None,
        return_when_empty: bool = False,
        process_all: bool = False,
        pause: Duration = 0.0,
        die_on_error: bool = False,
        on_failure: OnFailure | str = OnFailure.REQUEUE,
        handle_signals: bool | None = None,
        stop: asyncio.Event | threading.Event | None = None,
        observer: ConsumeObserver | None = None,
    ) -> Consumed:
        """Claims items and calls ``handler(item)`` for each, in ``concurrency`` loops, until there is a reason to end.

        ``handler`` is a coroutine function, or a plain function, which runs in a thread. If it returns, the item is
        *done*. If it raises, the item *fails* with the exception's class and text, or goes where ``on_failure`` says:
        "requeue" (by the policy), "fail" (straight to failed), "drop". The exception is logged, and its last frames
        are kept with the item (``error_detail``). :class:`claimq.Fail`, ``Requeue`` and ``Later`` are verdicts that a
        handler may raise. With ``process_all`` the handler gets a list of ``chunk`` items in one call. ``pause``:
        seconds between chunks.

        ``chunk`` items are claimed at once, and the next ones when half of them are left. With a chunk of 1 nothing is
        claimed before a loop is free for it. Without ``chunk``, as many items are claimed at once as handlers have
        lately begun within 50 ms, from 1 to 100, or 1 with ``process_all`` or ``pause``; claims that have waited for a
        handler for more than 250 ms go back to the head, uncounted. Leases are renewed until the verdict is stored.
        Verdicts that become ready while a call is in flight share the next call, so a loop may begin with its next item
        before the verdict of the last one is stored. A coroutine must not block the event loop: no verdict is sent and
        no lease renewed while it does.

        Ends when ``max_items`` have been claimed and finished, after ``max_seconds``, at the first error
        (``die_on_error``, which then raises it), when ``stop`` is set, and on SIGINT or SIGTERM, which end all runs
        of the program: items whose handlers run are finished, and claims that were not begun go back to the head,
        uncounted. A second signal has its previous effect. A signal for which the program has a handler, or the server
        that it runs in (uvicorn, gunicorn), is left to it unless ``handle_signals`` is True; False leaves both. With
        ``return_when_empty`` also when main is empty and no handler runs (``stopped_by`` is "empty"; delayed items are
        left, also retries that wait; what limits hold back is waited for), or when the queue is paused ("paused": items
        may be left). A cancellation interrupts coroutines, waits for plain functions, and gives claims back the same
        way.

        ``observer`` is called with claims and verdicts, for example a :class:`claimq.metrics.ConsumerMetrics`.

        Outages of the server are waited out; a lease that ran out in between counts in ``lost``. After a stop or a
        cancellation the leases decide once the server has not answered for ``verdict_retry_for`` (by default
        ``retry_for``) plus ``reply_timeout``. Raises StoreMisused, and StoreUnavailable if the server object is closed.
        If the process is killed, its items can be claimed again within six seconds, or when their leases end
        (docs/operations.md#working).
        """
        refuse_green_threads("consume()", "consume in a process without monkey patching")
        arguments.count("concurrency", concurrency, least=1)
        arguments.optional_count("chunk", chunk, least=1)
        arguments.optional_count("max_items", max_items)
        if not callable(handler):
            raise TypeError(f"handler is {handler!r}; give a function or a coroutine function")
        if stop is not None:
            arguments.of_type(
                "stop", stop, (asyncio.Event, threading.Event), "an asyncio.Event or a threading.Event"
            )
        reports = Reports(observer, self.name)
        limit, between = optional_seconds("max_seconds", max_seconds), seconds("pause", pause)
        options = Options(
            handler, chunk and min(chunk, BATCH), max_items, return_when_empty, process_all, between, die_on_error,
            arguments.choice("on_failure", on_failure, OnFailure),
        )  # fmt: skip
        threads = ThreadPoolExecutor(concurrency, thread_name_prefix="claimq-handler")
        run = ConsumeRun(self, self._calls(), options, threads, reports)
        async with self._presence(concurrency):
            await _run_loops(run, concurrency, limit, stop, handle_signals)
        if run.error is not None:
            raise run.error
        return run.result()

    def _calls(self) -> QueueCalls:
        connection = self._connection
        return QueueCalls(
            self._claim,
            internals(self).lost_claims_recovered,
            connection.in_background,
            connection.settings.seconds_for("verdicts") + connection.settings.reply_timeout,
        )

    @asynccontextmanager
    async def _presence(self, slots: int) -> AsyncGenerator[None]:
        """Lets claims name the slots of all runs of this process, and the server see its end. The latter not over a
        client of the caller, whose connections are not ours to keep."""
        connection, main = self._connection, self._keys.main
        worker = main, self.worker
        connection.slots[worker] = connection.slots.get(worker, 0) + slots
        presence = None
        if connection.clients.shared is None:
            presence = Presence(connection.settings, main, connection.lanes.instance, self.worker)
            presence.begin()
        try:
            yield
        finally:
            connection.slots[worker] -= slots
            if presence is not None:
                await presence.end()


async def _run_loops(
    run: ConsumeRun,
    concurrency: int,
    max_seconds: float | None,
    stop: asyncio.Event | threading.Event | None,
    handle_signals: bool | None,
) -> None:
    loop = asyncio.get_running_loop()
    timer = None if max_seconds is None else loop.call_later(max_seconds, run.end, "max_seconds")
    beside = [asyncio.ensure_future(run.claims.renewer.run())]
    if stop is not None:
        beside.append(asyncio.ensure_future(_end_with(stop, run)))
    try:
        with ended_by_signals(lambda name: loop.call_soon_threadsafe(run.end, name), handle_signals):
            try:
                await all_or_first_error([run.ahead.fetch(), *(run.loop() for _ in range(concurrency))])
                await run.claims.settler.settled()
            finally:
                await asyncio.shield(run.finish())
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        if timer is not None:
            timer.cancel()
        run.threads.shutdown(wait=False)


async def _end_with(stop: asyncio.Event | threading.Event, run: ConsumeRun) -> None:
    if isinstance(stop, asyncio.Event):
        await stop.wait()
    else:  # an event of another thread: waiting for it would block this one
        while not stop.is_set():  # noqa: ASYNC110 - the event is not of this loop, which therefore cannot wait for it
            await asyncio.sleep(_POLL_STOP_SECONDS)
    run.end("stop")
