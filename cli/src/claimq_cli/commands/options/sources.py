"""Where commands read several queues: servers, or a web page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import claimq
from claimq_admin.reads.queue_reads import ReadableQueue
from claimq_admin.remote.page_api import PageApi
from claimq_admin.remote.remote_queue import RemoteQueue
from claimq_admin.server_choice import Chosen
from claimq_cli.commands.options.queue_names import check_exists


class Source(Protocol):
    """A place with queues."""

    known: Collection[str]
    """Queues that it has without being asked."""

    async def names(self) -> list[str]:
        """All its queues, sorted. ClaimqError or CommandError."""
        ...

    def queue(self, name: str) -> ReadableQueue:
        """The queue of that name."""
        ...

    async def check(self, name: str) -> None:
        """CommandError if there is no such queue."""
        ...


class OfServer:
    """The queues of a server; with ``is_cluster`` only those of ReliableQueues."""

    def __init__(self, chosen: Chosen, server: claimq.Server, *, is_cluster: bool) -> None:
        self.known: Collection[str] = chosen.queues.keys()
        self._chosen = chosen
        self._server = server
        self._is_cluster = is_cluster

    async def names(self) -> list[str]:
        """See :class:`Source`."""
        more_names = [] if self._is_cluster else await self._server.queues()
        return sorted({*self.known, *more_names})

    def queue(self, name: str) -> claimq.ReliableQueue:
        """See :class:`Source`."""
        return self._server.queue(self._chosen.queue_name(name))

    async def check(self, name: str) -> None:
        """See :class:`Source`."""
        await check_exists(self._server, self.queue(name))


class OfPage:
    """The queues of a web page that its user may see."""

    def __init__(self, page: PageApi) -> None:
        self.known: Collection[str] = ()
        self._page = page

    async def names(self) -> list[str]:
        """See :class:`Source`."""
        return sorted(await self._page.names())

    def queue(self, name: str) -> RemoteQueue:
        """See :class:`Source`."""
        return RemoteQueue(self._page, name)

    async def check(self, name: str) -> None:
        """See :class:`Source`."""
        await self.queue(name).status()
