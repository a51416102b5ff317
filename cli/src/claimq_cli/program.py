"""Lists the commands of `claimq`, and turns errors into messages and exit codes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NoReturn

import click
from click.core import ParameterSource

from claimq_admin import errors
from claimq_cli.commands.options.context import common_options
from claimq_cli.output import terminal

_COMMANDS = {
    "audit": "reading.audit:audit",
    "check": "checking.check:check",
    "clients": "reading.inspection:clients",
    "completion": "completion:completion",
    "delete": "changing.change:delete",
    "doctor": "checking.doctor:doctor",
    "drain": "changing.drain:drain",
    "enqueue": "moving.enqueue:enqueue",
    "export": "moving.export_items:export_items",
    "failed": "reading.failed:failed",
    "flush": "changing.change:flush",
    "import": "moving.import_items:import_items",
    "item": "reading.item:item",
    "items": "reading.items:items",
    "limits": "changing.limits:limits",
    "pause": "changing.change:pause",
    "policy": "changing.policy:policy",
    "queues": "reading.inspection:queues",
    "release": "changing.change:release",
    "resume": "changing.change:resume",
    "status": "reading.inspection:status",
    "top": "reading.top:top",
    "up": "running.up:up",
    "url": "reading.url:url",
    "validate": "checking.validate:validate",
    "web": "running.web:web",
    "why": "reading.why:why",
    "worker": "running.worker:worker",
    "workers": "reading.inspection:workers",
}
"""Where each command is: the module in `claimq_cli.commands`, and its name there."""
_GROUPS = ("failed", "item")
_OF_OTHERS = {
    "add": ("enqueue",),
    "list": ("queues", "items"),
    "ls": ("queues", "items"),
    "purge": ("flush",),
    "push": ("enqueue",),
    "retry": ("failed requeue",),
    "run": ("up", "worker"),
    "start": ("up",),
    "stop": ("pause", "drain"),
}
"""Words that other programs have for commands."""


class _LazyGroup(click.Group):
    """Imports the module of a command when it is used: importing all of them takes longer than most commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in alphabetical order."""
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module, _, name = _COMMANDS[cmd_name].partition(":")
            self.add_command(getattr(import_module(f"claimq_cli.commands.{module}"), name))
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of these words. The error for an unknown one has those that it may mean."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            name, names = error.command_name, self.list_commands(ctx)
            groups = [
                group
                for group_name in _GROUPS
                if isinstance(group := self.get_command(ctx, group_name), click.Group)
            ]
            in_groups = [f"{group.name} {name}" for group in groups if name in group.commands]
            if meant := _OF_OTHERS.get(name, in_groups):
                text = f"No such command '{name}'. Did you mean {' or '.join(map(repr, meant))}?"
                raise click.exceptions.NoSuchCommand(name, text, ctx=ctx) from None
            raise click.exceptions.NoSuchCommand(name, possibilities=names, ctx=ctx) from None


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="claimq-cli")
@common_options(output=None)
@click.pass_context
def cli(context: click.Context, /, **options: object) -> None:
    """Inspect, change and run reliable work queues on Redis and Valkey.

    Options before the command apply to it unless they follow it too.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    command = cli.get_command(context, context.invoked_subcommand or "")
    if command is None or not chosen:
        return
    parameters = {parameter.name for leaf in _leaves(command) for parameter in leaf.params}
    for option in context.command.params:
        is_given = (
            option.name in chosen and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        )
        if is_given and option.name not in parameters:
            raise click.UsageError(f"`claimq {command.name}` has no option {option.opts[-1]}", context)
    context.default_map = {str(command.name): _defaults(command, chosen)}


def _leaves(command: click.Command) -> list[click.Command]:
    if isinstance(command, click.Group):
        return [leaf for command_below in command.commands.values() for leaf in _leaves(command_below)]
    return [command]


def _defaults(command: click.Command, chosen: Mapping[str, object]) -> Mapping[str, object]:
    """The defaults of a command's options, in the form that click reads for groups."""
    if isinstance(command, click.Group):
        return {name: _defaults(command_below, chosen) for name, command_below in command.commands.items()}
    return chosen


def run(arguments: Sequence[str] | None = None, *, is_plugin: bool = False) -> NoReturn:
    """Runs the command. Every error is one line on stderr and an exit code (see `claimq_admin.errors`).

    ``is_plugin``: as `kubectl claimq`, which uses the ReliableQueues of kubectl's current namespace by default.
    """
    name = "kubectl claimq" if is_plugin else "claimq"
    defaults = {"namespace": ""} if is_plugin else {}
    terminal.print_what_the_encoding_lacks()
    try:
        code = cli.main(arguments, prog_name=name, standalone_mode=False, default_map=defaults)
    except click.exceptions.Abort:
        sys.exit(errors.INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(error.exit_code)
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else name
        terminal.say_error(f"{' '.join(error.format_message().split())} (see `{command} --help`)")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(errors.INTERRUPTED)
    except errors.EXPECTED as error:
        for line in errors.lines_of(error):
            terminal.say_error(line)
        sys.exit(errors.exit_code_of(error))
    sys.exit(code if isinstance(code, int) else 0)
