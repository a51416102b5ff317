"""The servers of the ReliableQueues of one namespace, as a command uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import claimq
from claimq.address.redis_url import parse_url
from claimq.errors import ClaimqError
from claimq_admin.cluster.owner_check import check_owner_or_name
from claimq_admin.cluster.server_settings import ClusterQueue
from claimq_admin.errors import CommandError
from claimq_admin.reads.decisions import decision_of
from claimq_cli.cluster.event_loop import ForwardingEventLoop
from claimq_cli.cluster.kubectl import KIND, Kubectl
from claimq_cli.cluster.port_forwards import PortForwards
from claimq_cli.cluster.reliable_queues import ReliableQueues
from claimq_control.grants import QueueGrants


class ClusterAccess:
    """Finds servers by their ReliableQueues and forwards ports to those inside the cluster, until it is closed."""

    def __init__(self, kubectl: Kubectl, grants: QueueGrants, *, retry_for: float) -> None:
        """``grants``: what queues may use besides what their namespaces and Secrets allow. ``retry_for``: for the
        settings of connections, in seconds."""
        self.kubectl = kubectl
        self._grants = grants
        self._directory = TemporaryDirectory(prefix="claimq-")  # readable only by this user
        directory = Path(self._directory.name)
        self._queues = ReliableQueues(kubectl, directory, grants.password_hosts, retry_for=retry_for)
        self._forwards = PortForwards(kubectl)
        self._namespace = kubectl.namespace
        self._found: dict[str, ClusterQueue] = {}

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which connections to the servers must be made."""
        return ForwardingEventLoop(self._find_port)

    async def queue(self, name: str) -> ClusterQueue:
        """The queue of this ReliableQueue; the ports of its server are open.

        CommandError, InvalidSpec, and ClaimqError if its server does not answer or has another owner on record.
        """
        if name not in self._found:
            queue = await asyncio.to_thread(self._queues.read, name)
            await self._open_ports(queue)
            for error in filter(None, await self.owner_errors([queue])):
                raise error
            self._found[name] = queue
        return self._found[name]

    async def decision(self, name: str) -> Mapping[str, Any]:
        """The last decision of the operator about a queue, with its conditions. CommandError if kubectl fails."""
        return decision_of(await asyncio.to_thread(self.kubectl.get, f"{KIND}/{name}"))

    async def all_queues(self) -> tuple[list[ClusterQueue], list[str]]:
        """As :meth:`usable_queues`, without those whose server does not answer or has another owner on record.

        CommandError or ClaimqError if none can be used."""
        queues, problems = await self.usable_queues()
        errors = dict(zip(queues, await self.owner_errors(queues), strict=True))
        problems += [f"{queue.name}: {error}" for queue, error in errors.items() if error is not None]
        usable = [queue for queue, error in errors.items() if error is None]
        if not usable:
            raise next(filter(None, errors.values()), CommandError("; ".join(problems)))
        return usable, problems

    async def owner_errors(self, queues: Iterable[ClusterQueue]) -> list[ClaimqError | None]:
        """Of each queue: the error if its server does not answer or has another owner on record, or None."""
        return await asyncio.gather(*map(self._owner_error, queues))

    async def _owner_error(self, queue: ClusterQueue) -> ClaimqError | None:
        try:
            async with claimq.connect(settings=queue.settings) as server:
                await check_owner_or_name(server.queue(queue.queue_name), queue, self._grants)
        except ClaimqError as error:
            return error
        return None

    async def usable_queues(self) -> tuple[list[ClusterQueue], list[str]]:
        """As :meth:`queue`, for all ReliableQueues of the namespace that can be used. Also a line with the error of
        each other one. CommandError if kubectl fails or there is none."""
        queues, problems = await asyncio.to_thread(self._queues.read_all)
        usable: list[ClusterQueue] = []
        for queue in queues:
            try:
                await self._open_ports(queue)
                usable.append(queue)
            except CommandError as error:
                problems.append(f"{queue.name}: {error}")
        return usable, problems

    async def _open_ports(self, queue: ClusterQueue) -> None:
        self._namespace = queue.namespace
        for host, port in parse_url(queue.settings.url).addresses:
            await self._find_port(host, port)

    async def _find_port(self, host: str, port: int) -> int | None:
        return await self._forwards.local_port(host, port, self._namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._forwards.close()
        self._directory.cleanup()
