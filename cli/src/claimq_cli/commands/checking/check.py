"""`claimq check`: checks one queue for a monitoring system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from claimq.errors import ScriptsRefused
from claimq.internals.operations import internals
from claimq_admin.errors import EXPECTED, USAGE, CommandError, lines_of, text_of
from claimq_admin.reads.queue_reads import attention
from claimq_cli.commands.checking.monitoring import Finding, Result, Thresholds, finding_of, measures_of
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import Command, Duration
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_control.decide.standstill import held_back_note, standstill

_NO_MAXMEMORY = (
    "memory unknown: the server has no maxmemory, so set it or omit --warn-memory and --crit-memory"
)
_OPTIONS: dict[str, tuple[click.ParamType[Any], str]] = {
    "length": (click.IntRange(0), "more items in main than this"),
    "age": (Duration(), "an item that has waited longer in main than this (30s, 5m)"),
    "failed": (click.IntRange(0), "more failed items than this"),
    "memory": (click.FloatRange(0, 100), "more of the server's maxmemory in use than this, in percent"),
}


class CheckCommand(click.Command):
    """Reports a wrong command line as UNKNOWN: the usual exit code 2 would mean CRITICAL."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command; ends the command with UNKNOWN if its arguments are wrong."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            text = " ".join(error.format_message().split())
            click.echo(Finding(Result.UNKNOWN, f"{text} (see `claimq check --help`)").line)
            raise click.exceptions.Exit(Result.UNKNOWN) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; ends it with UNKNOWN if the check cannot begin."""
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            click.echo(Finding(Result.UNKNOWN, "; ".join(lines_of(error))).line)
            raise click.exceptions.Exit(Result.UNKNOWN) from error


def _threshold_options(command: Command) -> Command:
    for name, (kind, above) in reversed(_OPTIONS.items()):
        for prefix, severity in (("crit", Result.CRITICAL), ("warn", Result.WARNING)):
            add = click.option(f"--{prefix}-{name}", type=kind, help=f"{severity.name} for {above}.")
            command = add(command)
    return command


@click.command(cls=CheckCommand)
@queue_argument
@_threshold_options
@with_context
async def check(context: Context, /, name: str, **limits: float | None) -> int:
    """Check the queue NAME for a monitoring system.

    The output is one line, `RESULT - text | performance data`, and the exit code is that of a plugin of
    Nagios or Icinga: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (no such queue, server out of reach, wrong options).
    People use `claimq doctor`. A queue that makes no progress is CRITICAL.

    \b
    claimq check thumbnails --warn-length 1000 --crit-length 10000 --warn-age 1m --crit-age 10m
    claimq check thumbnails --warn-failed 0 --warn-memory 80 --crit-memory 95

    With -o json: `{"queue", "result", "text", "values": {"main", "busy", "delayed", "failed", "age", "memory"}}`.
    """
    report = await _checked(context, name, limits)
    document = {
        "queue": name,
        "result": report.result.name,
        "text": report.text,
        "values": {measure.label: measure.value for measure in report.measures},
    }
    context.answers.give(document, report.line)
    return report.result


async def _checked(context: Context, name: str, limits: Mapping[str, float | None]) -> Finding:
    """The result for a queue; UNKNOWN for every error, whose usual exit code would be another result."""
    try:
        thresholds = {option: _thresholds(option, limits) for option in _OPTIONS}
        return await _measured(context, name, thresholds)
    except ScriptsRefused as error:  # no item can be enqueued, claimed or ended
        return Finding(Result.CRITICAL, text_of(error))
    except EXPECTED as error:
        return Finding(Result.UNKNOWN, "; ".join(lines_of(error)))


def _thresholds(name: str, limits: Mapping[str, float | None]) -> Thresholds:
    thresholds = Thresholds(limits[f"warn_{name}"], limits[f"crit_{name}"])
    if thresholds.warn is not None and thresholds.crit is not None and thresholds.warn > thresholds.crit:
        raise CommandError(f"--warn-{name} is above --crit-{name}; swap them, or omit one", USAGE)
    return thresholds


async def _measured(context: Context, name: str, thresholds: Mapping[str, Thresholds]) -> Finding:
    share = None
    async with context.queue(name) as queue:
        await internals(queue).try_scripts()
        snapshot = await queue.snapshot()
        if thresholds["memory"].are_set:
            share = await queue.memory_share()
    command = context.commands_about(name)
    stuck = standstill(snapshot, command("drain"))
    words = "" if stuck else attention(snapshot, command)
    pauses_end = bool(snapshot.pauses) and all(pause.until for pause in snapshot.pauses)
    is_intended = pauses_end or words == held_back_note(snapshot)
    return finding_of(
        name,
        measures_of(snapshot, share, thresholds),
        notes=[words] if words and is_intended else ["paused"] if snapshot.paused and not words else [],
        missing=_NO_MAXMEMORY if thresholds["memory"].are_set and share is None else "",
        attention="" if is_intended else words,
        stuck=stuck,
    )
