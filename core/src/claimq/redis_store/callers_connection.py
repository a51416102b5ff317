"""Calls in the thread of their caller, without an event loop and without a switch to its thread.

A script is first sent on a plain socket. After an error, a lost connection or a script that the server does not have,
the event loop repeats the call with the same identity. So the call takes effect once, and its retries, failovers and
errors are those of every other call.
"""

from __future__ import annotations

import encodings
import socket as stdlib_socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, TypeVar, cast

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection as Socket
from redis.connection import SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from claimq.address.redis_url import parse_url
from claimq.concurrency.background_loop import BackgroundLoop
from claimq.concurrency.green_threads import is_of_gevents_socket
from claimq.redis_store.clients.direct_client import packed
from claimq.redis_store.clients.opening import Kind, call_options, place_of
from claimq.redis_store.connection import Connection
from claimq.redis_store.faults import not_stale
from claimq.redis_store.lost_claims import LostClaim, LostClaims
from claimq.redis_store.scripts import Arg, script
from claimq.redis_store.settings import RedisSettings

T = TypeVar("T")
_IDLE_SECONDS = 0.01
"""Another thread may use the socket when the one that used it has made no call for so long."""
_MOST_BYTES = 64 * 1024
"""Longer commands are sent on the event loop: its timeout does not limit the whole command."""
_CLASSES: dict[Kind, Any] = {Kind.TCP: Socket, Kind.TLS: SSLConnection, Kind.UNIX: UnixDomainSocketConnection}
_PACKAGES = [str(Path(str(package.__file__)).parent) for package in (redis, encodings)]
_OWN_FILES = (__file__, *_PACKAGES, stdlib_socket.__file__, ssl.__file__)


class _Recoveries:
    """Starts the recoveries of lost claims on the event loop."""

    def __init__(self, shared: Connection, loop: BackgroundLoop) -> None:
        self._shared = shared
        self._loop = loop

    def recover(self, lost: LostClaim, *, in_outage: bool) -> None:
        """See :meth:`LostClaims.recover`. Without an event loop the lease decides."""
        self._loop.soon(lambda: self._shared.lost_claims.recover(lost, in_outage=in_outage))


