"""`claimq export` and `claimq failed export`: write items to a file, and with --remove take them out of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

import claimq
from claimq.model import Located, State
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.rate_limit import Pace
from claimq_admin.selection.item_filter import ItemFilter
from claimq_cli.commands.moving.export_options import Target, target_options
from claimq_cli.commands.moving.export_target import export
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.commands.reading.item_selection import filters
from claimq_cli.migration.export_source import portions_of


@click.command("export")
@queue_argument
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in State]),
    multiple=True,
    default=["main"],
    show_default=True,
    help="State of the items; may be given several times.",
)
@target_options
@with_context
async def export_items(context: Context, name: str, states: tuple[str, ...], target: Target) -> None:
    """Write items of the queue NAME to a file.

    `claimq import` reads JSON lines and CSV.

    \b
    claimq export mails > mails.jsonl
    claimq export mails --state main --state delayed --format csv --to mails.csv
    claimq export mails --remove --to mails.jsonl

    Without --remove the queue does not change. Pause it and stop its workers for a complete export.

    With -o json: `{"queue", "exported", "removed"}` with --to.
    """
    chosen = [State(state) for state in dict.fromkeys(states)]
    if target.removes and not {State.MAIN, State.FAILED}.issuperset(chosen):
        raise CommandError(
            "--remove takes items in main and failed; delayed ones move to main when they are due", USAGE
        )

    async def portions(
        queue: claimq.ReliableQueue, pace: Pace, stop: asyncio.Event, removes: bool
    ) -> AsyncGenerator[list[Located]]:
        for state in chosen:
            async with aclosing(portions_of(queue, state, pace, stop, removes=removes)) as portions:
                async for portion in portions:
                    yield portion

    await export(context, name, target, ", ".join(chosen), portions)


@click.command("export")
@queue_argument
@filters()
@target_options
@with_context
async def export_failed(context: Context, name: str, selector: ItemFilter, target: Target) -> None:
    """Write failed items of the queue NAME to a file, oldest failure first.

    JSON lines have the last error and the counters of each item. `claimq import` reads them.

    \b
    claimq failed export mails --error timeout > timeouts.jsonl
    claimq failed export mails --min-age 168h --remove --to old.jsonl

    With -o json: `{"queue", "exported", "removed"}` with --to.
    """

    async def portions(
        queue: claimq.ReliableQueue, pace: Pace, stop: asyncio.Event, removes: bool
    ) -> AsyncGenerator[list[Located]]:
        now = (await queue.snapshot()).now

        def matches(located: Located) -> bool:
            return selector.passes(located, now)

        failed = portions_of(queue, State.FAILED, pace, stop, matches, removes=removes)
        async with aclosing(failed) as portions:
            async for portion in portions:
                yield portion

    await export(context, name, target, f"failed: {selector}", portions)
