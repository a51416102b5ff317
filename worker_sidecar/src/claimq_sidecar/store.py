"""The queue on its Redis server: watches the connection, and replaces it when the server does not respond."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from claimq.consuming.engine.server_clock import ServerClock
from claimq.errors import ClaimqError, ScriptsRefused, StoreUnavailable
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq.metrics import kind_of
from claimq.policy import Policy
from claimq.reliable_queue import ReliableQueue
from claimq.server import Server, connect
from claimq_process.log_lines import LogEvent
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource

CALL_SECONDS = 5.0
"""How long a claim, a renewal or an enqueue is retried in an outage before the app gets an error."""
VERDICT_SECONDS = 180.0
"""How long a verdict is retried. The app gets an error sooner, and a repeated request joins this attempt.

Longer than the patience of ``claimq.worker``: the server recognizes a repeated attempt. A new attempt could be answered
*lost*, because a frozen server may still read and apply the earlier one."""
_PING_SECONDS = 2.0
_POLICY_SECONDS = 10.0
_STALE_SECONDS = 15.0
_SHORTEST_LEASE_SECONDS = 1.0
_SETTLE_SECONDS = 5.0
"""Longer than the longest pause between two attempts: a working connection has settled its claims by then."""
T = TypeVar("T")

_log = logging.getLogger("claimq_sidecar.store")


class Store:
    """One queue on one server.

    One connection serves all calls. Verdicts are retried for longer than the rest. The library keeps separate sockets
    for claims that wait, for verdicts and for renewals, so none of them delays another.
    """

    def __init__(
        self,
        source: RedisSource,
        queue: str,
        worker: str,
        metrics: Metrics,
        largest_item: int | None = None,
        slots: int | None = None,
    ) -> None:
        """``largest_item``: bytes; larger items move to failed. ``slots``: on how many items the app works at once."""
        self._source = source
        self._largest_item = largest_item
        self._queue = queue
        self._worker = worker
        self._metrics = metrics
        self._server = self._connect()
        self._slots = slots
        self.queue = self._queue_of(self._server)
        """The queue over the present connection."""
        self._closing: set[asyncio.Task[None]] = set()
        self._responded_at: float | None = None
        self._last_error = ""
        self._refuses_scripts = False
        self._responding_since: float | None = None
        self.clock = ServerClock()
        self.generation = 0
        """How often the connection was replaced."""
        self.busy_expiry: float | None = None
        """The lease length in seconds when last read; None before the first response."""
        self.claim_wait: float | None = Policy().claim_wait_timeout
        """How long a claim waits by default, in seconds, when last read. None: without limit."""
        self.max_payload: int | None = None
        """The queue's largest allowed payload in bytes when last read; None before the first response."""
        self._durable_done = False
        self.ready = asyncio.Event()

    def _connect(self) -> Server:
        return connect(
            settings=self._source.settings(
                retry_for=CALL_SECONDS, verdict_retry_for=VERDICT_SECONDS, largest_item=self._largest_item
            )
        )

    def _queue_of(self, server: Server) -> ReliableQueue:
        queue = server.queue(self._queue, worker=self._worker)
        if self._slots is not None:
            internals(queue).name_slots(self._slots)
        return queue

    @property
    def durable_done(self) -> bool:
        """Whether a verdict waits until the server's copies have it. By the policy when last read, or by the last call
        that also claimed.
        """
        return self._durable_done or next_claims(self.queue).waits_for_copies

    @property
    def has_rate(self) -> bool:
        """Whether a limit of the queue was a rate at the last claim."""
        return next_claims(self.queue).has_rate

    def lease(self, lease_until: float | None, requested_at: float) -> float | None:
        """As :meth:`ServerClock.lease`: at most as long as that of the policy, and at least a second or, if that is
        shorter, the policy's."""
        longest = math.inf if self.busy_expiry is None else self.busy_expiry
        shortest = min(_SHORTEST_LEASE_SECONDS, longest)
        return self.clock.lease(lease_until, requested_at, shortest=shortest, longest=longest)

    @property
    def last_error(self) -> str:
        """The error of the last call; empty if it succeeded."""
        return self._last_error

    def age(self, now: float) -> float | None:
        """Seconds since the last successful call; None before the first."""
        return None if self._responded_at is None else now - self._responded_at

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        """Makes a call on the queue and records its result. Raises what the library raises."""
        server = self._server
        try:
            reply = await what(self.queue)
        except ClaimqError as error:
            self._note_error(error)
            if server is self._server and isinstance(error, StoreUnavailable):
                self._responding_since = None
            raise
        self._note_success()
        if server is self._server and self._responding_since is None:
            self._responding_since = self._responded_at
        return reply

    def has_replaced(self, generation: int) -> bool:
        """Whether a newer connection than this one has worked for a while: the older one will settle no claims."""
        since = self._responding_since
        if generation == self.generation or since is None:
            return False
        return asyncio.get_running_loop().time() - since >= _SETTLE_SECONDS

    def _note_success(self) -> None:
        self._responded_at = asyncio.get_running_loop().time()
        if self._refuses_scripts:  # a call that only reads may succeed all the same
            return
        if not self.ready.is_set():
            self.ready.set()
            _log.info(LogEvent("ready"))
        elif self._last_error:
            _log.info(LogEvent("store_recovered"))
        self._last_error = ""

    def _note_error(self, error: ClaimqError) -> None:
        kind = kind_of(error)
        self._metrics.store_errors.labels(kind).inc()
        if kind != "refused" and not self._last_error:
            event = "store_misused" if kind == "misused" else "store_unavailable"
            if not self._refuses_scripts:
                _log.warning(LogEvent(event, error=error))
            self._last_error = str(error)

    async def watch(self) -> None:
        """Checks the server when no other call has, and replaces the connection when the server is silent for long.

        The intervals are fixed: within a check, the library retries with backoff.
        """
        loop = asyncio.get_running_loop()
        checked = replaced = loop.time()
        while True:
            now, age = loop.time(), self.age(loop.time())
            if age is None or age >= _PING_SECONDS or now - checked >= _POLICY_SECONDS:
                await self.check()
                checked = now = loop.time()
            if self._last_error and now - max(replaced, self._responded_at or 0.0) >= _STALE_SECONDS:
                self._replace()
                replaced = now
            await asyncio.sleep(0.25 if age is None else _PING_SECONDS / 2)

    async def check(self) -> None:
        """Opens connections and reads the policy. A check that takes longer than 15 s counts as failed."""
        try:
            async with asyncio.timeout(_STALE_SECONDS):
                await self._open_connections()
                policy = await self.call(lambda queue: queue.policy())
        except ClaimqError:
            return
        except TimeoutError:
            self._note_error(StoreUnavailable(f"the server has not responded for {_STALE_SECONDS:g} s"))
            return
        except ValueError as error:
            # A config field that no release writes. The scripts ignore it, so the server works.
            _log.warning(LogEvent("bad_policy", error=error))
            self._note_success()
            return
        self.busy_expiry = policy.busy_expiry
        self.claim_wait = policy.claim_wait_timeout
        self.max_payload = policy.max_payload
        self._durable_done = policy.durable_done

    async def _open_connections(self) -> None:
        """Opens the sockets for calls, verdicts and renewals before they are needed: a lease can then be renewed even
        if the server's name no longer resolves. The call tries whether the server can run the scripts."""
        try:
            await internals(self.queue).try_scripts()
            await self._server.ping(verdicts=True)
        except ScriptsRefused as error:
            if not self._refuses_scripts:
                _log.error(LogEvent("scripts_refused", error=error))
            self._set_refuses_scripts(True)
            self._last_error = ""
            self._note_error(error)
            raise
        except ClaimqError as error:
            self._note_error(error)
            raise
        self._set_refuses_scripts(False)

    def _set_refuses_scripts(self, refuses: bool) -> None:
        self._refuses_scripts = refuses
        self._metrics.scripts_refused.set(refuses)

    def _replace(self) -> None:
        """Connects again with the secrets that the files contain now. The old connection is closed after its calls."""
        try:
            new = self._connect()
        except (OSError, ValueError) as error:
            _log.warning(LogEvent("reconnect_failed", error=error))
            return
        old, self._server = self._server, new
        self.queue = self._queue_of(new)
        self.generation += 1
        self._responding_since = None
        self._metrics.reconnects.inc()
        _log.info(LogEvent("reconnecting"))
        closing = asyncio.ensure_future(_close_later(old))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Closes all connections."""
        for closing in list(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await _close(self._server)


async def _close_later(server: Server) -> None:
    try:
        await asyncio.sleep(VERDICT_SECONDS + CALL_SECONDS)
    finally:
        await _close(server)


async def _close(server: Server) -> None:
    try:
        await server.close()
    except ClaimqError:  # the server is gone, and its connections with it
        return
