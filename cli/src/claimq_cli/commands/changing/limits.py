"""`claimq limits`: shows the limits of a queue and changes them, also for a time."""

from __future__ import annotations

from typing import Any

import click

from claimq.limits import Limit
from claimq_admin.changes.queue_admin import QueueAdmin, check_limit_change
from claimq_admin.instants import parse_end
from claimq_admin.reads import documents
from claimq_admin.text import instant
from claimq_cli.commands.changing.interruptible import interruptible
from claimq_cli.commands.changing.policy import owner_warning
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.output import terminal
from claimq_control.decide.standstill import held_back_note

_COLUMNS = ("limit", "may start now", "until", "by", "reason")


@click.command()
@queue_argument
@click.argument("action", type=click.Choice(["show", "set", "remove", "reset"]), default="show")
@click.argument("limit", default="")
@click.option("--until", default="", metavar="INSTANT", help="When the change ends: 14:00, or ISO 8601.")
@click.option("--for", "within", default="", metavar="DURATION", help="How long the change lasts: 10m, 2h.")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown with the limit, and in the audit log.")
@with_context
async def limits(
    context: Context, name: str, action: str, limit: str, until: str, within: str, reason: str
) -> None:
    """Show the limits of the queue NAME, or change one.

    `set LIMIT` adds a limit or changes the one of its name, `remove LIMIT` removes it by its name. With --until or
    --for the policy stays as it is, and the change ends by itself; `reset` ends all such changes. The operator does not
    change what is set for a time.

    \b
    claimq limits letters
    claimq limits letters set mail-api:rate=1/s,burst=5 --for 1h --reason "the API is slow"
    claimq limits letters set each-customer:per=client,rate=20/m
    claimq limits letters remove mail-api
    claimq limits letters reset

    With -o json: `{"queue", "limits": [{"name", "per", "rate", "burst", "busy", "unit", "startable", "until", "by",
    "reason"}], "startable", "next_start_in", "waiting", "in_progress"}`.
    """
    if action != "show" or limit:  # wrong words end the command before it connects
        check_limit_change(action, limit)
        parse_end(until, within, now=0.0)
    async with context.admin(name) as admin:
        if action != "show":
            await interruptible(
                admin.change_limits(action, limit, until, within, reason), lambda: _state(admin)
            )
        snapshot = await admin.queue.snapshot()
        owner = await admin.owner()
    document = documents.limits(name, snapshot)
    note = held_back_note(snapshot)
    rows = [_row(row) for row in document["limits"]]
    context.answers.give_table(
        document, _COLUMNS, rows, nothing=f"{name} has no limits", each="limits", notes=[note] if note else []
    )
    is_for_good = action in ("set", "remove") and not (until or within)
    if is_for_good and (text := await owner_warning(context, name, owner)):
        terminal.say_error(f"{text}, or give --for")


async def _state(admin: QueueAdmin) -> str:
    rows = documents.limits("", await admin.queue.snapshot())["limits"]
    return f"the limits are now {'; '.join(_row(row)[0] for row in rows) or 'none'}"


def _row(row: dict[str, Any]) -> list[str]:
    is_off = row["rate"] is None and row["busy"] is None
    names = ("name", "rate", "burst", "busy", "per", "unit")
    limit = f"{row['name']}: off" if is_off else str(Limit(*(row[name] for name in names)))
    startable = "-" if row["startable"] is None else f"{row['startable']:,}"
    return [limit, startable, instant(row["until"]), row["by"] or "-", row["reason"] or "-"]
