"""What the commands that talk to a server share: their options, the connection, and running a coroutine."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import click

import claimq
from claimq.codec import check_name
from claimq_cli.commands.queue_names import check_exists, did_you_mean
from claimq_cli.output.answers import Answers
from claimq_cli.server_choice import Chosen, choose

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Context:
    """Where to look and how to answer."""

    url: str | None
    data: Path | None
    answers: Answers

    def chosen(self, queue: str | None) -> Chosen:
        """The server for a queue (None: no certain one). CommandError if none can be found."""
        if queue is not None:
            check_name("queue", queue)
        return choose(self.url, self.data, queue)

    @asynccontextmanager
    async def queue(self, name: str) -> AsyncGenerator[claimq.ReliableQueue]:
        """The queue, connected for the block. CommandError if it is not there."""
        async with claimq.connect(settings=self.chosen(name).settings) as server:
            queue = server.queue(name)
            await check_exists(server, queue)
            yield queue

    @asynccontextmanager
    async def changed_queue(self, name: str) -> AsyncGenerator[claimq.ReliableQueue]:
        """The same for what changes it as a whole: afterwards `claimq queues` knows it."""
        async with self.queue(name) as queue:
            yield queue
            await queue.add_to_index()

    @asynccontextmanager
    async def filled_queue(self, name: str) -> AsyncGenerator[tuple[claimq.ReliableQueue, str]]:
        """A queue to put items into, which makes it; and what to say about that: empty if it was there."""
        async with claimq.connect(settings=self.chosen(name).settings) as server:
            queue, said = server.queue(name), ""
            if not await queue.exists():
                said = f"a new queue{did_you_mean(name, await server.queues())}"
            yield queue, said
            if said:
                await queue.add_to_index()


def with_context(
    run: Callable[Concatenate[Context, P], Coroutine[Any, Any, int | None]],
) -> Callable[..., int | None]:
    """Gives a coroutine function the options that every command has, and runs it."""

    @click.option(
        "--redis",
        "url",
        metavar="URL",
        help="The server (default: $CLAIMQ_REDIS_URL, or that of a running `claimq up`).",
    )
    @click.option(
        "--data", type=click.Path(path_type=Path), help="State directory of the `claimq up` to talk to."
    )
    @click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="For people or for programs.",
    )
    @functools.wraps(run)
    def command(
        url: str | None, data: Path | None, output: str, *args: P.args, **kwargs: P.kwargs
    ) -> int | None:
        return asyncio.run(run(Context(url, data, Answers(output)), *args, **kwargs))

    return command