class CallersConnection(Connection):
    """Another way to the server of a connection, whose lanes and state it shares. It only runs scripts.

    One thread at a time uses its socket. ``is_free`` is False for the others: their calls are better made on the event
    loop, where they share calls with each other.
    """

    def __init__(self, shared: Connection, loop: BackgroundLoop) -> None:
        self.settings = shared.settings
        self.lanes = shared.lanes
        self.durable = shared.durable
        self.incarnations, self.rated, self.slots = shared.incarnations, shared.rated, shared.slots
        self.noted_queues = shared.noted_queues
        self.shared_enqueues = None
        self.lost_claims = cast("LostClaims", _Recoveries(shared, loop))
        self._on_loop = shared
        self._loop = loop
        self._idle: dict[str, Any] = {}
        """The idle socket as "socket", if there is one. ``pop`` and ``setdefault`` are atomic: two threads never have
        the same one."""
        self._user = 0
        """The thread that uses it, as often as it likes, also after an interrupt at any instruction."""
        self._free_at = 0.0 if _is_for(shared) else inf
        """From this instant of the monotonic clock other threads may use it."""

    @property
    def is_free(self) -> bool:
        """Whether this thread may make a call here now. The thread of the event loop never may."""
        is_mine = self._user == threading.get_ident() or (
            self._free_at <= time.monotonic() and not self._loop.is_current
        )
        return is_mine and not self._on_loop.is_closed

    async def run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Arg],
        *,
        use: str = "calls",
        retry_for: float | None = None,
    ) -> Any:
        """See :meth:`Connection.run`. Suspends only on the event loop itself, in work that a call has left to it."""
        if self._loop.is_current:
            return await self._on_loop.run(name, keys, args, use=use, retry_for=retry_for)
        self.lanes.note_call(keys, args)
        began_at = time.monotonic()
        reply = self._first_try(("EVALSHA", script(name).sha, len(keys), *keys, *args))
        if reply is not None:
            return not_stale(reply, name)
        longest = self.settings.seconds_for(use) if retry_for is None else retry_for
        remaining = max(longest - (time.monotonic() - began_at), 0.0)
        return self._loop.run(lambda: self._on_loop.run(name, keys, args, use=use, retry_for=remaining))

    async def run_after_wake(
        self, name: str, keys: Sequence[str], args: Sequence[Arg], *, wake: str, seconds: float
    ) -> Any:
        """See :meth:`Connection.run_after_wake`. Waits for the event loop, which waits for the server."""
        return self._loop.run(
            lambda: self._on_loop.run_after_wake(name, keys, args, wake=wake, seconds=seconds)
        )

    async def retry(
        self, call: Callable[[Any], Awaitable[T]], *, doing: str, use: str, retry_for: float | None = None
    ) -> T:
        """See :meth:`Connection.retry`. Waits for the event loop, which makes the call."""
        if self._loop.is_current:
            return await self._on_loop.retry(call, doing=doing, use=use, retry_for=retry_for)
        return self._loop.run(lambda: self._on_loop.retry(call, doing=doing, use=use, retry_for=retry_for))

    def in_background(self, work: Coroutine[Any, Any, None], *, close_waits: bool = True) -> Any:
        """See :meth:`Connection.in_background`. Returns no task."""
        if not self._loop.soon(lambda: self._on_loop.in_background(work, close_waits=close_waits)):
            work.close()

    def close_socket(self) -> None:
        """Closes the socket."""
        _drop(self._idle.pop("socket", None))

    def _first_try(self, words: Sequence[Arg]) -> Any:
        """The reply, or None if there is none. An interrupt of the thread is raised, whatever its class: the socket,
        on which a reply may still arrive, is closed then."""
        if not (self.is_free and self._loop.is_of_this_process):  # the loop refuses calls in a child
            return None
        self._user, self._free_at = threading.get_ident(), inf
        socket, is_usable, before = None, False, sys.exception()
        try:
            socket = self._idle.pop("socket", None) or _connected(self.settings)
            command = packed(socket, words)
            is_usable = sum(map(len, command)) > _MOST_BYTES
            if is_usable:
                return None
            socket.send_packed_command(command, check_health=False)
            reply = socket.read_response(disable_decoding=True)
            is_usable = True
        except Exception as error:  # noqa: BLE001 - any class: the event loop makes the call again
            interrupt = _interrupt_behind(error, before)
            if interrupt is None and isinstance(error, ResponseError):
                is_usable = socket is not None  # else the server has refused the connection
                return None
            self.lanes.note_interrupted()
            if interrupt is not None:
                raise interrupt from None
            return None
        except BaseException:
            self.lanes.note_interrupted()
            raise
        finally:
            is_kept = is_usable and not self._on_loop.is_closed
            # Another call may have put its own there: of a signal handler, or of another thread.
            if not is_kept or self._idle.setdefault("socket", socket) is not socket:
                _drop(socket)
            self._free_at = time.monotonic() + _IDLE_SECONDS
        return reply


def _is_for(shared: Connection) -> bool:
    """Whether the connection is to a single server at a known address, and bounds no replies."""
    is_single = parse_url(shared.settings.url).mode not in ("cluster", "sentinel")
    return is_single and shared.clients.shared is None and shared.settings.largest_reply is None


def _connected(settings: RedisSettings) -> Any:
    endpoint = parse_url(settings.url)
    kind, place = place_of(settings, endpoint)
    options = call_options(settings, endpoint) | place
    socket = _CLASSES[kind](db=endpoint.db, retry=Retry(NoBackoff(), 0), health_check_interval=0, **options)
    socket.connect()
    return socket


def _drop(socket: Any) -> None:
    if socket is not None:
        with suppress(RedisError, OSError):
            socket.disconnect()


def _interrupt_behind(error: BaseException, before: BaseException | None) -> BaseException | None:
    """The exception of a signal handler, of any class, that was taken for one of the socket: the one that did not come
    through the client library's files and those of sockets alone. ``before``: what was being handled before the call.
    """
    suspect: BaseException | None = error
    while suspect is not None and suspect is not before:
        trace = suspect.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not (file.startswith(_OWN_FILES) or is_of_gevents_socket(suspect, file)):
                return suspect
            trace = trace.tb_next
        suspect = suspect.__context__
    return None
