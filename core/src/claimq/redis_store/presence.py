"""Presence: a connection by which the server sees the end of a process, however the process dies.

The kernel closes the connections of a dead process, and keeps those of a stopped or slow one. So a process
that consumes subscribes to a channel of its own, and the scripts ask the server for the subscription
(lua/lib/presence.lua). This runs in a thread: a connection that breaks must be replaced at once, also while a handler
blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import ConnectionError as Disconnected

from claimq.concurrency.backoff import Backoff
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.redis_store.clients.cluster_client import ClusterClient
from claimq.redis_store.clients.opening import close, make_client
from claimq.redis_store.connection import Connection
from claimq.redis_store.faults import translate
from claimq.redis_store.settings import RedisSettings

_PERIOD = 5.0
"""Seconds between announcements. Between them the connection is idle."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_UNSEEN_PAUSE, _REFUSED_PAUSE = 10.0, 600.0
_QUICK, _LONGEST_LEAVE = 1.0, 60.0
_FOREIGN = Exception

_log = logging.getLogger(__name__)


class Presence:
    """The presence of one worker on one queue, from :meth:`begin` to :meth:`end`.

    Where the server refuses or does not have the subscription, only the leases count.
    """

    def __init__(self, settings: RedisSettings, main_key: str, instance: str, worker: str) -> None:
        self._settings = settings
        self._main_key = main_key
        self._channel = f"{main_key.removesuffix('main')}present:{instance}"
        self._who = (instance, worker)
        self._stop = asyncio.Event()
        self._on_end: Callable[[], None] | None = None
        self._client: Any = None
        """The client of the last subscription."""
        self._is_announced = False
        self._saying = asyncio.Lock()

    def begin(self) -> None:
        """Begins in a thread of its own; returns at once."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="claimq-presence", daemon=True).start()

    async def end(self) -> None:
        """Removes the announcement, then closes the connection; claims that are left end with their leases. Waits at
        most a second: in an outage the thread retries for a minute, and the process counts as present until then."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def on_end() -> None:
            with suppress(RuntimeError):  # the caller's loop is closed
                loop.call_soon_threadsafe(ended.set)

        self._on_end = on_end
        self._loop.call_soon_threadsafe(self._stop.set)
        with suppress(TimeoutError):
            async with asyncio.timeout(_QUICK):
                await ended.wait()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            if self._on_end is not None:
                self._on_end()

    async def _serve(self) -> None:
        self._connection = Connection(self._settings)
        keeping = asyncio.ensure_future(self._keep())
        await self._stop.wait()
        await self._leave_within_a_minute()
        while not keeping.done():  # a cancellation may be lost in the client library: see or_cancelled()
            keeping.cancel()
            await asyncio.wait({keeping}, timeout=_FIRST_PAUSE)
        # If a cancellation came while the client was closed, it still has open connections.
        if self._client is not None:
            with suppress(_FOREIGN):
                await close(self._client)
        with suppress(ClaimqError):
            await self._connection.close()

    async def _keep(self) -> None:
        """Subscribes and announces, again after each fault."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, jitter=1.0)
        while True:
            try:
                await self._subscribed(backoff)
                pause = _UNSEEN_PAUSE
            except _FOREIGN as error:
                ours = error if isinstance(error, ClaimqError) else translate(error, doing="presence")
                is_outage = isinstance(ours, StoreUnavailable)
                if not is_outage:
                    _log.info(
                        "a kill of this process is not noticed before its leases end (%s, %s)",
                        self._channel,
                        ours,
                    )
                pause = backoff.next() if is_outage else _REFUSED_PAUSE
                # The next attempt to leave is a pause away.
                await (self._leave() if is_outage else self._leave_within_a_minute())
            await asyncio.sleep(pause)

    async def _subscribed(self, backoff: Backoff) -> None:
        """Returns when the server does not have the subscription; raises when it is lost, or the slot has moved."""
        async with self._subscription() as connection:
            while await self._announce():
                backoff.reset()
                await self._quiet(connection)
        if isinstance(self._client, ClusterClient):
            raise Disconnected("another node serves the slot now")

    @asynccontextmanager
    async def _subscription(self) -> AsyncGenerator[Any]:
        client = self._client = make_client(self._settings, waiting=True)
        connection: Any = None
        try:
            if isinstance(client, ClusterClient):
                connection = await client.new_connection(self._channel)
            else:
                connection = client.connection_pool.make_connection()
            await connection.connect()
            await connection.send_command("SUBSCRIBE", self._channel)
            await self._reply(connection, b"subscribe")
            yield connection
        finally:
            if connection is not None:
                await connection.disconnect(nowait=True)
            with suppress(_FOREIGN):
                await close(client)

    async def _quiet(self, connection: Any) -> None:
        """Waits for the next announcement; raises if the connection is lost."""
        if await connection.read_response(timeout=_PERIOD) is not None:
            raise Disconnected("the subscription ended")
        await connection.send_command("PING")
        await self._reply(connection, b"pong")

    async def _reply(self, connection: Any, kind: bytes) -> None:
        reply = await connection.read_response(timeout=self._settings.reply_timeout)
        if not isinstance(reply, list) or reply[0] != kind:
            raise Disconnected("no answer on the subscription")

    async def _announce(self) -> bool:
        """False if the server does not have the subscription."""
        async with self._saying:
            if self._stop.is_set():  # nothing is announced after the end; the subscription stays until then
                return True
            self._is_announced = True
            try:
                reply = await self._say(1)
            except StoreUnavailable:  # the connection for calls; the subscription may be as it was
                return True
            return bool(reply[1])

    async def _leave(self) -> bool:
        """Removes the announcement if the server answers soon. The record of a process that cannot subscribe would say
        that the process is gone."""
        try:
            async with asyncio.timeout(_QUICK), self._saying:
                if self._is_announced:
                    await self._say(0)
        except (ClaimqError, TimeoutError):
            return False
        return True

    async def _leave_within_a_minute(self) -> None:
        timeout_at = self._loop.time() + _LONGEST_LEAVE
        while not await self._leave() and self._loop.time() < timeout_at:  # noqa: ASYNC110 - an outage ends unannounced
            await asyncio.sleep(_QUICK)

    async def _say(self, is_here: int) -> Any:
        return await self._connection.run(
            "announce", [self._main_key], [*self._who, is_here], use="renewals", retry_for=0
        )
