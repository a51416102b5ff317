"""The queues that the page shows, and the servers that they are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import claimq
from claimq.errors import ClaimqError
from claimq_admin.changes.action_record import Record, recorded_in
from claimq_admin.changes.by_hand import name_by_hand
from claimq_admin.errors import CommandError

Json = dict[str, Any]
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

    def shown(self, error: ClaimqError) -> ClaimqError:
        """The error of a queue's server as users of the page may see it."""
        ...

    def decisions(self) -> Mapping[str, Json]:
        """The last scaling decisions by queue, as `claimq why` shows them, of the queues that have one."""
        ...

    def servers(self) -> Iterable[claimq.Server]:
        """The servers of the queues."""
        ...

    def recorder(self, name: str, actor: str, *, adds: bool = False) -> Record:
        """Records actions of a user on a queue of the page. ``adds``: they only add items to it."""
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

    async def suspend(self, name: str, suspended: bool) -> None:
        """Sets ``spec.suspend`` of the ReliableQueue of a queue."""
        ...

    async def drain(self, name: str, worker: str) -> None:
        """Begins to drain a worker of a queue: it claims nothing more, finishes its items and ends."""
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

    def shown(self, error: ClaimqError) -> ClaimqError:
        """The error itself: the server is the user's own."""
        return error

    def recorder(self, name: str, actor: str, *, adds: bool = False) -> Record:
        """Records in the audit log of the queue."""
        queue = self.queue(name)
        if queue is None:
            raise CommandError(f"there is no queue {name}")
        return recorded_in(queue, actor, adds=adds)

    def unreadable(self) -> Mapping[str, str]:
        """None."""
        return {}

    def status(self, name: str) -> Json:  # noqa: ARG002 - as the protocol has it
        """Nothing."""
        return {}

    async def events(self, name: str) -> list[Json]:  # noqa: ARG002 - likewise
        """None."""
        return []

    async def suspend(self, name: str, suspended: bool) -> None:  # noqa: ARG002 - likewise
        """Refused."""
        raise CommandError(f"{name} has no ReliableQueue that could be suspended; pause it")

    async def drain(self, name: str, worker: str) -> None:  # noqa: ARG002 - likewise
        """Refused."""
        raise CommandError(f"claimq did not start {worker}; send SIGTERM to it")


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

    def decisions(self) -> Mapping[str, Json]:
        """The decisions of a local mode that uses this server."""
        return self._decisions()

    def servers(self) -> Iterable[claimq.Server]:
        """The one server."""
        return (self._server,)
