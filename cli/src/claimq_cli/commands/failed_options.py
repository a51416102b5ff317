"""Options that select failed items."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from claimq_cli.commands.option_types import Duration, rate_option, with_options
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.failed_actions import FailedFilter
from claimq_cli.header_filter import HeaderFilter, parse_header_filter
from claimq_cli.payload_filter import PayloadFilter, parse_payload_filter


@dataclass(frozen=True, slots=True)
class Selection:
    """Which failed items a command changes, and how: those with these ids, or all that pass the filter."""

    ids: tuple[str, ...]
    wanted: FailedFilter
    limit: int | None
    is_dry: bool
    rate: float | None


class PayloadPath(click.ParamType[PayloadFilter]):
    """``$.order.country=DE``; to a filter."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> PayloadFilter:
        """The filter, or a usage error with the fix."""
        try:
            return parse_payload_filter(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class HeaderWord(click.ParamType[HeaderFilter]):
    """``tenant=acme``; to a filter."""

    name = "header"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> HeaderFilter:
        """The filter, or a usage error with the fix."""
        try:
            return parse_header_filter(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_FILTERS: tuple[tuple[tuple[str, ...], dict[str, Any], str], ...] = (
    (("--error",), {"default": "", "metavar": "TEXT"}, "items whose last error has this text, in any case."),
    (
        ("--reason",),
        {"default": "", "metavar": "TEXT"},
        "items with this reason, as on the web page: the first line of the error, # for numbers.",
    ),
    (("--client",), {"metavar": "CLIENT"}, "the items of this client."),
    (
        ("--json", "payload"),
        {"type": PayloadPath(), "metavar": "PATH[=VALUE]"},
        "items in whose payload this JSONPath finds something, or VALUE ($.order.country=DE).",
    ),
    (
        ("--header",),
        {"type": HeaderWord(), "metavar": "NAME[=VALUE]"},
        "items that have this header, or have it with VALUE.",
    ),
    (("--min-age",), {"type": Duration(), "default": 0.0}, "items that failed at least this long ago."),
    (
        ("--min-given-up-count",),
        {"type": click.IntRange(0), "default": 0},
        "items that were given up at least this often.",
    ),
    (("--max-given-up-count",), {"type": click.IntRange(1)}, "items that were given up at most this often."),
)
"""The options of a FailedFilter: their names, their settings, and the end of their help."""


def filters(only: str = "Only") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of a :class:`FailedFilter`, which the command gets as ``wanted``. ``only``: how their help begins."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def filtered(**given: Any) -> Any:
            fields = {one.name: given.pop(one.name) for one in dataclasses.fields(FailedFilter)}
            return command(wanted=FailedFilter(**fields), **given)

        options = [click.option(*names, help=f"{only} {which}", **more) for names, more, which in _FILTERS]
        return with_options(filtered, options)

    return decorate


_IDS = (
    queue_argument,
    click.argument("ids", metavar="[ID]...", nargs=-1),
    click.option("--all", "everything", is_flag=True, help="All failed items that pass the filters."),
)
_HOW = (
    click.option(
        "--limit", type=click.IntRange(1), help="With --all: at most this many, oldest failure first."
    ),
    click.option("--dry-run", is_flag=True, help="With --all: only count the items, and show the first."),
    rate_option,
)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a :class:`Selection`, which the command gets as ``chosen``."""

    @functools.wraps(command)
    def select(
        wanted: FailedFilter,
        ids: tuple[str, ...],
        everything: bool,
        limit: int | None,
        dry_run: bool,
        rate: float | None,
        **others: Any,
    ) -> Any:
        if bool(ids) == everything:
            raise CommandError("name the items by their ids, or give --all", USAGE)
        if ids and (wanted != FailedFilter() or limit or dry_run or rate):
            raise CommandError("the filters, --dry-run and --rate need --all; omit them, or the ids", USAGE)
        return command(chosen=Selection(ids, wanted, limit, dry_run, rate), **others)

    return with_options(filters("With --all: only")(with_options(select, _HOW)), _IDS)
