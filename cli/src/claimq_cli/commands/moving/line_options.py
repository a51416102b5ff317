"""The options of commands that enqueue the lines of a file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from claimq_admin.errors import USAGE, CommandError
from claimq_cli.commands.options.option_types import with_options


@dataclass(frozen=True, slots=True)
class LineOptions:
    """The lines to enqueue: those of the file ``source`` ('-' is stdin) from ``from_line`` on, each ended by ``end``.

    ``id_prefix``: the id of an item is this prefix and the number of its line; None: ids are generated.
    """

    source: str
    end: bytes
    from_line: int
    id_prefix: str | None


_OPTIONS = (
    click.option(
        "--lines",
        metavar="FILE",
        help="Enqueue each line of FILE; '-' is stdin. Empty lines are skipped, and a final carriage return is cut.",
    ),
    click.option(
        "-0",
        "--null",
        is_flag=True,
        help="With --lines: items are ended by NUL bytes instead of newlines, and nothing is skipped or cut.",
    ),
    click.option(
        "--from-line", type=click.IntRange(1), default=1, metavar="N", help="With --lines: start at line N."
    ),
    click.option(
        "--id-prefix",
        metavar="PREFIX",
        help="With --lines: each item's id is PREFIX and its line number, so a repeat adds no duplicates.",
    ),
)


def line_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of :class:`LineOptions`, which the command gets as ``lines``; None without --lines."""

    @functools.wraps(command)
    def choose(lines: str | None, null: bool, from_line: int, id_prefix: str | None, **others: Any) -> Any:
        if lines is None and (null or from_line != 1 or id_prefix is not None):
            raise CommandError("--null, --from-line and --id-prefix need --lines", USAGE)
        chosen = None if lines is None else LineOptions(lines, b"\0" if null else b"\n", from_line, id_prefix)
        return command(lines=chosen, **others)

    return with_options(choose, _OPTIONS)
