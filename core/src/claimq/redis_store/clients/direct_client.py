"""Scripts and waits on the client library's connections, without its client.

The library's client wraps every call in a pool with a lock, a retry and telemetry. That makes a call two to three
times as expensive as on the connection alone, and a waiting claim makes three. The connections are a public part of
the library and handle TLS, authentication, databases and Sentinel; here each serves one call at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ReadOnlyError, ResponseError

from claimq.redis_store.clients.parsers import InactivityTimeout

pack: Any  # the client library's asynchronous connections would pack in Python, word by word
try:
    from hiredis import pack_command as pack
except ImportError:
    pack = None

Word = str | bytes | int | float
T = TypeVar("T")
_NUMBERS = frozenset({int, float, bool})


class DirectClient:
    """A client for one server that runs scripts and waits on connections directly. It never sends anything twice."""

    def __init__(self, client: Any, *, reply_timeout: float, most: int) -> None:
        self._client = client
        self._reply_timeout = reply_timeout
        self._most = most
        self._free: list[Any] = []
        self._room = asyncio.Semaphore(most)
        self._generation = 0
        self._open: set[Any] = set()

    async def evalsha(self, sha: str, numkeys: int, *words: Word) -> Any:
        """Runs a script by its hash. Raises the client library's errors, TimeoutError, OSError."""
        return await self._call(("EVALSHA", sha, numkeys, *words), self._reply_timeout)

    async def read(self, guard: Sequence[Word], words: Sequence[Word]) -> Any:
        """Runs a script that only reads, if the server is the primary; raises Disconnected if it is a replica.

        ``guard`` is a write without an effect, sent before the script on the same connection.
        """
        return await self._call(words, self._reply_timeout, guard=guard)

    async def ping(self) -> Any:
        """One round trip on a connection that the next call then takes. Raises as :meth:`evalsha`."""
        return await self._call(("PING",), self._reply_timeout)

    async def blpop(
        self, keys: Sequence[str], timeout: float, *, before: Sequence[Word] | None = None
    ) -> Any:
        """Waits on a connection of its own. If cancelled, it closes that connection. ``before`` as in :meth:`plain`."""
        return await self._call(("BLPOP", *keys, timeout), timeout + self._reply_timeout, guard=before)

    async def evalsha_after_blpop(
        self, key: str, timeout: float, sha: str, numkeys: int, *words: Word
    ) -> Any:
        """Waits as :meth:`blpop`, then runs a script by its hash and returns its reply.

        The script is sent after the reply to the wait, never before: nothing is claimed over a connection that is
        already dead.
        """
        script = ("EVALSHA", sha, numkeys, *words)
        return await self._call(("BLPOP", key, timeout), timeout + self._reply_timeout, then=script)

    async def plain(self, *words: Word, before: Sequence[Word] | None = None) -> Any:
        """A command whose reply needs no conversion, on a connection for scripts. ``before``: a command that is sent
        before it, whose reply does not matter. Raises as :meth:`evalsha`."""
        return await self._call(words, self._reply_timeout, guard=before)

    async def execute_command(self, *words: Word, **options: Any) -> Any:
        """Any other command, by the client library's client, which converts the reply."""
        return await self._client.execute_command(*words, **options)

    def pipeline(self, *, transaction: bool) -> Any:
        """A pipeline of the client library: commands that are sent together on one connection."""
        return self._client.pipeline(transaction=transaction)

    async def together(self, *commands: Sequence[Word]) -> list[Any]:
        """Sends commands together on one connection; returns their replies, errors among them."""
        pipe = self._client.pipeline(transaction=False)
        for words in commands:
            pipe.execute_command(*words)
        return list(await pipe.execute(raise_on_error=False))

    async def each(self, commands: Sequence[Sequence[Word]], note: Callable[[object], None]) -> list[Any]:
        """As :meth:`together`, without conversions. ``note`` is called with each reply when it arrives; if it raises
        an error, the others are not read."""
        replies: list[Any] = []

        async def talk(connection: Any) -> list[Any]:
            words = [piece for command in commands for piece in packed(connection, command)]
            await connection.send_packed_command(words, check_health=False)
            while len(replies) < len(commands):
                try:
                    replies.append(await connection.read_response(disable_decoding=True))
                except ResponseError as error:
                    replies.append(error)
                note(replies[-1])
            return replies

        return await self._exchange(self._reply_timeout, talk)

    async def _call(
        self,
        words: Sequence[Word],
        seconds: float,
        *,
        then: Sequence[Word] | None = None,
        guard: Sequence[Word] | None = None,
    ) -> Any:
        async def talk(connection: Any) -> Any:
            # Both are packed before the wait, so that the second is sent sooner.
            commands = [packed(connection, command) for command in (words, then) if command is not None]
            if guard is not None:
                commands[0] = packed(connection, guard) + commands[0]
            reply: Any = None
            for command in commands:
                await connection.send_packed_command(command, check_health=False)
                if guard is not None:
                    await _check_guard(connection)
                reply = await connection.read_response(disable_decoding=True)
            return reply

        return await self._exchange(seconds, talk)

    async def _exchange(self, seconds: float, talk: Callable[[Any], Awaitable[T]]) -> T:
        """Sends and reads on a connection of its own, which stays open if all replies were read."""
        generation = self._generation
        await self._enter()
        connection: Any = None
        try:
            async with InactivityTimeout(seconds, self._reply_timeout):
                connection = self._free.pop() if self._free else await self._connected()
                reply = await talk(connection)
        except ResponseError:
            await self._give(connection, generation)
            raise
        except BaseException:
            await self._drop(connection)
            raise
        finally:
            self._room.release()
        await self._give(connection, generation)
        return reply

    async def _enter(self) -> None:
        if not self._room.locked():
            await self._room.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(self._reply_timeout):
                await self._room.acquire()
        except TimeoutError as error:
            raise Disconnected(f"{self._most} connections are in use; make fewer calls at once") from error

    async def _connected(self) -> Any:
        connection = self._client.connection_pool.make_connection()
        connection.socket_timeout = None  # every call has its own
        self._open.add(connection)
        try:
            await connection.connect()
        except BaseException:
            await self._drop(connection)
            raise
        return connection

    async def _give(self, connection: Any, generation: int) -> None:
        """Keeps a connection for the next call. Closes a broken one, and one older than an error of another."""
        if connection is None:
            return
        if generation == self._generation and connection.is_connected:
            self._free.append(connection)
        else:
            await self._drop(connection)

    async def _drop(self, connection: Any) -> None:
        """Closes a connection on which a reply may still arrive, or that may be broken."""
        if connection is not None:
            self._open.discard(connection)
            await connection.disconnect(nowait=True)

    @property
    def connection_pool(self) -> Any:
        """The client library's pool, for commands that are not run directly."""
        return self._client.connection_pool

    async def forget(self) -> None:
        """Closes idle connections after an error: the next call makes a new one. Running calls go on."""
        self._generation += 1
        free, self._free = self._free, []
        for connection in free:
            await self._drop(connection)

    async def aclose(self) -> None:
        """Closes all connections; running calls end with Disconnected."""
        self._generation += 1
        free, self._free = self._free, []
        self._open.difference_update(free)
        # Wait for idle ones: TLS sends a closing message, and the loop may be closed right after this.
        await asyncio.gather(*(connection.disconnect() for connection in free), return_exceptions=True)
        for connection in list(self._open):
            await self._drop(connection)
        await self._client.aclose()
        pool = self._client.connection_pool
        await pool.disconnect()
        for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
            await sentinel.aclose()


async def _check_guard(connection: Any) -> None:
    """Reads the reply to a write without an effect: raises Disconnected if a replica refused it, so that the
    connection is closed. Another refusal (a full disk, missing replicas) says nothing against a read."""
    try:
        await connection.read_response(disable_decoding=True)
    except ReadOnlyError as error:
        raise Disconnected("the server is a replica") from error
    except ResponseError:
        return


def packed(connection: Any, words: Sequence[Word]) -> list[bytes]:
    """A command in pieces, to be sent one after the other.

    Numbers are made text here: where hiredis 3.5 does that, an exception of a signal handler crashes the process.
    """
    texts = tuple([str(word) if type(word) in _NUMBERS else word for word in words])
    return [pack(texts)] if pack else connection.pack_command(*texts)
