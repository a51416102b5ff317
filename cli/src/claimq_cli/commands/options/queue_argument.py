"""The argument NAME of the commands; shells complete it with the names of the server's queues."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.shell_completion import CompletionItem

import claimq
from claimq_admin.server_choice import choose
from claimq_cli.cluster.kubectl import KIND, selected

PATIENCE = 2.0
"""Seconds after which a completion has no names."""


class QueueArgument(click.Argument):
    """The name of a queue. A completion prints no errors: after an error or :data:`PATIENCE` it has no names."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of queues that begin with ``incomplete``."""
        try:
            with _time_limit():
                names = _names(ctx)
        except Exception:  # noqa: BLE001 - a message would appear in the middle of the line that the user types
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _names(ctx: click.Context) -> list[str]:
    """The names of the queues that the options before the argument select."""
    url, data = _given(ctx, "url"), _given(ctx, "data")
    kubectl = None if url or data else selected(_given(ctx, "namespace"), _given(ctx, "kube_context"))
    if kubectl is None:
        return asyncio.run(known_queues(url, data))
    return [body["metadata"]["name"] for body in kubectl.get(KIND)["items"]]


def _given(ctx: click.Context | None, option: str) -> Any:
    """The value of an option of the command, or before the command; None without."""
    while ctx is not None:
        if (setting := ctx.params.get(option)) is not None:
            return setting
        ctx = ctx.parent
    return None


async def known_queues(url: str | None, data: Path | None) -> list[str]:
    """The queues of the running local mode that the options select, or of the list on the server. Makes one attempt."""
    chosen = choose(url, data, None)
    if chosen.queues:
        return sorted(chosen.queues)
    async with claimq.connect(settings=replace(chosen.settings, retry_for=0.001)) as server:
        return await server.queues(only_existing=False)


@contextmanager
def _time_limit() -> Generator[None]:
    """Ends the process after :data:`PATIENCE`, since no exception can end the thread that resolves a host name."""
    before = signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


queue_argument = click.argument("name", cls=QueueArgument)
optional_queue_argument = click.argument("name", cls=QueueArgument, required=False)
