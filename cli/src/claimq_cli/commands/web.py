"""`claimq web`: serves the web page that shows queues and items."""

from __future__ import annotations

from pathlib import Path

import click

import claimq
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.queue_argument import QueueArgument
from claimq_cli.commands.queue_names import check_exists
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.queue_reads import local_decisions
from claimq_cli.stop_signals import stopping
from claimq_cli.web.listening import opened, url_of

DEFAULT_ADDRESS = "127.0.0.1:7380"


@click.command("web")
@click.argument("names", nargs=-1, cls=QueueArgument)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address of the page (default: {DEFAULT_ADDRESS}, or a free port if that one is in use).",
)
@click.option(
    "--without-login",
    is_flag=True,
    help="Allow an address that other machines can reach. Everyone who reaches it can read all payloads.",
)
@click.option(
    "--actions",
    "may_act",
    is_flag=True,
    help="Allow changes of items and queues. Users then log in; without --users this prints a token for it.",
)
@click.option(
    "--users",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Users who may log in: a file with a line NAME TOKEN for each, which only its owner can read.",
)
@with_context
async def web(
    context: Context,
    names: tuple[str, ...],
    listen: str | None,
    without_login: bool,
    may_act: bool,
    users: Path | None,
) -> None:
    """Serve a web page with the queues NAMES or all known ones.

    It runs until Ctrl-C. The page shows lengths, rates, workers and items. Without --actions it changes nothing.
    Without --actions and --users it has no login, and every user of this machine can open it.

    \b
    claimq web
    claimq web --actions
    claimq web --redis redis://db:6379/0 --listen 127.0.0.1:9000
    """
    from claimq_cli.web.login import Logins, read_users
    from claimq_cli.web.queues import ServerQueues
    from claimq_cli.web.server import served
    from claimq_cli.web.website import Site

    if without_login and (may_act or users is not None):
        raise CommandError("--without-login does not go with --actions and --users; leave it out", USAGE)
    logins, token = None, None
    if users is not None:
        logins = Logins(read_users(users))
    elif may_act:
        logins, token = Logins.of_local_user()
    allow_remote = without_login or logins is not None
    listening, host = opened(listen, default=DEFAULT_ADDRESS, allow_remote=allow_remote)
    with listening:
        is_one = len(names) == 1 or (names and context.cluster is None)
        chosen = await context.chosen(names[0] if is_one else None)
        async with claimq.connect(settings=chosen.settings) as server, stopping() as stop:
            await server.ping()
            for name in names:
                await check_exists(server, server.queue(chosen.queue_name(name)))
            shows_decisions = chosen.queues and context.cluster is None
            decisions = (lambda: local_decisions(context.data)) if shows_decisions else dict
            shown = [chosen.queue_name(name) for name in names] or list(chosen.queues.values())
            site = Site(ServerQueues(server, shown, decisions), logins, may_act=may_act)
            async with site.running(), served(site.app(host), listening):
                url = url_of(listening)
                said = [f"web page: {url} (Ctrl-C stops it)"]
                said += [f"log in with the token {token}"] if token else []
                context.answers.give({"url": url, "token": token}, *said)
                await stop.wait()
