"""`claimq failed requeue`, `remove` and `move`, and changes of the items that any command has selected."""

from __future__ import annotations

import sys

import click

from claimq.errors import ItemOutOfReach, ItemRefused
from claimq.model import Located, State
from claimq_admin.changes.item_actions import PAST, ItemChange, NotInFailed, change_item
from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.errors import INTERRUPTED, NOT_DONE, USAGE, CommandError
from claimq_admin.reads import documents
from claimq_admin.reads.owners import owner_note
from claimq_admin.selection.item_filter import ItemFilter, entered_at
from claimq_admin.selection.selected_items import SelectedItems
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count, instant, payload
from claimq_cli.commands.options.confirmation import confirm
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.reading.item_selection import Selection, item_selection
from claimq_cli.output import terminal
from claimq_cli.output.progress import Progress

COLUMNS = {
    state: [
        "id",
        "failed" if state is State.FAILED else "enqueued",
        ">requeued",
        ">given up",
        "~error",
        "~payload",
    ]
    for state in State
}
"""The columns of :func:`row_of`."""


@click.command("requeue")
@item_selection(state=State.FAILED)
@with_context
async def requeue(context: Context, name: str, chosen: Selection) -> int:
    """Send failed items of the queue NAME back to main.

    Name the items by their ids, or select all that pass the filters with --all.

    \b
    claimq failed requeue thumbnails order-4711
    claimq failed requeue thumbnails --all --error timeout --dry-run
    claimq failed requeue thumbnails --all --error timeout --rate 50

    With -o json: `{"queue", "requeued", "missing", "problems"}`; with --dry-run `{"queue", "dry_run",
    "matching", "samples"}`.
    """
    return await change_items(context, name, chosen, ItemChange("requeue"))


@click.command("remove")
@item_selection(state=State.FAILED)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(context: Context, name: str, chosen: Selection, yes: bool) -> int:
    """Remove failed items of the queue NAME permanently.

    Name the items by their ids, or select all that pass the filters with --all.

    \b
    claimq failed remove thumbnails order-4711
    claimq failed remove thumbnails --all --min-age 168h --dry-run

    With -o json: `{"queue", "removed", "missing", "problems"}`; with --dry-run `{"queue", "dry_run",
    "matching", "samples"}`.
    """
    return await change_items(context, name, chosen, ItemChange("remove"), yes=yes)


@click.command("move")
@item_selection(state=State.FAILED)
@click.option("--to", "target", required=True, metavar="TARGET", help="The queue to move the items to.")
@with_context
async def move(context: Context, name: str, chosen: Selection, target: str) -> int:
    """Move failed items of the queue NAME to the queue TARGET.

    They keep id, client and headers, and lose counters and history.

    \b
    claimq failed move thumbnails --all --error "out of memory" --to large-thumbnails

    With -o json: `{"queue", "moved", "missing", "problems"}`; with --dry-run `{"queue", "dry_run",
    "matching", "samples"}`.
    """
    return await change_items(context, name, chosen, ItemChange("move"), target=target)


async def change_items(
    context: Context, name: str, chosen: Selection, change: ItemChange, *, target: str = "", yes: bool = True
) -> int:
    """Changes the items and prints the result. Returns the exit code: 1 if an item was not changed.

    ``target``: the queue that they are moved to. ``yes``: a removal needs no confirmation.
    """
    if name == target:
        raise CommandError("NAME and TARGET are the same queue", USAGE)
    async with context.admin(name, target=target) as admin:
        if chosen.ids:
            return await _change_each(context, name, admin, chosen, change)
        items = SelectedItems(admin, chosen.wanted, chosen.limit, chosen.state, chosen.rate)
        if chosen.is_dry:
            async with stopping() as stop:
                await items.count(stop)
            return _show_dry_run(context, name, chosen, items)
        if not yes:
            confirm(_removal(name, chosen, owner_note(await admin.owner())), is_given=False)
        await _run(items, change)
    _show(context, name, change, items.changed, [], items.problems, items.problem_count)
    return NOT_DONE if items.problems else 0


