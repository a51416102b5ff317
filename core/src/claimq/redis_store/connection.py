"""Calls on one server, with harmless retries.

The client library must not repeat a call by itself: after a lost reply a claim would run twice. Its retries are
switched off. This module retries instead: each mutating call carries (instance, lane, number), and the server answers
a repeated call from the reply that it kept (``lua/lib/call.lua``).
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.exceptions import RedisError

from claimq.codec import text_of
from claimq.concurrency.background_work import or_cancelled
from claimq.concurrency.backoff import RANDOM, Backoff
from claimq.errors import ClaimqError, StoreUnavailable, WrongKeyType
from claimq.redis_store.clients.by_use import ClientsByUse
from claimq.redis_store.clients.cluster_client import ClusterClient
from claimq.redis_store.clients.direct_client import DirectClient
from claimq.redis_store.clients.opening import LONGEST_BLOCK, at_node, is_cluster, plain, read
from claimq.redis_store.faults import (
    is_unknown_script,
    is_wrong_type,
    not_stale,
    of_client,
    translate,
    wrong_types,
)
from claimq.redis_store.keys import absent_key, keys_of_wrong_type
from claimq.redis_store.lanes import Lanes
from claimq.redis_store.lost_claims import LostClaims
from claimq.redis_store.scripts import Arg, script
from claimq.redis_store.settings import RedisSettings

_FORGET_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_FOREIGN = Exception
"""What a client can raise in a call: in an outage also errors that are no RedisError, such as AttributeError."""
T = TypeVar("T")

_made_here: weakref.WeakSet[Connection] = weakref.WeakSet()
_of_the_parent: list[ClientsByUse] = []


def _after_fork() -> None:
    for connection in list(_made_here):
        connection.reset_after_fork()


if hasattr(os, "register_at_fork"):  # where there is a fork
    os.register_at_fork(after_in_child=_after_fork)


class Connection:
    """One server: calls with lanes and clients, and what the replies have said of its queues."""

    def __init__(self, settings: RedisSettings | None = None, *, client: Any = None) -> None:
        self.settings = settings or RedisSettings()
        self.lanes = Lanes(self.reset_after_fork)
        self.clients = ClientsByUse(self.settings, client)
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
        self.is_closed = False
        """Whether :meth:`close` has been called."""
        _made_here.add(self)

    def reset_after_fork(self) -> None:
        """Takes another identity in the child of a fork, and leaves the parent's sockets alone.

        With the parent's identity the server would answer the child's first calls with the replies that it kept for the
        parent, and do nothing.
        """
        _of_the_parent.append(self.clients)
        self.lanes.renew()
        self.clients = ClientsByUse(self.settings, self.clients.shared)
        self._background = set()
        self.lost_claims = LostClaims(self)
        self.shared_enqueues = {}

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
        self.lanes.note_call(keys, args)

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
            wrong_keys = await keys_of_wrong_type(
                self.command, keys, args, str(error.__cause__), self.lanes.instance
            )
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
        self.lanes.note_call(keys, args)
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
            self.lanes.note_interrupted()
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
                self.lanes.note_interrupted()
                await self._pause_after_fault(seconds)
        return await self.run(name, keys, args)

    async def _pause_after_fault(self, seconds: float) -> None:
        """A short random pause after a failed wait, so that many waiting claims do not retry at the same instant."""
        await self.clients.drop_idle("waiting")
        await asyncio.sleep(min(seconds, RANDOM.uniform(0.01, 0.1)))

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

    async def ask(self, key: str, *words: str) -> Any:
        """Asks the server for a fact about itself with one command (in a cluster: the node that serves ``key``)."""
        return await self.retry(lambda client: at_node(client, key, *words), doing=words[0], use="calls")

    async def wait_for_wake(self, keys: Sequence[str], seconds: float) -> str | None:
        """Blocks until one of these keys has a wake token, at most ``seconds`` and :data:`LONGEST_BLOCK`. Takes the
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
        return None if reply is None else text_of(reply[0])

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
                self.lanes.note_interrupted()
                raise
            except ClaimqError:
                raise
            except _FOREIGN as error:
                ours = of_client(error, doing=doing, is_first=backoff is None)
                if not isinstance(ours, StoreUnavailable):
                    raise ours from error
                self.lanes.note_interrupted()
                await self.clients.drop_idle(use)
                remaining = timeout_at - loop.time()
                if remaining <= 0 or self.is_closed:
                    raise ours from error
            backoff = backoff or Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, jitter=1.0)
            await asyncio.sleep(min(backoff.next(), remaining))

    def client(self, use: str) -> Any:
        """The client for a kind of call. Raises StoreUnavailable once the connection is closed."""
        self.lanes.notice_fork()
        if self.is_closed:
            raise StoreUnavailable("this connection is closed; connect again")
        return self.clients.of(use)

    def in_background(
        self, work: Coroutine[Any, Any, None], *, close_waits: bool = True
    ) -> asyncio.Task[None]:
        """Runs work that must not end with its caller; :meth:`close` waits for it unless ``close_waits`` is False.

        If the server cannot be reached, the lease decides.
        """
        task = asyncio.ensure_future(work)
        if close_waits:
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        task.add_done_callback(_report_defect)
        return task

    async def _forget_calls(self) -> None:
        """Removes the replies that the server keeps for repeated calls: this connection is closed, so no call begins or
        is repeated. If this fails, the server removes them after an hour."""
        try:
            async with asyncio.timeout(_FORGET_SECONDS):
                for key in self.lanes.kept_replies():
                    await plain(self.clients.of_any_call(), "PEXPIRE", key, 0)  # every role may run it
        except _FOREIGN:
            return

    async def close(self) -> None:
        """Waits for the recovery of cancelled claims, then closes the clients that this object made. A client of the
        caller stays open.

        Running calls end with StoreUnavailable. Takes at most ``retry_for`` and one reply timeout. If this
        is cancelled, it stops waiting and closes the clients all the same.
        """
        self.lanes.notice_fork()
        longest = self.settings.retry_for + self.settings.reply_timeout
        try:
            if self._background:
                await asyncio.wait(self._background, timeout=longest)
        finally:
            await self._close()

    async def _close(self) -> None:
        was_closed, self.is_closed = self.is_closed, True
        await self.lost_claims.close()
        if not was_closed:
            await self._forget_calls()
        try:
            await self.clients.close()
        except _FOREIGN as error:
            raise translate(error, doing="closing") from error


def _report_defect(task: asyncio.Task[None]) -> None:
    """Reports an error that background work should not end with."""
    if (
        not task.cancelled()
        and (error := task.exception()) is not None
        and not isinstance(error, ClaimqError)
    ):
        task.get_loop().call_exception_handler(
            {"message": "unexpected error in background work", "exception": error, "task": task}
        )
