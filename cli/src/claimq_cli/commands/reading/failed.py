"""`claimq failed`: counts and changes failed items."""

from __future__ import annotations

import click

from claimq_admin.reads import documents
from claimq_admin.text import instant, payload
from claimq_cli.commands.changing.failed_changes import move, remove, requeue
from claimq_cli.commands.moving.export_items import export_failed
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import number_option, offset_option
from claimq_cli.commands.options.queue_argument import queue_argument


@click.group()
def failed() -> None:
    """Count, requeue, move or remove failed items.

    `claimq items NAME failed` lists them.
    """


for _command in (requeue, remove, move, export_failed):
    failed.add_command(_command)


@failed.command()
@queue_argument
@number_option(20)
@with_context
async def reasons(context: Context, name: str, number: int) -> None:
    """Show why items of the queue NAME failed: how many for each reason, of all failed items.

    A reason is the first line of the last error, with # for numbers and ids, '...' for quoted texts and /... for paths.
    More than 200 reasons are counted together as "(other)".

    \b
    claimq failed reasons thumbnails
    claimq failed requeue thumbnails --all --reason "Timeout: # s"

    With -o json: `{"queue", "length", "reasons": [{"reason", "count"}]}`.
    """
    async with context.queue(name) as queue:
        counts = await queue.failed_reasons()
    context.answers.give_table(
        {
            "queue": name,
            "length": sum(counts.values()),
            "reasons": [{"reason": reason, "count": total} for reason, total in counts.items()],
        },
        ["reason", ">items"],
        [[reason, f"{total:,}"] for reason, total in [*counts.items()][:number]],
        nothing=f"{name}: no failed items",
        each="reasons",
        total=len(counts),
    )


@failed.command("removed")
@queue_argument
@number_option(20)
@offset_option
@with_context
async def list_removed(context: Context, name: str, number: int, offset: int) -> None:
    """List items of the queue NAME that were dropped or removed by the policy, latest first.

    \b
    claimq failed removed thumbnails

    With -o json: `{"queue", "items": [{"removed_at", "reason", "payload_size", "item": ITEM}]}`.
    """
    async with context.queue(name) as queue:
        items = await queue.removed_items(number, offset=offset)
    context.answers.give_table(
        {"queue": name, "items": [documents.removed(item) for item in items]},
        ["id", "removed", "reason", "~error", "~payload"],
        [
            [
                item.item.id,
                instant(item.removed_at),
                item.reason,
                item.item.last_error or "-",
                payload(item.item),
            ]
            for item in items
        ],
        nothing=f"{name}: no item was removed or dropped",
        each="items",
    )
