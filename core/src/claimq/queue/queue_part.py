"""What every part of a queue stands on: its name, its keys, its connection, its worker's name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from claimq.codec import check_name
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys


class QueuePart:
    """The common state of a queue's parts; make a :class:`claimq.ReliableQueue` instead."""

    def __init__(self, connection: Connection, name: str, worker: str) -> None:
        self.name = check_name("queue", name)
        self.worker = check_name("worker", worker)
        self._connection = connection
        self._keys = Keys(name)

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed; every call then raises StoreUnavailable."""
        return self._connection.is_closed

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs work that must not end with its caller; closing the server waits for it."""
        return self._connection.in_background(work)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} as {self.worker}>"
