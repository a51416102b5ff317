"""Calls on one server: a client for each use, so that waiting claims never delay verdicts, and harmless retries.

The client library must not repeat a call by itself: after a lost reply a claim would run twice. Its retries are
switched off. This module retries instead: each mutating call carries (instance, lane, number), and the server answers
a repeated call from the reply that it kept (``lua/lib/call.lua``).
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.exceptions import RedisError

from claimq.address.redis_url import parse_url
from claimq.concurrency.background_work import or_cancelled
from claimq.concurrency.backoff import RANDOM, Backoff
from claimq.errors import ClaimqError, StoreUnavailable, WrongKeyType
from claimq.redis_store.clients.cluster_client import ClusterClient
from claimq.redis_store.clients.direct_client import DirectClient
from claimq.redis_store.clients.opening import (
    LONGEST_BLOCK,
    at_node,
    close,
    fields_of,
    is_cluster,
    make_client,
    plain,
    read,
)
from claimq.redis_store.faults import (
    is_unknown_script,
    is_wrong_type,
    not_stale,
    of_client,
    translate,
    wrong_types,
)
from claimq.redis_store.keys import absent_key, suspects
from claimq.redis_store.lanes import Lanes
from claimq.redis_store.lost_claims import LostClaims
from claimq.redis_store.scripts import Arg, script
from claimq.redis_store.settings import RedisSettings

_LISTED, _FORGET_SECONDS = 50, 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_FOREIGN = Exception
"""What a client can raise in a call: in an outage also errors that are no RedisError, such as AttributeError."""
_NOT_A_LIST = re.compile(r"WRONGTYPE \S+:(?:main|high|low):([!-~]{1,128}) is not a list")
"""The error of length_of_list() in lib/levels.lua for a list of a client."""
T = TypeVar("T")

_made_here: weakref.WeakSet[Connection] = weakref.WeakSet()
_of_the_parent: list[object] = []


def _after_fork() -> None:
    for connection in list(_made_here):
        connection.reset_after_fork()


if hasattr(os, "register_at_fork"):  # where there is a fork
    os.register_at_fork(after_in_child=_after_fork)


class Connection(Lanes):
    """One server, with a client for each use: ``calls``, ``verdicts``, ``renewals`` and ``waiting``."""

    def __init__(self, settings: RedisSettings | None = None, *, client: Any = None) -> None:
        super().__init__()
        self.settings = settings or RedisSettings()
        self.shared = client
        self._clients: dict[str, Any] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.lost_claims = LostClaims(self)
        self.durable: dict[tuple[str, ...], tuple[str, int]] = {}
        """Main keys of a call -> the durability that their queues require, and on how many replicas, if known."""
        self.incarnations: dict[str, str] = {}  # main key -> name of the queue's data by the last claim
        self.rated: dict[str, bool] = {}  # main key -> whether nothing should be claimed ahead
        self.slots: dict[tuple[str, str], int] = {}  # main key, worker -> its concurrency
        self.noted_queues: set[str] = set()  # main keys of the queues that were added to the index
        self.shared_enqueues: dict[str, Any] | None = {}
        """Main key -> the single enqueues that are under way (queue/shared_enqueues.py). None: they share no calls."""
        self._called: set[str] = set()  # the main keys at which replies to our calls are kept
        self._may_come_late = False
        self.is_closed = False
        """Whether :meth:`close` has been called."""
        _made_here.add(self)

    def reset_after_fork(self) -> None:
        """Takes another identity in the child of a fork, and leaves the parent's sockets alone.

        With the parent's identity the server would answer the child's first calls with the replies that it kept for the
        parent, and do nothing.
        """
        _of_the_parent.append(self._clients)
        self.renew_lanes()
        self._clients, self._background = {}, set()
        self.lost_claims = LostClaims(self)
        self.shared_enqueues = {}
        self._called, self._may_come_late = set(), False

    async def run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Arg],
        *,
        use: str = "calls",
        retry_for: float | None = None,
    ) -> Any:
        """Runs a script and returns its raw reply. Retries through outages for ``retry_for`` seconds, then raises
        StoreUnavailable.

        Also raises it for the reply ``STALE``: a newer call of the same lane has run, so this one was abandoned before.
        """
        lua = script(name)
        self.note_call(keys, args)

        async def call(client: Any) -> Any:
            absent = absent_key(keys[0])
            named = [*keys, absent] if is_cluster(client) else keys
            try:
                if lua.writes:
                    return await client.evalsha(lua.sha, len(named), *named, *args)
                return await read(client, absent, "EVALSHA", lua.sha, len(named), *named, *args)
            except RedisError as error:
                if not is_unknown_script(error):
                    raise
                return await plain(client, "EVAL", lua.text, len(named), *named, *args)

        try:
            reply = await self.retry(call, doing=name, use=use, retry_for=retry_for)
        except WrongKeyType as error:
            named = [
                *_NOT_A_LIST.findall(str(error.__cause__)[:1000]),
                *(arg for arg in args if isinstance(arg, str)),
            ]
            wrong_keys = await self._of_another_type(keys, named)
            raise (wrong_types(wrong_keys, doing=name) if wrong_keys else error) from error.__cause__
        return not_stale(reply, name) if lua.writes else reply  # what is read may be a payload of any text

    async def run_after_wake(
        self, name: str, keys: Sequence[str], args: Sequence[Arg], *, wake: str, seconds: float
    ) -> Any:
        """Waits for a wake token, takes it, and runs a script; returns its raw reply. On a cluster, or with a client of
        the caller, it waits at most :data:`LONGEST_BLOCK`.

        If the connection is lost in between, the script is run as :meth:`run` does. It has the same identity, so it
        runs once in any case.
        """
        self.note_call(keys, args)
        client = self.client("waiting")
        try:
            if isinstance(client, DirectClient):
                sha = script(name).sha
                reply = await client.evalsha_after_blpop(
                    wake, max(seconds, 0.001), sha, len(keys), *keys, *args
                )
                return not_stale(reply, name)
            await self.wait_for_wake([wake], seconds)
        except asyncio.CancelledError:
            self._may_come_late = True
            raise
        except StoreUnavailable:
            await self._pause_after_fault(seconds)
        except ClaimqError:
            raise
        except _FOREIGN as error:
            if not (is_unknown_script(error) or is_wrong_type(error)):  # run() knows what to do about these
                ours = of_client(error, doing="waiting for items")
                if not isinstance(ours, StoreUnavailable):
                    raise ours from error
                self._may_come_late = True
                await self._pause_after_fault(seconds)
        return await self.run(name, keys, args)

    def note_call(self, keys: Sequence[str], args: Sequence[Arg]) -> None:
        """A script with these words is about to be sent: the server will keep the reply if they have an identity."""
        if args and args[0] == self.instance:
            self._called.add(keys[0])

    def note_interrupted(self) -> None:
        """A call was given up whose outcome is unknown: it may still arrive, so the replies stay on the server."""
        self._may_come_late = True

    async def _pause_after_fault(self, seconds: float) -> None:
        """A short random pause after a failed wait, so that many waiting claims do not retry at the same instant."""
        await self._drop_idle("waiting")
        await asyncio.sleep(min(seconds, RANDOM.uniform(0.01, 0.1)))

    async def _of_another_type(
        self, main_keys: Sequence[str], named: Sequence[str]
    ) -> dict[str, tuple[str, str]]:
        """Finds keys of the queues that have a wrong type: key -> (its type, the type that it should have).

        Checks a bounded number of keys: those of listed clients and workers, and of those that the call names.
        """
        wrong_keys: dict[str, tuple[str, str]] = {}
        for main in main_keys:
            ring = await self._listed(main.removesuffix("main") + "clients")
            workers = await self._listed(main.removesuffix("main") + "workers")
            short = [word for word in dict.fromkeys(named) if 0 < len(word) <= 200][:_LISTED]
            for key, expected in suspects(main, [*ring, *short], [*workers, *short], self.instance).items():
                try:
                    kind = _text(await self.command("TYPE", key))
                except ClaimqError:  # not allowed or not reachable: the first error is the one to report
                    return wrong_keys
                if kind not in (expected, "none"):
                    wrong_keys[key] = (kind, expected)
        return wrong_keys

    async def _listed(self, key: str) -> list[str]:
        try:
            return [_text(name) for name in await self.command("ZRANGE", key, 0, _LISTED)]
        except ClaimqError:  # this key may have the wrong type itself
            return []

    async def command(self, *words: Arg, use: str = "calls", retry_for: float | None = None) -> Any:
        """Runs one plain command. Only for commands that may be repeated."""
        return await self.retry(
            lambda client: client.execute_command(*words),
            doing=" ".join(str(word) for word in words[:2]),
            use=use,
            retry_for=retry_for,
        )

    async def read(self, main_key: str, *words: Arg) -> Any:
        """Runs one plain command that only reads keys of a queue; never on a replica."""
        absent, doing = absent_key(main_key), " ".join(str(word) for word in words[:2])
        return await self.retry(lambda client: read(client, absent, *words), doing=doing, use="calls")

    async def ping(self, *, use: str) -> None:
        """One round trip on a connection that the next script of this use takes."""
        await self.retry(lambda client: client.ping(), doing="PING", use=use)

    async def info(self, section: str, key: str) -> dict[str, Any]:
        """INFO of the server (in a cluster: of the node that serves ``key``), by field."""
        return dict(await self._ask(key, "INFO", *([section] if section else [])))

    async def hello(self, key: str) -> dict[str, Any]:
        """What the server says of itself (in a cluster: the node that serves ``key``), by field. Every user may ask."""
        return fields_of(await self._ask(key, "HELLO"))

    async def config_get(self, name: str, key: str) -> str | None:
        """One setting of the server (in a cluster: of the node that serves ``key``); settings are never changed."""
        setting = fields_of(await self._ask(key, "CONFIG GET", name)).get(name)
        return _text(setting) if isinstance(setting, bytes | str) else None

    async def _ask(self, key: str, *words: str) -> Any:
        return await self.retry(lambda client: at_node(client, key, *words), doing=words[0], use="calls")

    async def wait_for_wake(self, keys: Sequence[str], seconds: float) -> str | None:
        """Blocks until one of these keys has a wake token, at most ``seconds`` and :data:`LONGEST_BLOCK`; takes the
        token and returns its key. Moves no item. In a cluster, all keys must be of one queue."""
        seconds = min(max(seconds, 0.001), LONGEST_BLOCK)
        client = self.client("waiting")
        try:
            if isinstance(client, DirectClient | ClusterClient):  # which have their own timeouts
                reply = await client.blpop(keys, timeout=seconds)
            else:
                async with asyncio.timeout(seconds + self.settings.reply_timeout):
                    reply = await or_cancelled(client.blpop(list(keys), timeout=seconds))
        except ClaimqError:
            raise
        except _FOREIGN as error:
            raise of_client(error, doing="waiting for items") from error
        return None if reply is None else _text(reply[0])

    async def retry(
        self, call: Callable[[Any], Awaitable[T]], *, doing: str, use: str, retry_for: float | None = None
    ) -> T:
        """Makes a call that may be repeated, and retries it through an outage for ``retry_for`` seconds."""
        loop = asyncio.get_running_loop()
        use = self.settings.sockets_for(use)
        timeout_at = loop.time() + (self.settings.seconds_for(use) if retry_for is None else retry_for)
        backoff: Backoff | None = None
        while True:
            try:
                return await or_cancelled(call(self.client(use)))
            except asyncio.CancelledError:
                self._may_come_late = True
                raise
            except ClaimqError:
                raise
            except _FOREIGN as error:
                ours = of_client(error, doing=doing, is_first=backoff is None)
                if not isinstance(ours, StoreUnavailable):
                    raise ours from error
                self._may_come_late = True
                await self._drop_idle(use)
                remaining = timeout_at - loop.time()
                if remaining <= 0 or self.is_closed:
                    raise ours from error
            backoff = backoff or Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, jitter=1.0)
            await asyncio.sleep(min(backoff.next(), remaining))

    @property
    def is_cluster(self) -> bool:
        """Whether the server is a Redis Cluster, where a command may name keys of one queue only."""
        if self.shared is not None:
            return is_cluster(self.shared)
        return parse_url(self.settings.url).mode == "cluster"

    def client(self, use: str) -> Any:
        """The client for a kind of call. Raises StoreUnavailable once the connection is closed."""
        self.notice_fork()
        if self.is_closed:
            raise StoreUnavailable("this connection is closed; connect again")
        return self._client(use)

    def _client(self, use: str) -> Any:
        if self.shared is not None:
            return self.shared
        if use not in self._clients:
            self._clients[use] = make_client(self.settings, waiting=use == "waiting")
        return self._clients[use]

    async def _drop_idle(self, use: str) -> None:
        """Closes pooled connections after an error: the next call resolves the server's address again."""
        client = self._clients.get(use)
        pool = getattr(client, "connection_pool", None)
        if pool is not None:
            try:
                if isinstance(client, DirectClient):
                    await client.forget()
                await pool.disconnect(inuse_connections=False)
            except _FOREIGN:  # a socket that cannot be closed is as good as closed
                return

    def in_background(
        self, work: Coroutine[Any, Any, None], *, close_waits: bool = True
    ) -> asyncio.Task[None]:
        """Runs work that must not end with its caller; :meth:`close` waits for it unless ``close_waits`` is False.

        If the server cannot be reached, the lease decides.
        """
        task = asyncio.ensure_future(work)
        if close_waits:
            self._background.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if (
            not task.cancelled()
            and (error := task.exception()) is not None
            and not isinstance(error, ClaimqError)
        ):
            task.get_loop().call_exception_handler(
                {"message": "unexpected error in background work", "exception": error, "task": task}
            )

    async def _forget_calls(self) -> None:
        """Removes the replies that the server keeps for repeated calls: this connection is closed, so no call begins or
        is repeated. If this fails, the server removes them after an hour."""
        use = next((use for use in self._clients if use != "waiting"), "calls")
        try:
            async with asyncio.timeout(_FORGET_SECONDS):
                for main in sorted(self._called):
                    key = f"{main.removesuffix('main')}calls:{self.instance}"
                    await plain(self._client(use), "PEXPIRE", key, 0)  # every role may run it
        except _FOREIGN:
            return

    async def close(self) -> None:
        """Waits for the recovery of cancelled claims, then closes the clients that this object made. A client of the
        caller stays open.

        Running calls end with StoreUnavailable. Takes at most ``retry_for`` and one reply timeout. If this
        is cancelled, it stops waiting and closes the clients all the same.
        """
        self.notice_fork()
        longest = self.settings.retry_for + self.settings.reply_timeout
        try:
            if self._background:
                await asyncio.wait(self._background, timeout=longest)
        finally:
            await self._close()

    async def _close(self) -> None:
        was_closed, self.is_closed = self.is_closed, True
        await self.lost_claims.close()
        if not self._may_come_late and not was_closed:
            await self._forget_calls()
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            try:
                await close(client)
            except _FOREIGN as error:
                raise translate(error, doing="closing") from error


def _text(reply: bytes | str) -> str:
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
