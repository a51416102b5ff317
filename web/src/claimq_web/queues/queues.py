"""The queues that the page shows, and the servers that they are on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import claimq
from claimq.errors import ClaimqError
from claimq.model import Snapshot
from claimq_admin.by_hand import name_by_hand
from claimq_admin.changes.queue_admin import QueueAdmin, admin_of
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import snapshots_together

Group = tuple[Sequence[str], Callable[[], Awaitable[Mapping[str, Snapshot | None]]]]
"""Names of queues, and what reads their snapshots."""
_TOGETHER = 1000
"""Queues of one server that are read together."""
MOST_EVENTS = 50
"""Events that the page of a queue shows."""


class Queues(Protocol):
    """Where the page reads. `claimq web` and `claimq up` each have one, and the page of a cluster."""

    when_empty: str
    """What the page says when it has no queue to show."""

    @property
    def problem(self) -> str:
        """Why the list of queues is not up to date; empty if it is."""
        ...

    async def names(self) -> Sequence[str]:
        """The names of the queues, sorted."""
        ...

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        """The queue of that name; None for one that the page does not show. InvalidName."""
        ...

    async def check(self, name: str) -> None:
        """Returns if the page may show and change the queue of that name. ClaimqError."""
        ...

    def together(self, names: Sequence[str]) -> Iterable[Group]:
        """These queues in groups that are read with few round trips. A read checks each as :meth:`check` does, and
        raises ClaimqError; it returns None for a queue that does not exist."""
        ...

    def command(self, name: str, verb: str) -> str:
        """The command of a user about a queue."""
        ...

    def shown(self, error: ClaimqError) -> ClaimqError:
        """The error of a queue's server as users of the page may see it."""
        ...

    def decisions(self) -> Mapping[str, Json]:
        """The last scaling decisions by queue, as `claimq why` shows them, of the queues that have one."""
        ...

    def servers(self) -> Iterable[claimq.Server]:
        """The servers of the queues."""
        ...

    def admin(self, name: str, user: str) -> QueueAdmin | None:
        """The queue of that name, for changes by a user; None as for :meth:`queue`."""
        ...

    def unreadable(self) -> Mapping[str, str]:
        """The queues that cannot be read, and why."""
        ...

    def status(self, name: str) -> Json:
        """The status of the ReliableQueue of a queue, and ``suspend``; empty if it has none."""
        ...

    async def events(self, name: str) -> list[Json]:
        """The latest Events of Kubernetes about a queue, newest first."""
        ...


class QueuesWithoutObjects:
    """What queues that no ReliableQueue of Kubernetes stands for have in common."""

    when_empty = (
        "This server has no list of queues. Open one by its address, /queues/NAME, or name it on the command line: "
        "claimq web NAME."
    )
    problem = ""

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        """The queue of that name."""
        raise NotImplementedError

    async def check(self, name: str) -> None:
        """Every queue of the server may be shown."""

    def together(self, names: Sequence[str]) -> Iterable[Group]:  # noqa: ARG002 - as the protocol has it
        """None: each is read alone."""
        return ()

    def command(self, name: str, verb: str) -> str:
        """The command, without the options that choose the server: the user knows them."""
        return f"claimq {verb} {name}"

    def shown(self, error: ClaimqError) -> ClaimqError:
        """The error itself: the server is the user's own."""
        return error

    def admin(self, name: str, user: str) -> QueueAdmin | None:
        """The queue of that name, for changes that are recorded in its audit log."""
        queue = self.queue(name)
        return None if queue is None else admin_of(queue, user)

    def unreadable(self) -> Mapping[str, str]:
        """None."""
        return {}

    def status(self, name: str) -> Json:  # noqa: ARG002 - as the protocol has it
        """Nothing."""
        return {}

    async def events(self, name: str) -> list[Json]:  # noqa: ARG002 - likewise
        """None."""
        return []


class ServerQueues(QueuesWithoutObjects):
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
        return (
            None
            if self._chosen and name not in self._chosen
            else self._server.queue(name, worker=name_by_hand())
        )

    def together(self, names: Sequence[str]) -> Iterable[Group]:
        """Groups of 1,000."""
        pages = [names[begin : begin + _TOGETHER] for begin in range(0, len(names), _TOGETHER)]
        return [(page, partial(snapshots_together, self._server, page)) for page in pages]

    def decisions(self) -> Mapping[str, Json]:
        """The decisions of a local mode that uses this server."""
        return self._decisions()

    def servers(self) -> Iterable[claimq.Server]:
        """The one server."""
        return (self._server,)
