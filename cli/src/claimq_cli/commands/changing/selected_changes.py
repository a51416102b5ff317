"""Changes items that a command has selected, and prints the result."""

from __future__ import annotations

import sys

from claimq.model import Located, State
from claimq_admin.changes.item_change import PAST, ItemChange, Selected
from claimq_admin.errors import INTERRUPTED, NOT_DONE, USAGE, CommandError
from claimq_admin.queue_admin import QueueAdmin
from claimq_admin.reads import documents
from claimq_admin.reads.owners import owner_note
from claimq_admin.selection.item_filter import ItemFilter, entered_at
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count, instant, payload
from claimq_cli.commands.options.confirmation import confirm
from claimq_cli.commands.options.context import Context
from claimq_cli.commands.reading.item_selection import Selection
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


async def change_items(
    context: Context, name: str, chosen: Selection, change: ItemChange, *, target: str = "", yes: bool = True
) -> int:
    """Changes the items and prints the result. Returns the exit code: 1 if an item was not changed.

    ``target``: the queue that they are moved to. ``yes``: a removal needs no confirmation.
    """
    if name == target:
        raise CommandError("NAME and TARGET are the same queue", USAGE)
    async with context.admin(name, target=target) as admin:
        if chosen.ids and chosen.state is not State.FAILED:
            return await _change_each(context, name, admin, chosen.ids, change)
        items = admin.selected(chosen.wanted, chosen.state, chosen.limit, chosen.rate)
        if chosen.ids:
            return _show(context, name, change, items, await items.run_on(chosen.ids, change))
        if chosen.is_dry:
            async with stopping() as stop:
                await items.count(stop)
            return _show_dry_run(context, name, chosen, items)
        if not yes:
            confirm(_removal(name, chosen, owner_note(await admin.owner())), is_given=False)
        await _run(items, change)
    return _show(context, name, change, items, [])


async def _change_each(
    context: Context, name: str, admin: QueueAdmin, ids: tuple[str, ...], change: ItemChange
) -> int:
    """Changes each item. Errors of single items are printed, and the others go on; exit code 1 if there are any."""
    lines: dict[str, str] = {}
    unchanged: list[str] = []
    for item_id in dict.fromkeys(ids):
        try:
            lines[item_id] = f"{name}: {await admin.change_item(item_id, change)}"
        except CommandError as error:
            terminal.say_error(str(error))
            unchanged.append(item_id)
    context.answers.give({"queue": name, "changed": [*lines], "unchanged": unchanged}, *lines.values())
    return NOT_DONE if unchanged else 0


def _show(context: Context, name: str, change: ItemChange, items: Selected, missing: list[str]) -> int:
    past = PAST[change.action]
    document = {"queue": name, past: items.changed, "missing": missing, "problems": items.problems}
    context.answers.give(document, f"{name}: {count(items.changed)} {past.replace('_', ' ')}")
    if missing:
        terminal.say_error(absent(name, missing))
    for problem in items.problems:
        terminal.say_error(problem)
    if items.problem_count > len(items.problems):
        terminal.say_error(f"{count(items.problem_count - len(items.problems))} more were not changed")
    return NOT_DONE if missing or items.problems else 0


def _removal(name: str, chosen: Selection, owner: str) -> str:
    noun = _one_of(chosen.state)
    is_filtered = chosen.wanted != ItemFilter()
    which = f"all {noun.replace('item', 'items')} that match the filters" if is_filtered else f"every {noun}"
    return f"this removes {which} of {name}{owner} permanently"


async def _run(items: Selected, change: ItemChange) -> None:
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


def _show_dry_run(context: Context, name: str, chosen: Selection, items: Selected) -> int:
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
        item.last_error or "-", payload(item),
    ]  # fmt: skip


def absent(name: str, ids: list[str]) -> str:
    """The error for ids of items that are not in failed."""
    return f"{name} has no failed item {', '.join(ids)}; see `claimq failed list {name}`"
