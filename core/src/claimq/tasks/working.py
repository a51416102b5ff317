"""Works on the items of a queue with a handler: through a sidecar, or with ``consume``."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import claimq
import claimq.worker
from claimq.address import variables
from claimq.concurrency.background_work import all_or_first_error
from claimq.concurrency.green_threads import refuse_green_threads
from claimq.consuming.handling import Caller, Handler, handler_caller
from claimq.consuming.observing import ConsumeObserver
from claimq.errors import ClaimqError, StoreMisused
from claimq.handler_verdicts import NotNow

if TYPE_CHECKING:
    from claimq.tasks.producer import Producer

_log = logging.getLogger("claimq.tasks")


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of :meth:`claimq.tasks.App.run`; see there."""

    concurrency: int | None
    die_on_error: bool
    return_when_empty: bool
    observer: ConsumeObserver | None
    retries: Mapping[str, int]
    """Of the tasks that have their own, by name."""


async def work(producer: Producer, handler: Handler, options: Options) -> None:
    """Works until there is a reason to end, and the handlers in progress have ended."""
    refuse_green_threads("an app that works on its tasks", "run it in a process without monkey patching")
    if os.environ.get(variables.SOCKET):
        await _work_through_sidecar(producer, handler, options)
        return
    async with claimq.connect(**producer.connect) as server:
        queue = server.queue(producer.queue)
        await _warn_of_retries(queue, options.retries)
        done = await queue.consume(
            handler,
            concurrency=options.concurrency or 1,
            die_on_error=options.die_on_error,
            return_when_empty=options.return_when_empty,
            observer=options.observer,
        )
    counts = f"{done.done} done, {done.failed} failed, {done.requeued} requeued, {done.lost} lost"
    counts += f", {done.postponed} postponed" if done.postponed else ""
    _log.info("%s: %s (%s)", producer.queue, counts, done.stopped_by)


async def _warn_of_retries(queue: claimq.ReliableQueue, retries: Mapping[str, int]) -> None:
    """Logs which tasks have more retries than the queue's requeue limit allows, if the policy can be read."""
    try:
        limit = (await queue.policy()).requeue_limit
    except ClaimqError as error:  # the run itself will say what is wrong with the server
        _log.debug("%s: the retries cannot be compared with the policy: %s", queue.name, error)
        return
    if beyond := [f"{name} ({count})" for name, count in sorted(retries.items()) if count > limit]:
        _log.warning(
            "%s: the queue's requeue_limit of %d ends the retries of %s; set it to at least %d",
            queue.name, limit, ", ".join(beyond), max(retries.values()),
        )  # fmt: skip


async def _work_through_sidecar(producer: Producer, handler: Handler, options: Options) -> None:
    if options.return_when_empty:
        raise ValueError(
            f"a sidecar does not report that its queue is empty; unset {variables.SOCKET}, or end without "
            "return_when_empty"
        )
    async with claimq.worker.connect_async() as worker:
        info = await worker.info()
        if info["queue"] != producer.queue:
            raise StoreMisused(
                f"the sidecar serves the queue {info['queue']}, and the app has the tasks of {producer.queue}; "
                "name the same queue in both"
            )
        producer.through_sidecar = True
        concurrency: int = options.concurrency or info["concurrency"] or 1
        threads = ThreadPoolExecutor(concurrency, thread_name_prefix="claimq-task")
        run = _Run(worker, handler_caller(handler, threads), die_on_error=options.die_on_error)
        try:
            await all_or_first_error([run.loop(number) for number in range(concurrency)])
        finally:
            producer.through_sidecar = False
            threads.shutdown(wait=False)
    if run.error is not None:
        raise run.error


class _Run:
    """The loops over the items of a sidecar."""

    def __init__(self, worker: claimq.worker.AsyncWorker, call: Caller, *, die_on_error: bool) -> None:
        self._worker = worker
        self._call = call
        self._die_on_error = die_on_error
        self.error: BaseException | None = None

    async def loop(self, number: int) -> None:
        """Handles one item after another. The first loop handles the signals for all."""
        async for item in self._worker.items(handle_signals=None if number == 0 else False):
            interrupted = False
            try:
                async with item:
                    error, interrupted = await self._call(item)
                    if error is not None:
                        self._note(error)
                        raise error
            except (SystemExit, KeyboardInterrupt) as exit_:
                self._end_with(exit_)
            if interrupted:
                raise asyncio.CancelledError

    def _note(self, error: BaseException) -> None:
        if self._die_on_error and isinstance(error, Exception) and not isinstance(error, NotNow):
            self._end_with(error)

    def _end_with(self, error: BaseException) -> None:
        self.error = self.error or error
        self._worker.stop()