async def _change_each(
    context: Context, name: str, admin: QueueAdmin, chosen: Selection, change: ItemChange
) -> int:
    """Changes each item. Errors of single items are printed, and the others go on; exit code 1 if there are any."""
    lines: dict[str, str] = {}
    missing: list[str] = []
    problems: dict[str, str] = {}
    is_failed = chosen.state is State.FAILED
    for item_id in dict.fromkeys(chosen.ids):
        try:
            lines[item_id] = f"{name}: {await change_item(admin, item_id, change, is_failed=is_failed)}"
        except NotInFailed as error:
            missing.append(item_id)
            problems |= {} if is_failed else {item_id: str(error)}
        except (CommandError, ItemRefused, ItemOutOfReach) as error:
            problems[item_id] = str(error)
    if is_failed:
        _show(context, name, change, len(lines), missing, [*problems.values()])
    else:
        context.answers.give({"queue": name, "changed": [*lines], "unchanged": [*problems]}, *lines.values())
        for problem in problems.values():
            terminal.say_error(problem)
    return NOT_DONE if missing or problems else 0


def _show(
    context: Context,
    name: str,
    change: ItemChange,
    changed: int,
    missing: list[str],
    problems: list[str],
    problem_count: int = 0,
) -> None:
    past = PAST[change.action]
    document = {"queue": name, past: changed, "missing": missing, "problems": problems}
    context.answers.give(document, f"{name}: {count(changed)} {past.replace('_', ' ')}")
    if missing:
        terminal.say_error(absent(name, missing))
    for problem in problems:
        terminal.say_error(problem)
    if problem_count > len(problems):
        terminal.say_error(f"{count(problem_count - len(problems))} more were not changed")


def _removal(name: str, chosen: Selection, owner: str) -> str:
    noun = _one_of(chosen.state)
    is_filtered = chosen.wanted != ItemFilter()
    which = f"all {noun.replace('item', 'items')} that match the filters" if is_filtered else f"every {noun}"
    return f"this removes {which} of {name}{owner} permanently"


async def _run(items: SelectedItems, change: ItemChange) -> None:
    """Changes all items that pass the filters, with the progress on a terminal."""
    progress = Progress(is_shown=sys.stderr.isatty())
    past = PAST[change.action].replace("_", " ")
    items.note = lambda: progress.show(
        f"{items.looked_at:,} of {items.total:,} read, {items.changed:,} {past}"
    )
    async with stopping() as stop:
        try:
            await items.run(change, stop)
        finally:
            progress.clear()
        if stop.is_set():
            raise CommandError(f"interrupted after {count(items.changed)}", INTERRUPTED)


def _show_dry_run(context: Context, name: str, chosen: Selection, items: SelectedItems) -> int:
    """Prints how many items pass the filters, and the first of them."""
    context.answers.give_table(
        {
            "queue": name,
            "dry_run": True,
            "matching": items.matched,
            "samples": [documents.located(located) for located in items.samples],
        },
        COLUMNS[chosen.state],
        [row_of(located) for located in items.samples],
        nothing=f"{name}: no {_one_of(chosen.state)} passes the filters",
    )
    terminal.say_error(f"{name}: {count(items.matched)} would be changed; nothing was (--dry-run)")
    if items.looked_at < items.total and items.matched != chosen.limit:
        terminal.say_error(
            f"only {items.looked_at:,} of {items.total:,} items were counted; a change looks at all"
        )
    return 0


def _one_of(state: State) -> str:
    return "failed item" if state is State.FAILED else f"item in {state.value}"


def row_of(located: Located) -> list[str]:
    """An item in a table with the COLUMNS of its state."""
    item = located.item
    return [
        located.name or item.id, instant(entered_at(located)), str(item.requeue_count), str(item.given_up_count),
        item.last_error or "-", payload(located),
    ]  # fmt: skip


def absent(name: str, ids: list[str]) -> str:
    """The error for ids of items that are not in failed."""
    return f"{name} has no failed item {', '.join(ids)}; see `claimq items {name} failed`"
