"""Connections to one server, of several kinds, so that a wait never starves a verdict; and retries that are
harmless.

The client library must not repeat a call by itself: a lost reply would claim twice. Retries are switched off
there and made here, where each mutating call carries (instance, lane, number) and its repetition is answered
from what the server kept (``lua/lib/call.lua``).
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.asyncio import RedisCluster
from redis.exceptions import RedisClusterException, RedisError

from claimq.errors import ClaimqError, StoreMisused, StoreUnavailable
from claimq.redis_store.clients import LONGEST_BLOCK, at_node, expires_at_once, make_client
from claimq.redis_store.direct_client import DirectClient
from claimq.redis_store.faults import is_unknown_script, is_wrong_type, not_stale, translate, wrong_types
from claimq.redis_store.keys import absent_key, suspects
from claimq.redis_store.lost_claims import Doubts
from claimq.redis_store.scripts import script
from claimq.redis_store.settings import RedisSettings

_LISTED = 50
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_FORGET_SECONDS = 1.0
_FOREIGN = (RedisError, RedisClusterException, OSError, EOFError, asyncio.TimeoutError)
_NOT_A_LIST = re.compile(r"WRONGTYPE \S+:main:([!-~]{1,128}) is not a list")
"""What length_of() of lib/main.lua replies about the list of a client."""
Arg = str | bytes | int | float
T = TypeVar("T")

Call = tuple[str, int, int]
"""A mutating call's identity: (instance, lane, number). The server runs it once, however often it is sent."""


class _Lent:
    """A lane for as long as a ``with`` lasts. The value is the call's identity."""

    __slots__ = ("_call", "_connection")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Call:
        self._call = self._connection.take_lane()
        return self._call

    def __exit__(self, *_: object) -> None:
        self._connection.give_lane(self._call)


_made_here: weakref.WeakSet[Connection] = weakref.WeakSet()
_of_the_parent: list[object] = []


def _after_fork() -> None:
    for connection in list(_made_here):
        connection.begin_anew()


if hasattr(os, "register_at_fork"):  # where there is a fork
    os.register_at_fork(after_in_child=_after_fork)


