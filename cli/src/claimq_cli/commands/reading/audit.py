"""`claimq audit`: who changed a queue by hand."""

from __future__ import annotations

from dataclasses import asdict

import click

from claimq_admin.text import instant
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import number_option, offset_option
from claimq_cli.commands.options.queue_argument import queue_argument


@click.command()
@queue_argument
@number_option(20)
@offset_option
@with_context
async def audit(context: Context, name: str, number: int, offset: int) -> None:
    """List who changed the queue NAME by hand, latest first.

    Every change by a command of claimq or the web page is recorded before it is made. The queue keeps the last 1,000,
    and those of 30 days.

    \b
    claimq audit thumbnails --limit 100

    With -o json: `{"queue", "records": [{"at", "actor", "action", "target", "count"}]}`.
    """
    async with context.queue(name) as queue:
        records = await queue.audit_log(number, offset=offset)
    context.answers.give_table(
        {"queue": name, "records": [asdict(record) for record in records]},
        ["at", "who", "action", "~target", ">items"],
        [
            [
                instant(record.at),
                record.actor,
                record.action,
                record.target or "-",
                "-" if record.count is None else f"{record.count:,}",
            ]
            for record in records
        ],
        nothing=f"{name}: no change by hand is recorded",
        each="records",
    )
