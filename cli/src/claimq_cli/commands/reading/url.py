"""`claimq url`: the URL of the server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import click

import claimq
from claimq.address.redis_url import parse_url
from claimq.errors import ClaimqError
from claimq_admin.errors import NOT_DONE, USAGE, CommandError
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import optional_queue_argument
from claimq_cli.commands.options.queue_names import check_exists


@click.command()
@optional_queue_argument
@click.option("--show-password", is_flag=True, help="Print the URL even if it contains a password.")
@with_context
async def url(context: Context, name: str | None, show_password: bool) -> None:
    """Print the URL of the server that the other commands use.

    With NAME: of the server of this queue, which must exist there if the server answers.

    \b
    export CLAIMQ_REDIS_URL="$(claimq url)"    # for a program
    claimq url thumbnails
    """
    if context.cluster is not None:
        raise CommandError(
            "the server of a ReliableQueue can be reached only while a command forwards its port", USAGE
        )
    chosen = await context.chosen(name)
    url = chosen.settings.url
    if parse_url(url).password is not None and not show_password:
        raise CommandError("the URL contains a password; print it with --show-password", NOT_DONE)
    if name is not None:
        with suppress(ClaimqError):
            async with claimq.connect(settings=replace(chosen.settings, retry_for=0.001)) as server:
                await check_exists(server, server.queue(chosen.queue_name(name)))
    context.answers.give({"url": url}, url)
