"""Every command that takes the name of a queue completes it."""

from collections.abc import Iterator

import click

from claimq_cli.commands.options.queue_argument import QueueArgument
from claimq_cli.program import cli


def test_every_name_of_a_queue_is_completed() -> None:
    names = [one for one in _arguments(cli) if one.name == "name"]
    assert len(names) > 20
    assert [one for one in names if not isinstance(one, QueueArgument)] == []


def _arguments(command: click.Command) -> Iterator[click.Parameter]:
    yield from (one for one in command.params if isinstance(one, click.Argument))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            assert inner.name == name
            yield from _arguments(inner)
