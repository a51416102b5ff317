"""`claimq failed requeue`, `remove` and `move`: change failed items by their ids, or all that pass filters."""

from __future__ import annotations

import sys

import click

from claimq.model import Located
from claimq_cli.commands.confirmation import confirm
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.failed_options import Selection, selection
from claimq_cli.errors import INTERRUPTED, NOT_DONE, USAGE, CommandError
from claimq_cli.failed_actions import Change, FailedAction, FailedFilter
from claimq_cli.item_actions import recorded_in
from claimq_cli.local_user import local_user
from claimq_cli.output import documents, terminal
from claimq_cli.output.answers import count, instant, payload
from claimq_cli.output.owners import owner_note
from claimq_cli.output.progress import Progress
from claimq_cli.rate_limit import Pace
from claimq_cli.stop_signals import stopping

FAILED_COLUMNS = ["id", "failed", ">requeued", ">given up", "~error", "~payload"]


@click.command("requeue")
@selection
@with_context
async def requeue(context: Context, name: str, chosen: Selection) -> int:
    """Send failed items of the queue NAME back to main.

    Name the items by their IDS, or select all that pass the filters with --all.
    """
    async with context.queue(name) as queue:
        action = FailedAction(queue, chosen.wanted, chosen.limit)
        return await _carry_out(context, name, chosen, action, action.requeueing(), "requeued")


@click.command("remove")
@selection
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(context: Context, name: str, chosen: Selection, yes: bool) -> int:
    """Remove failed items of the queue NAME permanently.

    Name the items by their IDS, or select all that pass the filters with --all.
    """
    async with context.queue(name) as queue:
        if not chosen.ids and not chosen.is_dry:
            is_filtered = chosen.wanted != FailedFilter()
            which = "all failed items that match the filters" if is_filtered else "every failed item"
            confirm(f"this removes {which} of {name}{await owner_note(queue)} permanently", is_given=yes)
        action = FailedAction(queue, chosen.wanted, chosen.limit)
        return await _carry_out(context, name, chosen, action, action.removing(), "removed")


@click.command("move")
@selection
@click.option("--to", "target", required=True, metavar="TARGET", help="The queue to move the items to.")
@with_context
async def move(context: Context, name: str, chosen: Selection, target: str) -> int:
    """Move failed items of the queue NAME to the queue TARGET.

    They keep id, client and headers, and lose counters and history.

    \b
    claimq failed move thumbnails --all --error "out of memory" --to large-thumbnails
    """
    if name == target:
        raise CommandError("NAME and TARGET are the same queue", USAGE)
    async with context.queue(name) as queue, context.queue(target) as other:
        action = FailedAction(queue, chosen.wanted, chosen.limit)
        return await _carry_out(context, name, chosen, action, action.moving_to(other), "moved")


async def _carry_out(
    context: Context, name: str, chosen: Selection, action: FailedAction, change: Change, past: str
) -> int:
    """Changes the items and prints the result. Returns the exit code: 1 if an item was not changed."""
    if chosen.is_dry:
        async with stopping() as stop:
            await action.count(stop)
        _show_dry_run(context, name, action)
        return 0
    missing: list[str] = []
    if chosen.ids:
        missing = await action.run_on(chosen.ids, change, recorded_in(action.queue, local_user()))
    else:
        await _run(action, change, Pace(chosen.rate), past)
    document = {"queue": name, past: action.changed, "missing": missing, "problems": action.problems}
    context.answers.give(document, f"{name}: {count(action.changed)} {past}")
    if missing:
        terminal.say_error(absent(name, missing))
    for problem in action.problems:
        terminal.say_error(problem)
    return NOT_DONE if missing or action.problems else 0


async def _run(action: FailedAction, change: Change, pace: Pace, past: str) -> None:
    """Changes all items that pass the filters, with the progress on a terminal."""
    progress = Progress(is_shown=sys.stderr.isatty())
    action.note = lambda: progress.show(
        f"{action.looked_at:,} of {action.total:,} read, {action.changed:,} {past}"
    )
    async with stopping() as stop:
        try:
            await action.run(change, recorded_in(action.queue, local_user()), pace, stop)
        finally:
            progress.clear()
        if stop.is_set():
            raise CommandError(f"interrupted after {count(action.changed)}", INTERRUPTED)


def _show_dry_run(context: Context, name: str, action: FailedAction) -> None:
    samples = [documents.located(one) for one in action.samples]
    context.answers.give_table(
        {"queue": name, "dry_run": True, "matching": action.matched, "samples": samples},
        FAILED_COLUMNS,
        [failed_row(one) for one in action.samples],
        nothing=f"{name}: no failed item passes the filters",
    )
    terminal.say_error(f"{name}: {count(action.matched)} would be changed; nothing was (--dry-run)")


def failed_row(one: Located) -> list[str]:
    """A failed item in a table with FAILED_COLUMNS."""
    item = one.item
    return [
        one.name, instant(one.failed_at), str(item.requeue_count), str(item.given_up_count), item.last_error or "-",
        payload(item),
    ]  # fmt: skip


def absent(name: str, ids: list[str]) -> str:
    """The error for ids of items that are not in failed."""
    return f"{name} has no failed item {', '.join(ids)}; see `claimq failed list {name}`"
