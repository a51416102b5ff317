"""`claimq failed`: lists, requeues and removes failed items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import click

from claimq.model import Located, State
from claimq_cli.commands.confirmation import confirm
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.inspection import described
from claimq_cli.commands.option_types import Command, Duration, number_option, offset_option
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import NOT_DONE, USAGE, CommandError
from claimq_cli.output import documents, terminal
from claimq_cli.output.answers import count, instant, payload
from claimq_cli.output.owners import owner_note
from claimq_cli.queue_reads import first_matching


@click.group()
def failed() -> None:
    """List, show, requeue or remove failed items."""


@failed.command("list")
@queue_argument
@number_option(20)
@offset_option
@click.option(
    "--error", default="", metavar="TEXT", help="Only items whose last error has this text, in any case."
)
@click.option("--client", metavar="CLIENT", help="Only the items of this client.")
@click.option(
    "--min-age", type=Duration(), default=0.0, help="Only items that failed at least this long ago."
)
@with_context
async def list_failed(
    context: Context, name: str, number: int, offset: int, error: str, client: str | None, min_age: float
) -> None:
    """List the failed items of the queue NAME, oldest failure first.

    With -o name only their ids are printed, for other commands:

    \b
    claimq failed list thumbnails --error timeout --limit 1000 -o name | xargs claimq failed requeue thumbnails
    """
    async with context.queue(name) as queue:
        snapshot = await queue.snapshot()
        before = snapshot.now - min_age

        def matches(one: Located) -> bool:
            return (
                error.casefold() in (one.item.last_error or "").casefold()
                and client in {None, one.item.client}
                and (one.failed_at or 0.0) <= before
            )

        if error or client or min_age:
            found = await first_matching(queue, matches, number, offset)
        else:
            found = await queue.failed_items(number, offset=offset)
        total = snapshot.lengths[State.FAILED]
    context.answers.give_table(
        {"queue": name, "length": total, "items": [documents.located(one) for one in found]},
        ["id", "failed", ">requeued", ">given up", "~error", "~payload"],
        [_row(one) for one in found],
        nothing=f"{name}: no failed items",
        each="items",
    )


def _row(one: Located) -> list[str]:
    item = one.item
    return [
        one.name, instant(one.failed_at), str(item.requeue_count), str(item.given_up_count), item.last_error or "-",
        payload(item),
    ]  # fmt: skip


@failed.command("removed")
@queue_argument
@number_option(20)
@offset_option
@with_context
async def list_removed(context: Context, name: str, number: int, offset: int) -> None:
    """List items of the queue NAME that were dropped or removed by the policy, latest first."""
    async with context.queue(name) as queue:
        found = await queue.removed_items(number, offset=offset)
    context.answers.give_table(
        {"queue": name, "items": [documents.removed(one) for one in found]},
        ["id", "removed", "reason", "~error", "~payload"],
        [
            [one.item.id, instant(one.removed_at), one.reason, one.item.last_error or "-", payload(one.item)]
            for one in found
        ],
        nothing=f"{name}: no item was removed or dropped",
        each="items",
    )


@failed.command("show")
@queue_argument
@click.argument("id")
@with_context
async def show(context: Context, name: str, id: str) -> None:  # noqa: A002 - the name that click shows
    """Show one failed item of the queue NAME with all details."""
    async with context.queue(name) as queue:
        found = await queue.failed_item(id)
    if found is None:
        raise CommandError(_absent(name, [id]), NOT_DONE)
    context.answers.give({"queue": name, **documents.located(found)}, *described(found))


def _selection(command: Command) -> Command:
    """Which items: by their ids, or all that are old enough. See also :func:`_check_selection`."""
    command = click.option(
        "--min-age",
        type=Duration(),
        default=0.0,
        help="With --all: only items that failed at least this long ago.",
    )(command)
    everything = click.option(
        "--all", "everything", is_flag=True, help="All failed items that match the filters."
    )
    return queue_argument(click.argument("ids", nargs=-1)(everything(command)))


@failed.command("requeue")
@_selection
@click.option(
    "--max-given-up-count",
    type=click.IntRange(1),
    help="With --all: only items that were given up at most this often.",
)
@click.option("--limit", type=click.IntRange(1), help="With --all: at most this many, oldest failure first.")
@with_context
async def requeue(
    context: Context,
    name: str,
    ids: tuple[str, ...],
    everything: bool,
    max_given_up_count: int | None,
    min_age: float,
    limit: int | None,
) -> int:
    """Send failed items of the queue NAME back to main.

    Name the items by their IDS, or select all that match the filters with --all.
    """
    _check_selection(ids, everything=everything, filtered=bool(max_given_up_count or min_age or limit))
    async with context.queue(name) as queue:
        if everything:
            number, missing = (
                await queue.requeue_failed(
                    min_age=min_age, max_given_up_count=max_given_up_count, limit=limit
                ),
                list[str](),
            )
        else:
            number, missing = await _each(ids, queue.requeue_failed_item)
    document = {"queue": name, "requeued": number, "missing": missing}
    return _report(context, document, name, f"{count(number)} requeued", missing)


@failed.command("remove")
@_selection
@click.option(
    "--min-given-up-count",
    type=click.IntRange(0),
    default=0,
    help="With --all: only items that were given up at least this often.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(
    context: Context,
    name: str,
    ids: tuple[str, ...],
    everything: bool,
    min_given_up_count: int,
    min_age: float,
    yes: bool,
) -> int:
    """Remove failed items of the queue NAME permanently.

    Name the items by their IDS, or select all that match the filters with --all.
    """
    _check_selection(ids, everything=everything, filtered=bool(min_given_up_count or min_age))
    is_filtered = min_given_up_count or min_age
    which = "all failed items that match the filters" if is_filtered else "every failed item"
    async with context.queue(name) as queue:
        if everything:
            confirm(f"this removes {which} of {name}{await owner_note(queue)} permanently", is_given=yes)
            number = (await queue.remove_failed(min_age=min_age, min_given_up_count=min_given_up_count)).count
            missing = list[str]()
        else:
            number, missing = await _each(ids, queue.remove_failed_item)
    document = {"queue": name, "removed": number, "missing": missing}
    return _report(context, document, name, f"{count(number)} removed", missing)


def _check_selection(ids: tuple[str, ...], *, everything: bool, filtered: bool) -> None:
    if bool(ids) == everything:
        raise CommandError("name the items by their ids, or give --all", USAGE)
    if filtered and not everything:
        raise CommandError("the filters need --all; omit them, or the ids", USAGE)


async def _each(ids: tuple[str, ...], handle: Callable[[str], Awaitable[object]]) -> tuple[int, list[str]]:
    missing = [one for one in dict.fromkeys(ids) if not await handle(one)]
    return len(dict.fromkeys(ids)) - len(missing), missing


def _report(
    context: Context, document: Mapping[str, object], name: str, text: str, missing: list[str]
) -> int:
    """Prints the result, and the missing ids on stderr. Returns the exit code: 1 if any is missing."""
    context.answers.give(document, f"{name}: {text}")
    if not missing:
        return 0
    terminal.say_error(_absent(name, missing))
    return NOT_DONE


def _absent(name: str, ids: list[str]) -> str:
    return f"{name} has no failed item {', '.join(ids)}; see `claimq failed list {name}`"
