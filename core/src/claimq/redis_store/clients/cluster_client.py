"""A client for a Redis Cluster: a direct client for each node, and the map from slots to nodes.

The client library has a cluster client too. It closes a node's connections while other tasks connect on them: in an
outage of a node, calls under way raise errors of any class.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError, ResponseError, TryAgainError
from redis.exceptions import ConnectionError as Disconnected

from claimq.redis_store.clients.direct_client import DirectClient, Word

Address = tuple[str, int]
T = TypeVar("T")
_MOST_REDIRECTIONS = 5
_MOST_RANGES = 16_384
_MOST_NODES = 1000
_NEXT_NODE = 0.5
"""Seconds after which another node is asked for the map, if the last one has not answered yet."""
_ASKING = ("ASKING",)


class ClusterClient:
    """A client for one cluster. It repeats a call only where a node has refused it with a redirection."""

    def __init__(self, addresses: Sequence[Address], make_node: Callable[[Address], DirectClient]) -> None:
        self._first = list(addresses)
        self._make_node = make_node
        self._nodes: dict[Address, DirectClient] = {}
        self._starts: list[int] = []
        self._ranges: list[tuple[int, Address]] = []
        """For each start of a range of slots, in their order: its last slot, and its primary."""
        self._moved: dict[int, Address] = {}
        """What redirections have said since the map was read."""
        self._suspects: set[Address] = set()
        """Nodes that have not answered since the map was read."""
        self._reading: asyncio.Task[None] | None = None

    async def evalsha(self, sha: str, numkeys: int, *words: Word) -> Any:
        """Runs a script by its hash, on the node of its first key. Raises as :meth:`DirectClient.evalsha`."""
        return await self._plain(words[0], "EVALSHA", sha, numkeys, *words)

    async def blpop(self, keys: Sequence[str], timeout: float) -> Any:
        """Waits on a connection of its own. If cancelled, it closes that connection."""
        return await self._at(keys[0], lambda node, asks: node.blpop(keys, timeout, before=asks))

    async def ping(self) -> Any:
        """One round trip to a node that serves slots. The next call uses the same connection."""
        if not self._ranges or self._suspects:
            await self._read_map()
        return await self._node(random.choice(self._ranges)[1]).ping()  # noqa: S311 - no secret

    async def execute_command(self, *words: Word) -> Any:
        """Any other command with a key, by the client library's client, which converts the reply."""
        name = words[0]
        if name in ("EVALSHA", "EVAL"):
            return await self._plain(words[3], *words)
        return await self.at(words[2 if name == "MEMORY" else 1], *words)

    async def at(self, key: Word, *words: Word) -> Any:
        """Any command, on the node that serves a key; as :meth:`execute_command`."""

        async def send(node: DirectClient, asks: Sequence[Word] | None) -> Any:
            if asks is None:
                return await node.execute_command(*words)
            _, reply = await node.together(asks, words)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return await self._at(key, send)

    async def together(self, key: Word, *commands: Sequence[Word]) -> list[Any]:
        """Sends commands together on one connection to the node that serves a key. Returns their replies, errors and
        redirections among them."""
        return await self._at(key, lambda node, _: node.together(*commands))

    async def each(
        self,
        keys: Sequence[Word],
        commands_of: Callable[[Sequence[int]], Sequence[Sequence[Word]]],
        note: Callable[[object], None],
    ) -> list[Any]:
        """As :meth:`DirectClient.each`, a command for each key, those of a node together. ``commands_of``: the commands
        for the keys with these positions. One that a node refuses with a redirection is sent again alone."""
        places: dict[DirectClient, list[int]] = {}
        for place, key in enumerate(keys):
            places.setdefault(await self._node_of(_slot(key)), []).append(place)
        replies: list[Any] = [None] * len(keys)
        for of_node in places.values():
            send = partial(_each, commands=commands_of(of_node), note=note)
            some = await self._at(keys[of_node[0]], send)
            for place, reply in zip(of_node, some, strict=True):
                replies[place] = reply
                if isinstance(reply, AskError):  # also a MovedError
                    replies[place] = await self.at(keys[place], *commands_of([place])[0])
                    note(replies[place])
        return replies

    async def new_connection(self, key: Word) -> Any:
        """A connection to the node that serves a key, not connected yet, for the caller alone."""
        return (await self._node_of(_slot(key))).connection_pool.make_connection()

    async def aclose(self) -> None:
        """Closes all connections; running calls end with Disconnected."""
        if self._reading is not None:
            self._reading.cancel()
        nodes, self._nodes = list(self._nodes.values()), {}
        await asyncio.gather(*(node.aclose() for node in nodes), return_exceptions=True)

    async def _plain(self, key: Word, *words: Word) -> Any:
        return await self._at(key, lambda node, asks: node.plain(*words, before=asks))

    async def _at(self, key: Word, send: Callable[[DirectClient, Sequence[Word] | None], Awaitable[T]]) -> T:
        """Sends a command to the node of a key; follows redirections."""
        slot = _slot(key)
        asks: Sequence[Word] | None = None
        node = await self._node_of(slot)
        for _ in range(_MOST_REDIRECTIONS):
            try:
                return await send(node, asks)
            except AskError as error:  # with an empty host: another port of the node that has sent it
                address, asks = (error.host or self._address(node)[0], error.port), _ASKING
                if isinstance(error, MovedError):
                    self._moved[slot], asks = address, None
            except ClusterDownError:
                self._suspects.add(self._address(node))
                raise
            except ResponseError:
                raise
            except Exception:
                self._suspects.add(self._address(node))
                await node.forget()
                raise
            node = self._node(address)
        self._suspects.update(
            self._nodes
        )  # the next call reads the map, which closes those that are not in it
        raise TryAgainError("TRYAGAIN too many redirections")

    def _address(self, node: DirectClient) -> Address:
        return next(
            (address for address, candidate in self._nodes.items() if candidate is node), self._first[0]
        )

    def _node(self, address: Address) -> DirectClient:
        if address not in self._nodes:
            self._nodes[address] = self._make_node(address)
        return self._nodes[address]

    async def _node_of(self, slot: int) -> DirectClient:
        address = self._known(slot)
        if address is None or address in self._suspects:
            await self._read_map()
            address = self._known(slot)
        if address is None:
            raise ClusterDownError("CLUSTERDOWN no node serves the slot")
        return self._node(address)

    def _known(self, slot: int) -> Address | None:
        if slot in self._moved:
            return self._moved[slot]
        at = bisect_right(self._starts, slot) - 1
        return self._ranges[at][1] if at >= 0 and slot <= self._ranges[at][0] else None

    async def _read_map(self) -> None:
        """Reads the map; calls at the same time wait for the same reading."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.shield(self._reading)
        except asyncio.CancelledError:
            if self._reading.cancelled():  # the client was closed
                raise Disconnected("the client is closed") from None
            raise

    async def _read(self) -> None:
        """Asks one node after the other, those that did not answer lately last; the first answer counts."""
        waiting = list({*self._nodes, *self._first})
        random.shuffle(waiting)
        waiting.sort(key=lambda address: address in self._suspects)
        running = set[asyncio.Task[list[tuple[int, int, Address]]]]()
        failure: BaseException = Disconnected("Redis Cluster cannot be connected")
        try:
            while waiting or running:
                if waiting:
                    running.add(asyncio.ensure_future(self._map_of(waiting.pop(0))))
                done, running = await asyncio.wait(
                    running, timeout=_NEXT_NODE if waiting else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    if (error := task.exception()) is None:
                        await self._adopt(task.result())
                        return
                    if isinstance(error, RedisError) or not isinstance(failure, ResponseError):
                        failure = error
        finally:
            for task in running:
                task.cancel()
        raise failure

    async def _map_of(self, address: Address) -> list[tuple[int, int, Address]]:
        """The ranges of slots, and their primaries, as a node reports them."""
        reply = await self._node(address).plain("CLUSTER", "SLOTS")
        ranges = sorted(_range_of(entry, address[0]) for entry in reply[:_MOST_RANGES])
        if not ranges or len({primary for _, _, primary in ranges}) > _MOST_NODES:
            raise ClusterDownError("CLUSTERDOWN the node knows no slots, or more nodes than a cluster has")
        return ranges

    async def _adopt(self, ranges: Sequence[tuple[int, int, Address]]) -> None:
        self._starts = [first for first, _, _ in ranges]
        self._ranges = [(last, address) for _, last, address in ranges]
        self._moved, self._suspects = {}, set()
        current = {*self._first, *(address for _, address in self._ranges)}
        gone = [self._nodes.pop(address) for address in list(self._nodes) if address not in current]
        await asyncio.gather(*(node.aclose() for node in gone), return_exceptions=True)


async def _each(
    node: DirectClient,
    _: Sequence[Word] | None,
    commands: Sequence[Sequence[Word]],
    note: Callable[[object], None],
) -> list[Any]:
    return await node.each(commands, note)


def _range_of(entry: Any, host: str) -> tuple[int, int, Address]:
    """One entry of CLUSTER SLOTS. An unknown host is that of the node that has answered."""
    first, last, primary = entry[:3]
    name = primary[0].decode() if primary[0] else ""
    return int(first), int(last), (host if name in ("", "?") else name, int(primary[1]))


def _slot(key: Word) -> int:
    return key_slot(key if isinstance(key, bytes) else str(key).encode())
