"""Changes items that a command has selected, and prints the result."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from claimq.model import Located, State
from claimq_admin.changes.action_record import recorded_in
from claimq_admin.changes.local_user import local_user
from claimq_admin.errors import INTERRUPTED, NOT_DONE, CommandError
from claimq_admin.rate_limit import Pace
from claimq_admin.reads import documents
from claimq_admin.selection.item_filter import ItemFilter, entered_at
from claimq_admin.selection.selected_items import Change, SelectedItems
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


@dataclass(frozen=True, slots=True)
class Result:
    """What a change has done. ``missing``: ids that were not there; ``problems``: why others were not changed, the
    first of ``problem_count``.
    """

    changed: int
    missing: list[str]
    problems: list[str]
    problem_count: int


async def carry_out(
    context: Context, name: str, chosen: Selection, items: SelectedItems, change: Change, past: str
) -> int:
    """Changes the items and prints the result; ``past``: what was done to them. Returns the exit code: 1 if an item was
    not changed.
    """
    if chosen.is_dry:
        async with stopping() as stop:
            await items.count(stop)
        show_dry_run(context, name, items.state, items.matched, items.samples)
        return 0
    missing: list[str] = []
    if chosen.ids:
        missing = await items.run_on(chosen.ids, change, recorded_in(items.queue, local_user()))
    else:
        await _run(items, change, Pace(chosen.rate), past)
    result = Result(items.changed, missing, items.problems, items.problem_count)
    return show_result(context, name, past, result)


def show_result(context: Context, name: str, past: str, result: Result) -> int:
    """Prints the result of a change. Returns the exit code."""
    document = {"queue": name, past: result.changed, "missing": result.missing, "problems": result.problems}
    context.answers.give(document, f"{name}: {count(result.changed)} {past.replace('_', ' ')}")
    if result.missing:
        terminal.say_error(absent(name, result.missing))
    for problem in result.problems:
        terminal.say_error(problem)
    if result.problem_count > len(result.problems):
        terminal.say_error(f"{count(result.problem_count - len(result.problems))} more were not changed")
    return NOT_DONE if result.missing or result.problems else 0


def confirm_removal(name: str, chosen: Selection, owner: str, *, is_given: bool) -> None:
    """Asks before all items that pass the filters are removed. CommandError if the user does not confirm it.

    ``owner``: a note on who owns the queue.
    """
    if chosen.ids or chosen.is_dry:
        return
    one = _one_of(chosen.state)
    is_filtered = chosen.wanted != ItemFilter()
    which = f"all {one.replace('item', 'items')} that match the filters" if is_filtered else f"every {one}"
    confirm(f"this removes {which} of {name}{owner} permanently", is_given=is_given)


async def _run(items: SelectedItems, change: Change, pace: Pace, past: str) -> None:
    """Changes all items that pass the filters, with the progress on a terminal."""
    progress = Progress(is_shown=sys.stderr.isatty())
    items.note = lambda: progress.show(
        f"{items.looked_at:,} of {items.total:,} read, {items.changed:,} {past.replace('_', ' ')}"
    )
    async with stopping() as stop:
        try:
            await items.run(change, recorded_in(items.queue, local_user()), pace, stop)
        finally:
            progress.clear()
        if stop.is_set():
            raise CommandError(f"interrupted after {count(items.changed)}", INTERRUPTED)


def show_dry_run(context: Context, name: str, state: State, matched: int, samples: Sequence[Located]) -> None:
    """Prints how many items pass the filters, and the first of them."""
    context.answers.give_table(
        {
            "queue": name,
            "dry_run": True,
            "matching": matched,
            "samples": [documents.located(one) for one in samples],
        },
        COLUMNS[state],
        [row_of(one) for one in samples],
        nothing=f"{name}: no {_one_of(state)} passes the filters",
    )
    terminal.say_error(f"{name}: {count(matched)} would be changed; nothing was (--dry-run)")


def _one_of(state: State) -> str:
    return "failed item" if state is State.FAILED else f"item in {state.value}"


def row_of(one: Located) -> list[str]:
    """An item in a table with the COLUMNS of its state."""
    item = one.item
    return [
        one.name or item.id, instant(entered_at(one)), str(item.requeue_count), str(item.given_up_count),
        item.last_error or "-", payload(item),
    ]  # fmt: skip


def absent(name: str, ids: list[str]) -> str:
    """The error for ids of items that are not in failed."""
    return f"{name} has no failed item {', '.join(ids)}; see `claimq failed list {name}`"
