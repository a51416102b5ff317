"""Options that select items."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from claimq.model import State
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.selection.item_filter import FILTERS, ItemFilter
from claimq_cli.commands.options.option_types import rate_option, with_options
from claimq_cli.commands.options.queue_argument import queue_argument


@dataclass(frozen=True, slots=True)
class Selection:
    """Which items a command changes, and how: those with these ids, or all of a state that pass the filter."""

    ids: tuple[str, ...]
    wanted: ItemFilter
    state: State
    limit: int | None
    is_dry: bool
    rate: float | None


class FilterText(click.ParamType[Any]):
    """The text of a filter; to its value."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self.name = "filter"
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or a usage error with the fix."""
        try:
            return self._read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def filters(
    only: str = "Only", *, error: str = "--error"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of an :class:`ItemFilter`, which the command gets as ``selector``. ``only``: how their help begins;
    ``error``: the option for a part of the last error.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def filtered(**options: Any) -> Any:
            values = {filter_.name: options.pop(f"only_{filter_.name}") for filter_ in FILTERS}
            return command(selector=ItemFilter(**values), **options)

        return with_options(
            filtered,
            [
                click.option(
                    error
                    if filter_.name == "error"
                    else filter_.flag or f"--{filter_.name.replace('_', '-')}",
                    f"only_{filter_.name}",
                    type=FilterText(filter_.read),
                    metavar=filter_.metavar,
                    help=f"{only} {filter_.help}",
                )
                for filter_ in FILTERS
            ],
        )

    return decorate


_HOW = (
    click.option("--limit", type=click.IntRange(1), help="With --all: at most this many, the first ones."),
    click.option("--dry-run", is_flag=True, help="With --all: only count the items, and show the first."),
    rate_option,
)
_IDS = click.argument("ids", metavar="[ID]...", nargs=-1)


def item_selection(
    *arguments: Callable[[Any], Any], state: State | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The argument NAME, ids, and the options of a :class:`Selection`: ``chosen`` of the command.

    ``state``: of the items; None for any state by their ids, and with --all for main or delayed. ``arguments``: those
    of the command after NAME.
    """
    which = "failed items" if state else "items of --state"
    every = [click.option("--all", "everything", is_flag=True, help=f"All {which} that pass the filters.")]
    if state is None:
        states = click.Choice(["main", "delayed"])
        every.append(click.option("--state", type=states, help="With --all: the state of the items."))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def select(**options: Any) -> Any:
            name = options.pop("state", None)
            if state is None and options["everything"] != (name is not None):
                raise CommandError(
                    "--all and --state go together; for all failed items use `claimq failed`", USAGE
                )
            return command(**_selected(options, state or State(name or "main")))

        error = "--error" if state else "--last-error"
        selected = filters("With --all: only", error=error)(with_options(select, _HOW))
        return with_options(selected, (queue_argument, *arguments, _IDS, *every))

    return decorate


def _selected(options: dict[str, Any], state: State) -> dict[str, Any]:
    """The options of a command, with ``chosen`` instead of those that select. CommandError if they contradict."""
    names = ("ids", "selector", "everything", "limit", "dry_run", "rate")
    ids, selector, everything, limit, dry_run, rate = (options.pop(name) for name in names)
    if bool(ids) == everything:
        raise CommandError("name the items by their ids, or give --all", USAGE)
    if ids and (selector != ItemFilter() or limit or dry_run or rate):
        raise CommandError("the filters, --dry-run and --rate need --all; omit them, or the ids", USAGE)
    return {**options, "chosen": Selection(ids, selector, state, limit, dry_run, rate)}
