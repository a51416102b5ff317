"""Options, connection and event loop of the commands that use a server."""

from __future__ import annotations

import asyncio
import functools
import os
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

import claimq
from claimq.arguments import did_you_mean
from claimq.codec import check_name
from claimq.errors import ClaimqError
from claimq.redis_store.default_server import url_in
from claimq_admin.by_hand import name_by_hand
from claimq_admin.changes.local_user import local_user
from claimq_admin.changes.queue_admin import QueueAdmin, admin_of
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.reads.queue_reads import local_decisions
from claimq_admin.server_choice import RETRY_SECONDS, Chosen, StillStarting, choose
from claimq_cli.cluster.kubectl import Kubectl, selected
from claimq_cli.commands.options.option_types import server_url
from claimq_cli.commands.options.queue_names import NewQueue, check_exists
from claimq_cli.commands.options.sources import Source
from claimq_cli.output.answers import FORMS, Answers
from claimq_cli.output.terminal import say_error

if TYPE_CHECKING:
    from claimq_admin.cluster.server_settings import ClusterQueue
    from claimq_cli.cluster.access import ClusterAccess

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Context:
    """The server that a command uses, and how it prints its result."""

    url: str | None
    data: Path | None
    answers: Answers
    cluster: ClusterAccess | None = None

    @property
    def command(self) -> str:
        """How the user's own commands begin. A URL may contain a password, so it is not repeated."""
        if self.cluster is not None:
            return " ".join(["claimq", *self.cluster.kubectl.options])
        command = f"claimq --data {shlex.quote(str(self.data))}" if self.data else "claimq"
        return "claimq --redis URL" if self.url else command

    def commands_about(self, queue: str) -> Callable[[str], str]:
        """From a verb to the user's own command about a queue."""
        return lambda verb: f"{self.command} {verb} {queue}"

    async def servers(self, queue: str | None) -> list[Chosen]:
        """The server of a queue. For None the server of no particular queue, or those of all ReliableQueues of the
        namespace (for each that cannot be used it prints an error). CommandError if none can be found."""
        if queue is not None:
            check_name("queue", queue)
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
        begun = clock()
        while True:
            try:
                return choose(self.url, self.data, queue)
            except StillStarting as error:
                if clock() > begun + error.seconds:
                    raise
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def sources(self, queue: str | None) -> AsyncGenerator[list[Source]]:
        """All of :meth:`servers`."""
        async with AsyncExitStack() as stack:
            yield [
                Source(
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

    async def decision(self, name: str) -> Mapping[str, Any]:
        """The last scaling decision about a queue with its conditions; empty if there is none."""
        if self.cluster is not None:
            return await self.cluster.decision(name)
        return self.local_decisions().get(name, {})

    def local_decisions(self) -> dict[str, dict[str, Any]]:
        """Those of the running local modes about queues on the server that the user has chosen, by queue."""
        url = self.url or ("" if self.data else url_in(os.environ))
        return local_decisions(self.data, url)

    @asynccontextmanager
    async def admin(self, name: str, *, target: str = "") -> AsyncGenerator[QueueAdmin]:
        """The queue, for changes by the user of this process. ``target``: the queue that items are moved to."""
        async with self.queue(name) as queue, self.queue(target) if target else nullcontext() as other:
            user = local_user()
            yield admin_of(queue, user, admin_of(other, user) if other else None)

    @asynccontextmanager
    async def filled_admin(
        self, name: str, *, is_dry: bool = False
    ) -> AsyncGenerator[tuple[QueueAdmin, NewQueue | None]]:
        """A queue that may be new, for changes by the user of this process, and what to report of that. None if it
        existed before. With ``is_dry`` it is not added to the list of `claimq queues`, nor if it was not created.
        """
        chosen = await self.chosen(name)
        async with claimq.connect(settings=chosen.settings) as server:
            queue, new_queue = server.queue(chosen.queue_name(name)), None
            if not await queue.exists():
                new_queue = NewQueue(did_you_mean(name, await server.queues(only_existing=False)))
            yield admin_of(queue, local_user()), new_queue
            if new_queue and not is_dry and await queue.exists():
                await queue.add_to_index()


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
        output: str,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> int | None:
        kubectl = None if url or data else selected(namespace, kube_context)
        cluster = None if kubectl is None else _cluster_access(kubectl)

        async def main() -> int | None:
            async with cluster or nullcontext():
                return await run(Context(url, data, Answers(output), cluster), *args, **kwargs)

        with asyncio.Runner(loop_factory=None if cluster is None else cluster.event_loop) as runner:
            return runner.run(main())

    return command
