"""The queue behind the sidecar: connections that can be made anew, and how long ago the store last answered well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from claimq.errors import ClaimqError, StoreMisused, StoreUnavailable
from claimq.policy import Policy
from claimq.queue.reliable_queue import ReliableQueue
from claimq.server import Server, connect
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_spec.log_lines import LogEvent

CALL_SECONDS = 5.0
"""How long a claim, a renewal or an enqueue is tried through an outage before the app is told."""
VERDICT_SECONDS = 180.0
"""How long a verdict is tried; the app is told sooner and may ask again, which joins this attempt. It is longer than
the patience of ``claimq.worker``: the server knows an attempt when it comes again, but what a frozen server still had
unread of an earlier one ends the claim, and the next one's answer is *lost*."""
_PING_EVERY = 2.0
_POLICY_EVERY = 10.0
_STALE = 15.0
_TELLING_SECONDS = 5.0
"""More than the longest pause between two attempts: a connection that can has told by then what became of a claim."""
T = TypeVar("T")

_log = logging.getLogger("claimq_sidecar.store")


@dataclass(frozen=True, slots=True)
class _Connections:
    """Two sets of connections: verdicts may be tried for long, and never in the way of the rest."""

    calls: Server
    verdicts: Server

    async def close(self) -> None:
        for server in (self.calls, self.verdicts):
            try:
                await server.close()
            except ClaimqError:
                continue


class Store:
    """One queue on one server, with a watch over its connections."""

    def __init__(self, source: RedisSource, queue: str, worker: str, metrics: Metrics) -> None:
        self._source = source
        self._queue = queue
        self._worker = worker
        self._metrics = metrics
        self._connections = self._connect()
        self._closing: set[asyncio.Task[None]] = set()
        self._last_good: float | None = None
        self._last_error = ""
        self._clock_ahead: float | None = None
        self._answering_since: float | None = None
        self.generation = 0
        """How often the connections were made anew."""
        self.busy_expiry: float | None = None
        """The length of a lease as last seen; None before the first round trip."""
        self.claim_wait: float | None = Policy().claim_wait_timeout
        """How long a claim waits that does not say, in seconds, as last seen."""
        self.max_payload: int | None = None
        """The longest payload that the queue takes, in bytes, as last seen."""
        self.ready = asyncio.Event()

    def _connect(self) -> _Connections:
        return _Connections(
            connect(settings=self._source.settings(retry_for=CALL_SECONDS)),
            connect(settings=self._source.settings(retry_for=VERDICT_SECONDS)),
        )

    def note_clock(self, claimed_at: float) -> None:
        """The server's clock was ``claimed_at`` just now."""
        self._clock_ahead = claimed_at - asyncio.get_running_loop().time()

    def lease(self, lease_until: float | None, asked: float) -> float | None:
        """The length of a lease that a call made at ``asked`` moved to ``lease_until``, an instant of the server."""
        if lease_until is None or self._clock_ahead is None:
            return None
        return max(lease_until - self._clock_ahead - asked, 0.001)

    @property
    def last_error(self) -> str:
        """What the last failed call said; empty when the last one was good."""
        return self._last_error

    def age(self, now: float) -> float | None:
        """Seconds since the store last answered well; None before the first time."""
        return None if self._last_good is None else now - self._last_good

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]], *, verdict: bool = False) -> T:
        """Makes a call on the queue and notes how it went. Raises what the library raises."""
        connections = self._connections
        server = connections.verdicts if verdict else connections.calls
        try:
            result = await what(server.queue(self._queue, worker=self._worker))
        except ClaimqError as error:
            self._note_error(error)
            if connections is self._connections and isinstance(error, StoreUnavailable):
                self._answering_since = None
            raise
        self._note_good()
        if connections is self._connections and self._answering_since is None:
            self._answering_since = self._last_good
        return result

    def has_given_up(self, generation: int) -> bool:
        """Whether connections that were made after these have answered for a while: those will tell no more."""
        since = self._answering_since
        if generation == self.generation or since is None:
            return False
        return asyncio.get_running_loop().time() - since >= _TELLING_SECONDS

    def _note_good(self) -> None:
        self._last_good = asyncio.get_running_loop().time()
        if not self.ready.is_set():
            self.ready.set()
            _log.info(LogEvent("ready"))
        elif self._last_error:
            _log.info(LogEvent("store_answers_again"))
        self._last_error = ""

    def _note_error(self, error: ClaimqError) -> None:
        kind = (
            "unavailable"
            if isinstance(error, StoreUnavailable)
            else "misused"
            if isinstance(error, StoreMisused)
            else "refused"
        )
        self._metrics.store_errors.labels(kind).inc()
        if kind != "refused" and not self._last_error:
            event = "store_misused" if kind == "misused" else "store_unavailable"
            _log.warning(LogEvent(event, error=error))
            self._last_error = str(error)

    async def watch(self) -> None:
        """Asks the store when nobody else has lately; makes its connections anew when it has not answered for long."""
        loop = asyncio.get_running_loop()
        looked = rebuilt = loop.time()
        while True:
            now, age = loop.time(), self.age(loop.time())
            if age is None or age >= _PING_EVERY or now - looked >= _POLICY_EVERY:
                await self.look()
                looked = now = loop.time()
            if self._last_error and now - max(rebuilt, self._last_good or 0.0) >= _STALE:
                self._rebuild()
                rebuilt = now
            await asyncio.sleep(0.25 if age is None else _PING_EVERY / 2)

    async def look(self) -> None:
        """One round trip that also says how long a lease is. A call that never ends counts as none."""
        try:
            async with asyncio.timeout(_STALE):
                await self._open_the_way()
                policy = await self.call(lambda queue: queue.policy())
        except ClaimqError:
            return
        except TimeoutError:
            self._note_error(StoreUnavailable(f"the store has given no answer for {_STALE:g} s"))
            return
        except (
            ValueError
        ) as error:  # a config field that no release writes: the scripts read past it, and so do we
            _log.warning(LogEvent("bad_policy", error=error))
            self._note_good()
            return
        self.busy_expiry = policy.busy_expiry
        self.claim_wait = policy.claim_wait_timeout
        self.max_payload = policy.max_payload

    async def _open_the_way(self) -> None:
        """Connects before there is anything to say: later the server's name may not resolve, and the item in hand would
        be lost with its lease though its claim came through well."""
        try:
            await self._connections.calls.ping()
            await self._connections.calls.ping(verdicts=True)  # which renewals take
            await self._connections.verdicts.ping(verdicts=True)
        except ClaimqError as error:
            self._note_error(error)
            raise

    def _rebuild(self) -> None:
        """New connections from what the secrets' files hold now; the old ones end when their calls have."""
        try:
            fresh = self._connect()
        except (OSError, ValueError) as error:
            _log.warning(LogEvent("rebuild_failed", error=error))
            return
        old, self._connections = self._connections, fresh
        self.generation += 1
        self._answering_since = None
        self._metrics.rebuilds.inc()
        _log.info(LogEvent("connections_rebuilt"))
        closing = asyncio.ensure_future(self._close_later(old))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close_later(self, old: _Connections) -> None:
        try:
            await asyncio.sleep(VERDICT_SECONDS + CALL_SECONDS)
        finally:
            await old.close()

    async def close(self) -> None:
        """Closes all connections."""
        for closing in list(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._connections.close()
