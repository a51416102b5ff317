"""`claimq web`: serves the web page that shows queues and items."""

from __future__ import annotations

import click

import claimq
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.queue_argument import QueueArgument
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
@with_context
async def web(context: Context, names: tuple[str, ...], listen: str | None, without_login: bool) -> None:
    """Serve a web page with the queues NAMES or all known ones.

    It runs until Ctrl-C. The page shows lengths, rates, workers and items, and changes nothing. It has no login: every
    user of this machine can open it.

    \b
    claimq web
    claimq web --redis redis://db:6379/0 --listen 127.0.0.1:9000
    """
    from claimq_cli.web.queues import ServerQueues
    from claimq_cli.web.server import served
    from claimq_cli.web.website import Site

    listening, host = opened(listen, default=DEFAULT_ADDRESS, allow_remote=without_login)
    with listening:
        is_one = len(names) == 1 or (names and context.cluster is None)
        chosen = await context.chosen(names[0] if is_one else None)
        async with claimq.connect(settings=chosen.settings) as server, stopping() as stop:
            await server.ping()
            shows_decisions = chosen.queues and context.cluster is None
            decisions = (lambda: local_decisions(context.data)) if shows_decisions else dict
            shown = [chosen.queue_name(name) for name in names] or list(chosen.queues.values())
            site = Site(ServerQueues(server, shown, decisions))
            async with site.running(), served(site.app(host), listening):
                url = url_of(listening)
                context.answers.give({"url": url}, f"web page: {url} (Ctrl-C stops it)")
                await stop.wait()
