"""Options, connection and event loop of the commands that use a server."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

import claimq
from claimq.codec import check_name
from claimq.errors import ClaimqError
from claimq_admin.changes.action_record import Destination, destination_of, recorded_in
from claimq_admin.changes.by_hand import name_by_hand
from claimq_admin.changes.local_user import local_user
from claimq_admin.direct_admin import DirectAdmin
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.queue_admin import QueueAdmin
from claimq_admin.reads.queue_reads import ReadableQueue
from claimq_admin.remote.page_api import PageApi
from claimq_admin.remote.remote_queue import RemoteQueue
from claimq_admin.remote_admin import RemoteAdmin
from claimq_admin.server_choice import RETRY_SECONDS, Chosen, StillStarting, choose
from claimq_admin.similar_names import did_you_mean
from claimq_cli.cluster.kubectl import Kubectl, selected
from claimq_cli.commands.options.needs_server import needs_server
from claimq_cli.commands.options.option_types import server_url
from claimq_cli.commands.options.queue_names import NewQueue, check_exists
from claimq_cli.commands.options.sources import OfPage, OfServer, Source
from claimq_cli.output.answers import FORMS, Answers
from claimq_cli.output.terminal import say_error

if TYPE_CHECKING:
    from claimq_admin.cluster.server_settings import ClusterQueue
    from claimq_cli.cluster.access import ClusterAccess

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
_START_SECONDS = 10.0
"""How long a command waits for a local mode that is starting."""


@dataclass(frozen=True, slots=True)
class Context:
    """The server that a command uses, and how it prints its result."""

    url: str | None
    data: Path | None
    answers: Answers
    cluster: ClusterAccess | None = None
    page: PageApi | None = None

    async def servers(self, queue: str | None) -> list[Chosen]:
        """The server of a queue; for None the server of no particular queue, or those of all ReliableQueues of the
        namespace (for each that cannot be used it prints an error). CommandError if none can be found."""
        if queue is not None:
            check_name("queue", queue)
        if self.page is not None:
            raise needs_server(click.get_current_context().info_name or "")
        if self.cluster is None:
            return [await self._started(queue)]
        if queue is not None:
            return servers_of([await self.cluster.queue(queue)])
        queues, problems = await self.cluster.all_queues()
        for problem in problems:
            say_error(problem)
        return servers_of(queues)

    async def _started(self, queue: str | None) -> Chosen:
        """The server that the options choose. Waits for a local mode that is starting."""
        clock = asyncio.get_running_loop().time
        end = clock() + _START_SECONDS
        while True:
            try:
                return choose(self.url, self.data, queue)
            except StillStarting:
                if clock() > end:
                    raise
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def sources(self, queue: str | None) -> AsyncGenerator[list[Source]]:
        """All of :meth:`servers`, or the page of --web-api."""
        async with AsyncExitStack() as stack:
            if self.page is not None:
                yield [OfPage(self.page)]
                return
            yield [
                OfServer(
                    chosen,
                    await stack.enter_async_context(claimq.connect(settings=chosen.settings)),
                    is_cluster=self.cluster is not None,
                )
                for chosen in await self.servers(queue)
            ]

    async def from_sources(self, queue: str | None, read: Callable[[Source], Awaitable[list[R]]]) -> list[R]:
        """What ``read`` finds in all of :meth:`sources`. An error of one of several is printed with its queues; only if
        all of them fail, the first error is raised.
        """

        async def read_one(source: Source) -> list[R] | ClaimqError:
            try:
                return await read(source)
            except ClaimqError as error:
                return error

        async with self.sources(queue) as sources:
            results = await asyncio.gather(*map(read_one, sources))
        errors = [answer for answer in results if isinstance(answer, ClaimqError)]
        if errors and len(errors) == len(sources):
            raise errors[0]
        answers: list[R] = []
        for source, answer in zip(sources, results, strict=True):
            if isinstance(answer, ClaimqError):
                say_error(f"{', '.join(source.known)}: {answer}")
            else:
                answers += answer
        return answers

    async def chosen(self, queue: str | None) -> Chosen:
        """Like :meth:`servers`, if there is only one; CommandError if there are several."""
        servers = await self.servers(queue)
        if len(servers) > 1:
            raise CommandError(
                f"the ReliableQueues of the namespace use {len(servers)} servers; give the name of one", USAGE
            )
        return servers[0]

    @asynccontextmanager
    async def queue(self, name: str, *, worker: str = "") -> AsyncGenerator[claimq.ReliableQueue]:
        """The queue, connected inside the block. CommandError if it does not exist.

        ``worker``: the name of a worker; without one, claims are those of a command that acts on items."""
        chosen = await self.chosen(name)
        async with claimq.connect(settings=chosen.settings) as server:
            queue = server.queue(chosen.queue_name(name), worker=worker or name_by_hand())
            await check_exists(server, queue)
            yield queue

    @asynccontextmanager
    async def read_queue(self, name: str) -> AsyncGenerator[ReadableQueue]:
        """Like :meth:`queue`, for reads, which are also possible with --web-api."""
        if self.page is not None:
            yield RemoteQueue(self.page, name)
            return
        async with self.queue(name) as queue:
            yield queue

    @asynccontextmanager
    async def admin(self, name: str, *, target: str = "") -> AsyncGenerator[QueueAdmin]:
        """The queue, for changes by the user of this process. ``target``: the queue that items are moved to."""
        if self.page is not None:
            yield RemoteAdmin(self.page, name, self.page.name_on_page(target) if target else "")
            return
        async with self.queue(name) as queue, self.queue(target) if target else nullcontext() as other:
            yield _direct(queue, destination_of(other, local_user()) if other else None)

    @asynccontextmanager
    async def filled_queue(
        self, name: str, *, is_dry: bool = False
    ) -> AsyncGenerator[tuple[claimq.ReliableQueue, NewQueue | None]]:
        """A queue that may be new, and what to report of that; None if it existed before.

        With ``is_dry`` it is not added to the list of `claimq queues`, nor if it was not created.
        """
        chosen = await self.chosen(name)
        async with claimq.connect(settings=chosen.settings) as server:
            queue, new_queue = server.queue(chosen.queue_name(name)), None
            if not await queue.exists():
                new_queue = NewQueue(did_you_mean(name, await server.queues()))
            yield queue, new_queue
            if new_queue and not is_dry and await queue.exists():
                await queue.add_to_index()

    @asynccontextmanager
    async def filled_admin(self, name: str) -> AsyncGenerator[tuple[QueueAdmin, NewQueue | None]]:
        """Like :meth:`filled_queue`, also with --web-api; then the page refuses a queue that does not exist."""
        if self.page is not None:
            yield RemoteAdmin(self.page, name), None
            return
        async with self.filled_queue(name) as (queue, new_queue):
            yield _direct(queue), new_queue


def _direct(queue: claimq.ReliableQueue, destination: Destination | None = None) -> DirectAdmin:
    return DirectAdmin(queue, recorded_in(queue, local_user()), destination)


def servers_of(queues: Iterable[ClusterQueue]) -> list[Chosen]:
    """The servers that the queues of ReliableQueues use."""
    servers: dict[claimq.RedisSettings, dict[str, str]] = {}
    for queue in queues:
        servers.setdefault(queue.settings, {})[queue.name] = queue.queue_name
    return [Chosen(settings, names) for settings, names in servers.items()]


def _cluster_access(kubectl: Kubectl) -> ClusterAccess:
    # Only for a cluster: it reads manifests, which takes long.
    from claimq_admin.cluster.granted import granted
    from claimq_cli.cluster.access import ClusterAccess

    return ClusterAccess(kubectl, granted(), retry_for=RETRY_SECONDS)


def _page_at(
    address: str, namespace: str | None, kube_context: str | None
) -> AbstractAsyncContextManager[PageApi]:
    from claimq_cli.cluster.page_choice import page_at

    return page_at(address, namespace, kube_context)


def output_option(default: str | None) -> Callable[[F], F]:
    """The option for the format of the output."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMS),
        default=default,
        show_default=default is not None,
        help="Format of the output.",
    )