class Connection:
    """One server, reached over a client for each use: ``calls``, ``verdicts``, ``renewals`` and ``waiting``."""

    def __init__(self, settings: RedisSettings | None = None, *, client: Any = None) -> None:
        self.settings = settings or RedisSettings()
        self.instance = secrets.token_hex(6)
        self._shared = client
        self._clients: dict[str, Any] = {}
        self._lanes: list[int] = []
        self._calls: list[int] = []
        self._background: set[asyncio.Task[None]] = set()
        self.doubts = Doubts()
        self.durable: dict[tuple[str, ...], str] = {}
        """Queues whose writes are to be waited for, as far as known: main keys of a call, and for what."""
        self._called: set[str] = set()  # the main keys at which replies to our calls are kept
        self._may_come_late = False
        self._closed = False
        _made_here.add(self)

    def begin_anew(self) -> None:
        """After a fork, in the child: the parent's calls are not ours.

        With its identity the server would answer our first calls with what it answered the parent, and do nothing. Its
        sockets are left alone, since they are its own.
        """
        _of_the_parent.append(self._clients)
        self.instance = secrets.token_hex(6)
        self._clients, self._lanes, self._calls, self._background = {}, [], [], set()
        self.doubts = Doubts()
        self._called, self._may_come_late = set(), False

    # Lanes: a mutating call holds one for as long as it may be repeated.
    def take_lane(self) -> Call:
        """Lends a lane for one call; the value is the call's identity. :meth:`give_lane` gives it back."""
        if self._lanes:
            lane = self._lanes.pop()
        else:
            lane = len(self._calls)
            self._calls.append(0)
        self._calls[lane] += 1
        return self.instance, lane, self._calls[lane]

    def next_on_lane(self, call: Call) -> Call:
        """The identity of another call on a lane that is held: the server then runs no earlier one any more."""
        lane = call[1]
        self._calls[lane] += 1
        return self.instance, lane, self._calls[lane]

    def give_lane(self, call: Call) -> None:
        """Gives a lane back; its next call has a higher number."""
        self._lanes.append(call[1])

    def lane(self) -> _Lent:
        """Lends a lane while a ``with`` lasts."""
        return _Lent(self)

    async def run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Arg],
        *,
        use: str = "calls",
        retry_for: float | None = None,
    ) -> Any:
        """Runs a script and returns its raw reply. Repeats it through outages for ``retry_for`` seconds, then
        raises StoreUnavailable.

        A ``STALE`` reply (a newer call of the same lane has run) means that this one was given up before; it
        is StoreUnavailable too.
        """
        wanted = script(name)
        self._note_call(keys, args)

        async def call(client: Any) -> Any:
            named = [*keys, absent_key(keys[0])] if isinstance(client, RedisCluster) else keys
            try:
                return await client.evalsha(wanted.sha, len(named), *named, *args)
            except RedisError as error:
                if not is_unknown_script(error):
                    raise
                return await client.eval(wanted.text, len(named), *named, *args)

        try:
            reply = await self.retry(call, doing=name, use=use, retry_for=retry_for)
        except StoreMisused as error:
            if not is_wrong_type(error.__cause__):
                raise
            named = [
                *_NOT_A_LIST.findall(str(error.__cause__)),
                *(arg for arg in args if isinstance(arg, str)),
            ]
            found = await self._of_another_type(keys, named)
            raise (wrong_types(found, doing=name) if found else error) from error.__cause__
        return not_stale(reply, name) if wanted.writes else reply  # what is read may be a payload of any text

    async def run_after_wake(
        self, name: str, keys: Sequence[str], args: Sequence[Arg], *, wake: str, seconds: float
    ) -> Any:
        """Waits for a wake token, at most :data:`LONGEST_BLOCK`, takes it, and runs a script; returns its raw reply.

        Losing the connection meanwhile is as good as a token: the script is then run as :meth:`run` does. With the same
        identity it runs once, whether it had run or not.
        """
        seconds = min(max(seconds, 0.001), LONGEST_BLOCK)
        self._note_call(keys, args)
        client = self.client("waiting")
        try:
            if isinstance(client, DirectClient):
                sha = script(name).sha
                reply = await client.evalsha_after_blpop(wake, seconds, sha, len(keys), *keys, *args)
                return not_stale(reply, name)
            await self.wait_for_wake(wake, seconds)
        except asyncio.CancelledError:
            self._may_come_late = True
            raise
        except _FOREIGN as error:
            if not (is_unknown_script(error) or is_wrong_type(error)):  # run() knows what to do about these
                ours = translate(error, doing="waiting for items")
                if not isinstance(ours, StoreUnavailable):
                    raise ours from error
                self._may_come_late = True
                await self._breathe(seconds)
        except StoreUnavailable:
            await self._breathe(seconds)
        return await self.run(name, keys, args)

    def _note_call(self, keys: Sequence[str], args: Sequence[Arg]) -> None:
        if args and args[0] == self.instance:
            self._called.add(keys[0])

    async def _breathe(self, seconds: float) -> None:
        """After a wait that ended in a fault: a short while, so that many waiting claims do not come back at once."""
        await self._drop_idle("waiting")
        await asyncio.sleep(min(seconds, random.uniform(0.01, 0.1)))  # noqa: S311 - spreads load, guards no secret

    async def _of_another_type(
        self, main_keys: Sequence[str], named: Sequence[str]
    ) -> dict[str, tuple[str, str]]:
        """Looks which keys of the queues are in the way: key -> (its type, the type it should have).

        Looks at a bounded number: those of the clients and workers that are listed, and of those named by the call.
        """
        found: dict[str, tuple[str, str]] = {}
        for main in main_keys:
            ring = await self._listed("LRANGE", main.removesuffix("main") + "clients")
            workers = await self._listed("ZRANGE", main.removesuffix("main") + "workers")
            short = [word for word in dict.fromkeys(named) if 0 < len(word) <= 200][:_LISTED]
            for key, expected in suspects(main, [*ring, *short], [*workers, *short], self.instance).items():
                try:
                    kind = _text(await self.command("TYPE", key))
                except ClaimqError:  # not allowed or not reachable: the first error says what there is to say
                    return found
                if kind not in (expected, "none"):
                    found[key] = (kind, expected)
        return found

    async def _listed(self, command: str, key: str) -> list[str]:
        try:
            return [_text(name) for name in await self.command(command, key, 0, _LISTED)]
        except ClaimqError:  # this very key may be the one in the way
            return []

    async def command(self, *words: Arg, use: str = "calls", retry_for: float | None = None) -> Any:
        """Runs one plain command; only for those that may be repeated."""
        return await self.retry(
            lambda client: client.execute_command(*words),
            doing=" ".join(str(word) for word in words[:2]),
            use=use,
            retry_for=retry_for,
        )

    async def ping(self, *, use: str) -> None:
        """One round trip on a connection that scripts of this use take next."""
        await self.retry(lambda client: client.ping(), doing="PING", use=use)

    async def info(self, section: str, key: str) -> dict[str, Any]:
        """INFO of the server (in a cluster: of the node that serves ``key``), by field."""
        words = ["INFO", section] if section else ["INFO"]
        reply: Any = await self.retry(lambda client: at_node(client, key, *words), doing="INFO", use="calls")
        return dict(reply)

    async def config_get(self, name: str, key: str) -> str | None:
        """One setting of the server (in a cluster: of the node that serves ``key``); settings are never changed."""
        reply: Any = await self.retry(
            lambda client: at_node(client, key, "CONFIG GET", name), doing="CONFIG GET", use="calls"
        )
        found: Any = reply.get(name) if isinstance(reply, dict) else reply[1] if reply else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # the client library answers either
        return found.decode() if isinstance(found, bytes) else found

    async def wait_for_wake(self, key: str, seconds: float) -> bool:
        """Blocks until there is a wake token or the time is over, at most :data:`LONGEST_BLOCK`; takes the
        token, and says whether there was one. Moves no item."""
        seconds = min(max(seconds, 0.001), LONGEST_BLOCK)
        client = self.client("waiting")
        try:
            if isinstance(client, DirectClient):  # which ends a wait that is answered by nobody
                return await client.blpop([key], timeout=seconds) is not None
            async with asyncio.timeout(seconds + self.settings.reply_timeout):
                return await client.blpop([key], timeout=seconds) is not None
        except _FOREIGN as error:
            raise translate(error, doing="waiting for items") from error

    async def retry(
        self, call: Callable[[Any], Awaitable[T]], *, doing: str, use: str, retry_for: float | None = None
    ) -> T:
        """Makes a harmlessly repeatable call, with full-jitter pauses through an outage."""
        loop = asyncio.get_running_loop()
        use = self.settings.sockets_for(use)
        deadline = loop.time() + (self.settings.seconds_for(use) if retry_for is None else retry_for)
        pause = _FIRST_PAUSE
        while True:
            try:
                return await call(self.client(use))
            except asyncio.CancelledError:
                self._may_come_late = True
                raise
            except _FOREIGN as error:
                ours = translate(error, doing=doing)
                if not isinstance(ours, StoreUnavailable):
                    raise ours from error
                self._may_come_late = True
                await self._drop_idle(use)
                left = deadline - loop.time()
                if left <= 0 or self._closed:
                    raise ours from error
            await asyncio.sleep(min(random.uniform(0, pause), left))  # noqa: S311 - spreads retries, guards no secret
            pause = min(pause * 2, _LONGEST_PAUSE)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._closed

    def client(self, use: str) -> Any:
        """The client for a kind of call. Raises StoreUnavailable once the connection is closed."""
        if self._closed:
            raise StoreUnavailable("this connection is closed; connect anew")
        if self._shared is not None:
            return self._shared
        if use not in self._clients:
            self._clients[use] = make_client(self.settings, waiting=use == "waiting")
        return self._clients[use]

    async def _drop_idle(self, use: str) -> None:
        """After a fault no pooled connection is trusted: the next call looks the server up again."""
        client = self._clients.get(use)
        pool = getattr(client, "connection_pool", None)
        if pool is not None:
            try:
                if isinstance(client, DirectClient):
                    await client.forget()
                await pool.disconnect(inuse_connections=False)
            except _FOREIGN:  # a socket that cannot even be closed is as gone as it needs to be
                return

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Finishes what a cancelled caller began; :meth:`close` waits for it. A store that cannot be reached
        leaves it to the lease."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._finished)
        return task

    def may_find_out(self, queue: str) -> bool:
        """Whether one more claim of the queue may be asked after that an outage has ended."""
        return not self._closed and self.doubts.has_room(queue)

    def find_out(self, queue: str, work: Coroutine[Any, Any, None], *, may_outlast: bool) -> None:
        """Finds out in the background what became of a claim. ``may_outlast``: it may take as long as an outage, so
        :meth:`close` does not wait for it."""
        if may_outlast:
            task = asyncio.ensure_future(work)
            task.add_done_callback(self._finished)
        else:
            task = self.in_background(work)
        self.doubts.add(queue, task)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if (
            not task.cancelled()
            and (error := task.exception()) is not None
            and not isinstance(error, ClaimqError)
        ):
            task.get_loop().call_exception_handler(
                {"message": "giving back a cancelled claim", "exception": error, "task": task}
            )

    async def _forget_calls(self) -> None:
        """Removes what the server keeps to answer a repeated call: all calls were answered the first time, so none of
        them can come again. Where this fails, the server forgets it after an hour."""
        use = next((use for use in self._clients if use != "waiting"), "calls")
        try:
            async with asyncio.timeout(_FORGET_SECONDS):
                for main in sorted(self._called)[:_LISTED]:
                    await expires_at_once(
                        self.client(use), f"{main.removesuffix('main')}calls:{self.instance}"
                    )
        except _FOREIGN:
            return

    async def close(self) -> None:
        """Closes the clients that this object made, once cancelled claims are given back; a shared client
        stays open.

        Calls under way end with StoreUnavailable. Takes at most ``retry_for`` and one reply time-out.
        """
        if self._background:
            await asyncio.wait(
                self._background, timeout=self.settings.retry_for + self.settings.reply_timeout
            )
        await self.doubts.leave()
        if not self._may_come_late and not self._closed:
            await self._forget_calls()
        self._closed = True
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            try:
                await client.aclose()
            except _FOREIGN as error:
                raise translate(error, doing="closing") from error


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
