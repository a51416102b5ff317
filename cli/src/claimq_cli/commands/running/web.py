"""`claimq web`: serves the web page that shows queues and items."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

import claimq
from claimq_admin.stop_signals import stopping
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import QueueArgument
from claimq_cli.commands.options.queue_names import check_exists
from claimq_cli.commands.running.web_options import Users, users_options
from claimq_web.listening import instead_of, opened, url_of
from claimq_web.options import hostname_option

if TYPE_CHECKING:
    from claimq_web.website import Site

DEFAULT_ADDRESS = "127.0.0.1:7380"


@click.command("web")
@click.argument("names", nargs=-1, cls=QueueArgument)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address of the page (default: {DEFAULT_ADDRESS}, or a free port if that one is in use).",
)
@hostname_option
@users_options
@with_context
async def web(
    context: Context,
    names: tuple[str, ...],
    listen: str | None,
    hostnames: tuple[str, ...],
    users: Users,
) -> None:
    """Serve a web page with the queues NAMES or all known ones.

    It runs until Ctrl-C. The page shows lengths, rates, workers and items. Without --actions it changes nothing.
    Without --actions and --users it has no login, and every user of this machine can open it.

    \b
    claimq web
    claimq web --actions
    claimq web --redis redis://db:6379/0 --listen 127.0.0.1:9000
    """
    from claimq_web.server import served

    allow_remote = users.are_checked or users.without_login
    listening, host = opened(listen, default=DEFAULT_ADDRESS, allow_remote=allow_remote)
    with listening:
        async with (
            _site(context, names, users) as (site, token),
            stopping() as stop,
            site.running(),
            served(site.app(host, *hostnames), listening),
        ):
            url = url_of(listening)
            why_there = instead_of(listen, default=DEFAULT_ADDRESS, listening=listening)
            said = [f"web page: {url}{why_there} (Ctrl-C stops it)"]
            said += [f"log in with the token {token}"] if token else []
            context.answers.give({"url": url, "token": token}, *said)
            await stop.wait()


@asynccontextmanager
async def _site(
    context: Context, names: tuple[str, ...], users: Users
) -> AsyncGenerator[tuple[Site, str | None]]:
    """The page of the chosen server, and the token that was made for it."""
    from claimq_web.queues.queues import ServerQueues
    from claimq_web.website import Site

    logins, token = users.logins()
    is_one = len(names) == 1 or (names and context.cluster is None)
    chosen = await context.chosen(names[0] if is_one else None)
    async with claimq.connect(settings=chosen.settings) as server:
        await server.ping()
        for name in names:
            await check_exists(server, server.queue(chosen.queue_name(name)))
        shows_decisions = chosen.queues and context.cluster is None
        decisions = context.local_decisions if shows_decisions else dict
        queue_names = [chosen.queue_name(name) for name in names] or list(chosen.queues.values())
        queues = ServerQueues(server, queue_names, decisions)
        site = Site(queues, logins, may_act=users.may_act, proxy=users.proxy)
        yield site, token
