"""The state that all parts of a queue share: its name, keys and connection, and its worker's name."""

from __future__ import annotations

from claimq.codec import check_name
from claimq.errors import StoreMisused
from claimq.model import State
from claimq.redis_store.connection import Arg, Connection
from claimq.redis_store.keys import Keys


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

    async def _wake(self) -> None:
        """Leaves a wake token if there is work and no token. O(1)."""
        await self._connection.run("repair", [self._keys.main], [1])

    async def _delete(self, *, only_if_empty: bool = False, owner: str = "") -> dict[State, int] | None:
        """How many items there were by state; None if the queue was not empty as asked."""
        with self._connection.lane() as call:
            args: list[Arg] = [*call, int(only_if_empty), owner]
            reply = await self._connection.run("delete", [self._keys.main], args)
        if reply[0] == b"OTHER":
            raise StoreMisused(f"delete: the queue {self.name} belongs to another owner, so it stays")
        return None if reply[0] == b"HELD" else read_counts(reply[1])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} as {self.worker}>"


def read_counts(reply: bytes) -> dict[State, int]:
    """Items by state, as scripts return them: "MAIN BUSY DELAYED FAILED"."""
    counts = map(int, reply.split())
    return dict(zip((State.MAIN, State.BUSY, State.DELAYED, State.FAILED), counts, strict=True))
