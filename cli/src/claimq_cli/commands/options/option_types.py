"""Types of command line options, and options that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

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
