"""The commands of `claimq` for the reference, which is made of their help."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from claimq_admin import errors
from claimq_cli.program import cli


def root() -> click.Context:
    """The context of `claimq` itself."""
    return click.Context(cli, info_name="claimq", help_option_names=["-h", "--help"])


def commands_of(context: click.Context) -> Iterator[click.Context]:
    """All commands that can be run, in alphabetical order; of a group, those in it."""
    group = context.command
    if not isinstance(group, click.Group):
        yield context
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield from commands_of(click.Context(command, info_name=name, parent=context))


def exit_codes() -> list[tuple[str, str]]:
    """The exit codes and their meanings."""
    return re.findall(r"([0-9]+) +(.+)", errors.__doc__ or "")
