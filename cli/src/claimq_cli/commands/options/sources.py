"""A server whose queues a command reads."""

from __future__ import annotations

from collections.abc import Sequence

import claimq
from claimq.internals.several_queues import lengths_of, used_names
from claimq.model import Snapshot, State, WorkerInfo
from claimq_admin.name_order import in_order
from claimq_admin.reads.queue_reads import statuses_of
from claimq_admin.server_choice import Chosen
from claimq_cli.commands.options.queue_names import check_exists


class Source:
    """The queues of a server; with ``is_cluster`` only those of ReliableQueues. ``known``: the names of queues that it
    has without being asked."""

    def __init__(self, chosen: Chosen, server: claimq.Server, *, is_cluster: bool) -> None:
        self.known = chosen.queues.keys()
        self._chosen = chosen
        self._server = server
        self._is_cluster = is_cluster

    async def names(self, *, only_existing: bool = True) -> list[str]:
        """All its queues, sorted; without ``only_existing`` also those that were deleted and are in its list still.
        ClaimqError."""
        more_names = [] if self._is_cluster else await self._server.queues(only_existing=only_existing)
        return sorted({*self.known, *more_names}, key=in_order)

    async def first_names(self, most: int) -> list[str]:
        """The first of its names; fewer if some of these queues were deleted."""
        names = (await self.names(only_existing=False))[:most]
        of_index = [name for name in names if name not in self.known]
        gone = {*of_index} - {*await used_names(self._server.connection, of_index)}
        return [name for name in names if name not in gone]

    async def lengths(self, names: Sequence[str]) -> list[dict[State, int]]:
        """Of the queues of those names, in their order."""
        return await lengths_of(self._server.connection, list(map(self._chosen.queue_name, names)))

    async def statuses(self, names: Sequence[str]) -> list[tuple[Snapshot, list[WorkerInfo]]]:
        """Snapshot and live workers of the queues of those names, in their order."""
        return await statuses_of(self._server, list(map(self._chosen.queue_name, names)))

    def queue(self, name: str) -> claimq.ReliableQueue:
        """The queue of that name."""
        return self._server.queue(self._chosen.queue_name(name))

    async def check(self, name: str) -> None:
        """CommandError if there is no such queue."""
        await check_exists(self._server, self.queue(name))
