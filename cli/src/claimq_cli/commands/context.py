"""Options, connection and event loop of the commands that use a server."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

import claimq
from claimq.codec import check_name
from claimq_cli.commands.queue_names import check_exists, did_you_mean
from claimq_cli.output.answers import FORMS, Answers
from claimq_cli.server_choice import Chosen, choose

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Context:
    """The server that a command uses, and how it prints its result."""

    url: str | None
    data: Path | None
    answers: Answers

    def chosen(self, queue: str | None) -> Chosen:
        """The server of a queue (None: of no particular queue). CommandError if none can be found."""
        if queue is not None:
            check_name("queue", queue)
        return choose(self.url, self.data, queue)

    @asynccontextmanager
    async def queue(self, name: str) -> AsyncGenerator[claimq.ReliableQueue]:
        """The queue, connected inside the block. CommandError if it does not exist."""
        async with claimq.connect(settings=self.chosen(name).settings) as server:
            queue = server.queue(name)
            await check_exists(server, queue)
            yield queue

    @asynccontextmanager
    async def changed_queue(self, name: str) -> AsyncGenerator[claimq.ReliableQueue]:
        """Like :meth:`queue`, for changes: adds the queue to the list of `claimq queues`."""
        async with self.queue(name) as queue:
            yield queue
            await queue.add_to_index()

    @asynccontextmanager
    async def filled_queue(
        self, name: str, *, is_dry: bool = False
    ) -> AsyncGenerator[tuple[claimq.ReliableQueue, str]]:
        """A queue that may be new, and a text about that: empty if it existed before.

        With ``is_dry`` it is not added to the list of `claimq queues`.
        """
        async with claimq.connect(settings=self.chosen(name).settings) as server:
            queue, new_queue = server.queue(name), ""
            if not await queue.exists():
                new_queue = f"a new queue{did_you_mean(name, await server.queues())}"
            yield queue, new_queue
            if new_queue and not is_dry:
                await queue.add_to_index()


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


def common_options(*, output: str | None) -> Callable[[F], F]:
    """The options for the server, and that for the format with this default."""

    def decorate(command: F) -> F:
        command = output_option(output)(command)
        command = click.option(
            "--data",
            type=click.Path(path_type=Path),
            help="Use the server of the `claimq up` with this state directory.",
        )(command)
        return click.option(
            "--redis",
            "url",
            metavar="URL",
            help="URL of the server (default: $CLAIMQ_REDIS_URL, or the server of a running `claimq up`).",
        )(command)

    return decorate


def with_context(
    run: Callable[Concatenate[Context, P], Coroutine[Any, Any, int | None]],
) -> Callable[..., int | None]:
    """Adds the common options to a command and runs it in an event loop."""

    @common_options(output="table")
    @functools.wraps(run)
    def command(
        url: str | None, data: Path | None, output: str, *args: P.args, **kwargs: P.kwargs
    ) -> int | None:
        return asyncio.run(run(Context(url, data, Answers(output)), *args, **kwargs))

    return command
