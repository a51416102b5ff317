"""The options of exports: which file, and how."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from claimq_admin.errors import USAGE, CommandError
from claimq_cli.commands.options.option_types import rate_option, with_options
from claimq_cli.migration.item_writer import FORMS


@dataclass(frozen=True, slots=True)
class Target:
    """``to`` is a file, or '-' for stdout. ``removes``: the queue loses what the file has stored. ``rate``: items per
    second, or None for no limit."""

    to: str
    form: str
    end: bytes
    removes: bool
    rate: float | None


_OPTIONS = (
    click.option(
        "--to", default="-", show_default=True, metavar="FILE", help="A new file, or '-' for stdout."
    ),
    click.option(
        "--format", "form", type=click.Choice(FORMS), default="jsonl", show_default=True, help="Its format."
    ),
    click.option("-0", "--null", is_flag=True, help="With --format raw: NUL bytes instead of newlines."),
    click.option(
        "--remove", is_flag=True, help="Remove the items from main or failed once the file has stored them."
    ),
    rate_option,
)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a :class:`Target`, which the command gets as ``target``."""

    @functools.wraps(command)
    def choose(to: str, form: str, null: bool, remove: bool, rate: float | None, **others: Any) -> Any:
        _check(to, form, null=null, removes=remove)
        return command(target=Target(to, form, b"\0" if null else b"\n", remove, rate), **others)

    return with_options(choose, _OPTIONS)


def _check(to: str, form: str, *, null: bool, removes: bool) -> None:
    if not to:
        raise CommandError("--to needs the name of a new file, or '-' for stdout", USAGE)
    if null and form != "raw":
        raise CommandError("--null needs --format raw", USAGE)
    if to == "-" and form != "jsonl" and sys.stdout.isatty():
        raise CommandError(
            f"--format {form} writes payloads as they are, which a terminal may take for commands; "
            "redirect stdout, or use --to FILE",
            USAGE,
        )
    if to == "-" and removes:
        raise CommandError(
            "--remove needs another target than stdout, whose reader may lose items; add --to", USAGE
        )