def cluster_options(command: F) -> F:
    """The options that select ReliableQueues of a cluster."""
    command = click.option(
        "--context",
        "kube_context",
        metavar="CONTEXT",
        help="Use ReliableQueues, with this context of kubectl's configuration (default: the current one).",
    )(command)
    return click.option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="Use the ReliableQueues of this namespace (default with --context: that of the context).",
    )(command)


def common_options(*, output: str | None) -> Callable[[F], F]:
    """The options for the server, and that for the format with this default."""

    def decorate(command: F) -> F:
        command = cluster_options(output_option(output)(command))
        command = click.option(
            "--web-api",
            "page_address",
            metavar="ADDRESS",
            help="Use the web page at this URL, or that of the Service svc/NAMESPACE/NAME, instead of the server.",
        )(command)
        command = click.option(
            "--data",
            type=click.Path(path_type=Path),
            help="Use the server of the `claimq up` with this state directory.",
        )(command)
        return server_url(
            "--redis",
            "url",
            instead="set CLAIMQ_REDIS_URL or CLAIMQ_REDIS_URL_FILE, "
            "or CLAIMQ_REDIS_PASSWORD_FILE beside a URL without it",
            help="URL of the server, without a password (default: $CLAIMQ_REDIS_URL, the URL in the file "
            "$CLAIMQ_REDIS_URL_FILE, or the server of a running `claimq up`).",
        )(command)

    return decorate


def with_context(
    run: Callable[Concatenate[Context, P], Coroutine[Any, Any, int | None]],
) -> Callable[..., int | None]:
    """Adds the common options to a command and runs it in an event loop."""

    @common_options(output="table")
    @functools.wraps(run)
    def command(
        url: str | None,
        data: Path | None,
        namespace: str | None,
        kube_context: str | None,
        page_address: str | None,
        output: str,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> int | None:
        if page_address and (url or data):
            raise CommandError("--web-api does not go with --redis and --data; choose one", USAGE)
        kubectl = None if url or data or page_address else selected(namespace, kube_context)
        cluster = None if kubectl is None else _cluster_access(kubectl)

        async def main() -> int | None:
            async with (
                cluster or nullcontext(),
                _page_at(page_address, namespace, kube_context) if page_address else nullcontext() as page,
            ):
                return await run(Context(url, data, Answers(output), cluster, page), *args, **kwargs)

        with asyncio.Runner(loop_factory=None if cluster is None else cluster.event_loop) as runner:
            return runner.run(main())

    return command
