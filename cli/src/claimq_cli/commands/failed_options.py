"""Options that select failed items."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from claimq_cli.commands.option_types import Command, Duration, rate_option, with_options
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.failed_actions import FailedFilter


@dataclass(frozen=True, slots=True)
class Selection:
    """Which failed items a command changes, and how: those with these ids, or all that pass the filter."""

    ids: tuple[str, ...]
    wanted: FailedFilter
    limit: int | None
    is_dry: bool
    rate: float | None


def filters(only: str = "Only") -> Callable[[Command], Command]:
    """The options that filter failed items by their error, client and age. ``only``: how their help begins."""
    error = click.option(
        "--error",
        default="",
        metavar="TEXT",
        help=f"{only} items whose last error has this text, in any case.",
    )
    client = click.option("--client", metavar="CLIENT", help=f"{only} the items of this client.")
    min_age = click.option(
        "--min-age", type=Duration(), default=0.0, help=f"{only} items that failed at least this long ago."
    )
    return lambda command: error(client(min_age(command)))


_OPTIONS = (
    queue_argument,
    click.argument("ids", metavar="[ID]...", nargs=-1),
    click.option("--all", "everything", is_flag=True, help="All failed items that pass the filters."),
    filters("With --all: only"),
    click.option(
        "--limit", type=click.IntRange(1), help="With --all: at most this many, oldest failure first."
    ),
    click.option("--dry-run", is_flag=True, help="With --all: only count the items, and show the first."),
    rate_option,
)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a :class:`Selection`, which the command gets as ``chosen``. It may add options for given-up
    counts."""

    @functools.wraps(command)
    def select(
        ids: tuple[str, ...],
        everything: bool,
        limit: int | None,
        dry_run: bool,
        rate: float | None,
        **others: Any,
    ) -> Any:
        fields = [one.name for one in dataclasses.fields(FailedFilter) if one.name in others]
        wanted = FailedFilter(**{name: others.pop(name) for name in fields})
        if bool(ids) == everything:
            raise CommandError("name the items by their ids, or give --all", USAGE)
        if ids and (wanted != FailedFilter() or limit or dry_run or rate):
            raise CommandError("the filters, --dry-run and --rate need --all; omit them, or the ids", USAGE)
        return command(chosen=Selection(ids, wanted, limit, dry_run, rate), **others)

    return with_options(select, _OPTIONS)
