"""Types of command line options, and options that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from claimq.item_options import MAX_REQUEUES, checked_headers
from claimq.model import Priority
from claimq_admin.instants import parse_instant
from claimq_cli.output.terminal import say_error
from claimq_process.duration import parse_duration

_PASSWORD = re.compile("(?!unix:///)[^@]*://[^@]*:[^@]+@")
Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    """Adds several options or arguments to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def server_url(*names: str, instead: str, **settings: Any) -> Callable[[Command], Command]:
    """An option with the URL of a server. It warns of a password in the arguments of the process; ``instead`` says
    where the password belongs."""

    def warn(context: click.Context, option: click.Parameter, url: str | None) -> str | None:
        source = context.get_parameter_source(option.name or "")
        if (
            url
            and source is ParameterSource.COMMANDLINE
            and not context.resilient_parsing
            and _PASSWORD.match(url)
        ):
            say_error(f"{names[0]}: other users of this machine can see this password; {instead}")
        return url

    return click.option(*names, metavar="URL", callback=warn, **settings)


class Duration(click.ParamType[float]):
    """``30s``, ``5m``; to seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error with the fix."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Instant(click.ParamType[float]):
    """ISO 8601 (without an offset: in the local time zone) or Unix seconds; to Unix seconds."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds, or a usage error with the fix."""
        if isinstance(value, float):
            return value
        try:
            return parse_instant(value)
        except ValueError:
            self.fail(
                f'"{value}" is not an instant; write ISO 8601 (2030-01-31T09:00:00Z; without an offset in the local '
                "time zone) or Unix seconds",
                param,
                ctx,
            )


def _headers(
    context: click.Context, option: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str] | None:
    """The headers of ``NAME=VALUE`` words; None without any."""
    words = [pair.partition("=") for pair in pairs]
    headers = {name: value for name, _, value in words}
    if bare := [name for name, has_value, _ in words if not has_value]:
        raise click.BadParameter(f'"{bare[0]}" has no value; write NAME=VALUE', context, option)
    if len(headers) < len(words):
        raise click.BadParameter("a name is given twice; give each header once", context, option)
    try:
        return checked_headers(headers) or None
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


headers_option = click.option(
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_headers,
    help="Header of the items; may be given several times.",
)


def _deadline(
    context: click.Context, option: click.Parameter, expires_in: float | None
) -> timedelta | float | None:
    """The deadline of either option."""
    instant: float | None = context.params.pop("deadline_at", None)
    if expires_in is not None and instant is not None:
        raise click.BadParameter("excludes --deadline; give only one of them", context, option)
    return instant if expires_in is None else timedelta(seconds=expires_in)


_LIMITS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--deadline",
        "deadline_at",
        type=Instant(),
        metavar="INSTANT",
        is_eager=True,
        help="Do not start the items after this instant; they go to failed.",
    ),
    click.option(
        "--expires-in",
        "deadline",
        type=Duration(),
        metavar="DURATION",
        callback=_deadline,
        help="The same, from now.",
    ),
    click.option(
        "--max-requeues",
        type=click.IntRange(0, MAX_REQUEUES),
        metavar="N",
        help="Requeue limit of the items, instead of the queue's.",
    ),
    click.option(
        "--priority",
        type=click.Choice([priority.value for priority in Priority]),
        default=Priority.NORMAL.value,
        help="Which items of the client are claimed first.",
    ),
    click.option(
        "--exclusive-key",
        metavar="KEY",
        help="Of the items with the same key at most one is busy.",
    ),
)


def limit_options(command: Command) -> Command:
    """The options of limits that items have of their own, of their priority and their exclusive key."""
    return with_options(command, _LIMITS)


def number_option(default: int) -> Callable[[Command], Command]:
    """``--limit``: how many items to show."""
    return click.option(
        "--limit",
        "number",
        type=click.IntRange(1, 1000),
        default=default,
        show_default=True,
        help="Number of items.",
    )


offset_option = click.option("--offset", type=click.IntRange(0), default=0, help="Number of items to skip.")
rate_option = click.option(
    "--rate", type=click.FloatRange(min=0.1), metavar="N", help="At most N items per second."
)
