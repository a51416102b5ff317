"""The queues that the page shows, and the servers that they are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from starlette.exceptions import HTTPException

import claimq

Json = dict[str, Any]


class Queues(Protocol):
    """Where the page reads. `claimq web` and `claimq up` each have one."""

    async def names(self) -> Sequence[str]:
        """The names of the queues, sorted."""
        ...

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        """The queue of that name; None for one that the page does not show. InvalidName."""
        ...

    def decisions(self) -> Mapping[str, Json]:
        """The last scaling decisions by queue, as `claimq why` shows them, of the queues that have one."""
        ...

    def servers(self) -> Iterable[claimq.Server]:
        """The servers of the queues."""
        ...


class ServerQueues:
    """The queues of one server: the named ones, or all that its index has."""

    def __init__(
        self, server: claimq.Server, chosen: Sequence[str], decisions: Callable[[], Mapping[str, Json]]
    ) -> None:
        self._server = server
        self._chosen = tuple(chosen)
        self._decisions = decisions

    async def names(self) -> Sequence[str]:
        """The names of the queues, sorted. Reads the index without removing deleted queues from it."""
        return sorted(self._chosen) if self._chosen else await self._server.queues(only_existing=False)

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        """The queue of that name, also one that is not in the index. InvalidName."""
        return None if self._chosen and name not in self._chosen else self._server.queue(name)

    def decisions(self) -> Mapping[str, Json]:
        """The decisions of a local mode that uses this server."""
        return self._decisions()

    def servers(self) -> Iterable[claimq.Server]:
        """The one server."""
        return (self._server,)


def no_queue(name: str) -> HTTPException:
    """The answer where there is no such queue."""
    return HTTPException(404, f"there is no queue {name[:200]} on this server")
