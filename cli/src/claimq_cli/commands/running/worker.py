"""`claimq worker`: runs a program for each item of a queue."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import click

import claimq
from claimq.handler_verdicts import Closing
from claimq.server import default_worker
from claimq_admin.errors import INTERRUPTED, NOT_DONE, CommandError
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import Duration
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.item_programs.command_line import CommandLine, checked
from claimq_cli.item_programs.guard import Guard
from claimq_cli.item_programs.handler import ItemHandler, Limits
from claimq_cli.item_programs.output import Sink
from claimq_cli.output import terminal
from claimq_cli.output.log import log_to_stderr
from claimq_process.duration import format_duration

_STDOUT, _STDERR = 1, 2


class _AfterDashes(click.Command):
    """A command that takes a program after ``--``, so that the program's options are never taken for its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = not set(args).isdisjoint(self.get_help_option_names(ctx))
        if "--" not in args and not asks_for_help and not ctx.resilient_parsing:
            raise click.UsageError("write the program after --: claimq worker NAME -- COMMAND [ARG...]", ctx)
        return super().parse_args(ctx, args)


@click.command("worker", cls=_AfterDashes)
@queue_argument
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARG]...")
@click.option(
    "-I",
    "--replace",
    "placeholder",
    metavar="TEXT",
    help="Replace TEXT in the arguments with the payload. Without this option the payload is on stdin.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of programs that run at the same time.",
)
@click.option(
    "--timeout",
    type=Duration(),
    metavar="DURATION",
    help="Stop a program that runs longer (30s, 5m); its item fails. Default: no limit.",
)
@click.option(
    "--kill-after",
    type=Duration(),
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="With --timeout: time between SIGTERM and SIGKILL.",
)
@click.option(
    "--requeue-delay",
    type=Duration(),
    metavar="DURATION",
    help="Delay the items of programs that exit with code 75, or with 69 (60s unless given).",
)
@click.option(
    "--close",
    type=click.Choice([unit.value for unit in Closing]),
    help="What exit code 69 closes for its delay: no worker claims from it until then.",
)
@click.option(
    "--grace",
    type=Duration(),
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="After SIGTERM or Ctrl-C: wait this long for running programs, then kill them.",
)
@click.option(
    "--until-empty",
    is_flag=True,
    help="Exit when main is empty and no program runs; retries that wait are left.",
)
@with_context
async def worker(
    context: Context, name: str, command: tuple[str, ...], placeholder: str | None, concurrency: int,
    timeout: float | None, kill_after: float, requeue_delay: float | None, close: str | None,
    grace: float, until_empty: bool,
) -> None:  # fmt: skip
    """Run COMMAND for each item of the queue NAME.

    \b
    claimq worker thumbnails -- ./make-thumbnail
    claimq worker thumbnails -I {} -- convert {} -resize 200x200 out/
    claimq worker thumbnails --concurrency 4 --timeout 5m -- python3 resize.py
    claimq worker thumbnails --until-empty -- sh -c 'cat >> all.txt'

    The payload is on stdin. Exit code 0: the item is done. 75: it is requeued. 69: it is postponed, which counts no
    attempt. 65: it fails permanently. Every other exit code, a signal and a timeout: it fails, and the end of the
    program's output is kept with it. $CLAIMQ_ITEM_ID is the item's id.

    With -o json: `{"queue", "done", "failed", "requeued", "postponed", "lost", "stopped_by"}`, `stopped_by` being
    `empty`, `paused` or `stop`.
    """
    line = checked(command, placeholder)
    limits = Limits(timeout, kill_after, requeue_delay, close)
    log_to_stderr("claimq", logging.WARNING)
    async with stopping() as stop:
        try:
            async with _handler(context, name, line, limits) as (queue, handler), _limit(stop, grace):
                consumed = await queue.consume(
                    handler.run, concurrency=concurrency, chunk=1, return_when_empty=until_empty, stop=stop,
                    handle_signals=False,
                )  # fmt: skip
        except TimeoutError:
            why = f"--grace {format_duration(grace)} is over"
            raise CommandError(f"{why}; {_KILLED}", INTERRUPTED) from None
        except asyncio.CancelledError:
            raise CommandError(f"interrupted; {_KILLED}", INTERRUPTED) from None
    _report(context, name, consumed)


_KILLED = "the running programs were killed, and their items are back in the queue, uncounted"


@asynccontextmanager
async def _handler(
    context: Context, name: str, line: CommandLine, limits: Limits
) -> AsyncGenerator[tuple[claimq.ReliableQueue, ItemHandler]]:
    """The connected queue and the handler. Nothing that the programs have started is left after the block."""
    stdout = _STDERR if context.answers.is_document else _STDOUT
    with Sink(stdout, "stdout") as out, Sink(_STDERR, "stderr") as errors:
        async with context.queue(name, worker=default_worker()) as queue, Guard() as guard:
            yield queue, ItemHandler(name, line, limits, guard, (out, errors), os.environ)


@asynccontextmanager
async def _limit(stop: asyncio.Event, grace: float) -> AsyncGenerator[None]:
    """TimeoutError if the block runs for ``grace`` seconds after ``stop`` was set."""

    async def begin(limit: asyncio.Timeout) -> None:
        await stop.wait()
        time_left = format_duration(grace)
        terminal.say_error(
            f"stopping: running programs have {time_left} to end; press Ctrl-C again to stop immediately"
        )
        limit.reschedule(asyncio.get_running_loop().time() + grace)

    async with asyncio.timeout(None) as limit:
        beginning = asyncio.ensure_future(begin(limit))
        try:
            yield
        finally:
            beginning.cancel()


def _report(context: Context, name: str, consumed: claimq.Consumed) -> None:
    document = {
        "queue": name,
        "done": consumed.done,
        "failed": consumed.failed,
        "requeued": consumed.requeued,
        "postponed": consumed.postponed,
        "lost": consumed.lost,
        "stopped_by": consumed.stopped_by,
    }
    if context.answers.is_document:
        context.answers.give(document)
    else:
        counts = f"{count(consumed.failed, 'attempt')} failed, {consumed.requeued:,} requeued, {consumed.lost:,} lost"
        counts += f", {consumed.postponed:,} postponed" if consumed.postponed else ""
        terminal.say_error(f"{name}: {count(consumed.done)} done, {counts}")
    if consumed.stopped_by == "paused":
        raise CommandError(f"the queue {name} is paused; run `claimq resume {name}`", NOT_DONE)
