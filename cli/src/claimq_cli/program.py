"""Lists the commands of `claimq`, and turns errors into messages and exit codes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import click
from click.core import ParameterSource

from claimq_cli import errors
from claimq_cli.commands.change import delete, flush, pause, release, resume
from claimq_cli.commands.check import check
from claimq_cli.commands.completion import completion
from claimq_cli.commands.context import common_options
from claimq_cli.commands.enqueue import enqueue
from claimq_cli.commands.export_items import export_items
from claimq_cli.commands.failed import failed
from claimq_cli.commands.import_items import import_items
from claimq_cli.commands.inspection import (
    busy,
    clients,
    find,
    items,
    peek,
    queues,
    status,
    url,
    workers,
)
from claimq_cli.commands.policy import policy
from claimq_cli.commands.record import record
from claimq_cli.commands.simulate import simulate_command
from claimq_cli.commands.up import up
from claimq_cli.commands.validate import validate
from claimq_cli.commands.web import web
from claimq_cli.commands.why import why
from claimq_cli.commands.worker import worker
from claimq_cli.output import terminal


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="claimq-cli")
@common_options(output=None)
@click.pass_context
def cli(context: click.Context, /, **given: object) -> None:
    """Inspect, change and run reliable work queues on Redis and Valkey.

    Options before the command apply to it unless they follow it too.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    command = cli.commands.get(context.invoked_subcommand or "")
    if command is None or not chosen:
        return
    known = {parameter.name for one in _leaves(command) for parameter in one.params}
    for option in context.command.params:
        is_given = (
            option.name in chosen and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        )
        if is_given and option.name not in known:
            raise click.UsageError(f"`claimq {command.name}` has no option {option.opts[-1]}", context)
    context.default_map = {str(command.name): _defaults(command, chosen)}


def _leaves(command: click.Command) -> list[click.Command]:
    if isinstance(command, click.Group):
        return [leaf for one in command.commands.values() for leaf in _leaves(one)]
    return [command]


def _defaults(command: click.Command, chosen: Mapping[str, object]) -> Mapping[str, object]:
    """The defaults of a command's options, in the form that click reads for groups."""
    if isinstance(command, click.Group):
        return {name: _defaults(one, chosen) for name, one in command.commands.items()}
    return chosen


for command in (
    up,
    validate,
    worker,
    enqueue,
    import_items,
    export_items,
    status,
    peek,
    items,
    busy,
    clients,
    find,
    failed,
    pause,
    resume,
    policy,
    workers,
    release,
    flush,
    delete,
    check,
    url,
    queues,
    why,
    web,
    record,
    simulate_command,
    completion,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None, *, is_plugin: bool = False) -> NoReturn:
    """Runs the command. Every error is one line on stderr and an exit code (see `claimq_cli.errors`).

    ``is_plugin``: as `kubectl claimq`, which uses the ReliableQueues of kubectl's current namespace by default.
    """
    name = "kubectl claimq" if is_plugin else "claimq"
    defaults = {"namespace": ""} if is_plugin else {}
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
