"""Adapter from a caller's synchronous client to the event loop: each call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import redis

from claimq.concurrency.green_threads import refuse_green_threads

_MOST = 64
"""Most calls at a time, including waits."""


class ThreadedClient:
    """The methods that :class:`claimq.redis_store.connection.Connection` uses, over a ``redis.Redis``."""

    def __init__(self, client: Any) -> None:
        if not isinstance(client, redis.Redis):
            raise TypeError(
                f"client is a {type(client).__module__}.{type(client).__name__}; claimq.blocking shares a redis.Redis. "
                "For a Redis Cluster give its URL or settings; a redis.asyncio client goes to claimq.connect"
            )
        refuse_green_threads("a redis.Redis as client", "give the URL or the settings of the server instead")
        self._client: Any = client
        self.connection_pool = self._client.connection_pool
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="claimq-redis")

    async def evalsha(self, sha: str, numkeys: int, *words: Any) -> Any:
        """Runs a script by its hash."""
        return await self._run(self._client.evalsha, sha, numkeys, *words)

    async def ping(self) -> Any:
        """One round trip."""
        return await self._run(self._client.ping)

    async def blpop(self, keys: Sequence[str], timeout: float) -> Any:
        """Waits in a thread of its own."""
        return await self._run(self._client.blpop, list(keys), timeout)

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        """Any other command."""
        return await self._run(partial(self._client.execute_command, **options), *words)

    def pipeline(self, *, transaction: bool) -> ThreadedPipeline:
        """Commands that are sent together on one connection."""
        return ThreadedPipeline(self._client.pipeline(transaction=transaction), self._run)

    def leave(self) -> None:
        """Ends the threads when their calls have ended. The caller closes the client."""
        self._threads.shutdown(wait=False)

    async def _run(self, call: Callable[..., Any], *words: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *words))


class ThreadedPipeline:
    """A pipeline of a ``redis.Redis``, which is sent in a thread."""

    def __init__(self, pipe: Any, run: Callable[..., Awaitable[Any]]) -> None:
        self._pipe = pipe
        self._run = run

    def execute_command(self, *words: Any) -> None:
        """Adds a command. Sends nothing."""
        self._pipe.execute_command(*words)

    async def execute(self, *, raise_on_error: bool) -> Any:
        """Sends the commands; returns their replies."""
        return await self._run(self._pipe.execute, raise_on_error)
