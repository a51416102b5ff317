"""The state that all parts of a queue share: its name, keys and connection, and its worker's name."""

from __future__ import annotations

from typing import Any

from claimq.arguments import of_type
from claimq.codec import check_name
from claimq.errors import StoreMisused
from claimq.model import State
from claimq.queue.removal import Removal
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys
from claimq.redis_store.scripts import Arg


class QueuePart:
    """Base of a queue's parts. :class:`claimq.ReliableQueue` is the public class."""

    def __init__(self, connection: Connection, name: str, worker: str) -> None:
        self.name = check_name("queue", name)
        self.worker = check_name("worker", worker)
        self._connection = connection
        self._keys = Keys(name)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed. Every call then raises StoreUnavailable."""
        return self._connection.is_closed

    async def _read(self, *words: Arg) -> Any:
        """Runs a plain command that only reads keys of this queue, on the primary."""
        return await self._connection.read(self._keys.main, *words)

    async def _wake(self) -> None:
        """Leaves a wake token if there is work and no token. O(1)."""
        await self._connection.run("repair", [self._keys.main], [1])

    async def _delete(self, *, only_if_empty: bool = False, owner: str = "") -> dict[State, int] | None:
        """How many items there were by state; None if the queue was not empty as asked."""
        args: list[Arg] = [int(of_type("only_if_empty", only_if_empty, bool, "True or False")), owner]
        total = Removal()
        while total.more:
            with self._connection.lane() as call:
                reply = await self._connection.run("delete", [self._keys.main], [*call, *args])
            if reply[0] == b"OTHER":
                raise StoreMisused(f"delete: the queue {self.name} belongs to another owner, so it stays")
            if reply[0] == b"HELD":
                return None
            total.add(reply[1])
        return total.by_state()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} as {self.worker}>"
