"""The options of exports: where items go, and how."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from claimq_cli.commands.import_source import KINDS, layout_of
from claimq_cli.commands.option_types import Duration, rate_option, server_url, with_options
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.migration.item_writer import FORMS
from claimq_cli.migration.layout import Layout
from claimq_cli.migration.new_entries import JobOptions


@dataclass(frozen=True, slots=True)
class Target:
    """``to`` is a file, '-' for stdout, or names a queue of another system with this ``layout``. ``removes``: the queue
    loses what the target has stored. ``rate``: items per second, or None for no limit. ``is_dry``: nothing is written
    or removed."""

    to: str
    layout: Layout | None
    server: str | None
    jobs: JobOptions
    form: str
    end: bytes
    removes: bool
    rate: float | None
    is_dry: bool


_OPTIONS = (
    click.option(
        "--to",
        default="-",
        show_default=True,
        metavar="TARGET",
        help="A new file, '-' for stdout, or list:KEY, fifo:NAME, sidekiq:NAME, rq:NAME, bullmq:NAME.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        default="jsonl",
        show_default=True,
        help="Format of a file.",
    ),
    click.option("-0", "--null", is_flag=True, help="With --format raw: NUL bytes instead of newlines."),
    server_url(
        "--target",
        "server",
        instead="set CLAIMQ_TARGET_URL",
        envvar="CLAIMQ_TARGET_URL",
        help="Server of the other system (default: $CLAIMQ_TARGET_URL, or the queue's server).",
    ),
    click.option("--prefix", default="", help="Prefix of BullMQ (default: bull), or namespace of Sidekiq."),
    click.option(
        "--next-end",
        type=click.Choice(["left", "right"]),
        help="With list:KEY: the end from which its consumers take (default: right).",
    ),
    click.option(
        "--job-name",
        metavar="NAME",
        help="Items that are no jobs of the other system become jobs: in RQ calls of the function NAME "
        "(MODULE.FUNCTION) with the payload, in BullMQ jobs with this name and the payload as data.",
    ),
    click.option(
        "--job-timeout",
        type=Duration(),
        metavar="DURATION",
        help="With rq:NAME: timeout of the jobs (default: 180s, as in RQ).",
    ),
    click.option(
        "--remove", is_flag=True, help="Remove the items from main or failed once the target has stored them."
    ),
    rate_option,
    click.option(
        "--dry-run", is_flag=True, help="Change nothing; count the items, and show which cannot be written."
    ),
)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a :class:`Target`, which the command gets as ``target``."""

    @functools.wraps(command)
    def choose(
        to: str,
        form: str,
        null: bool,
        server: str | None,
        prefix: str,
        next_end: str | None,
        job_name: str | None,
        job_timeout: float | None,
        remove: bool,
        rate: float | None,
        dry_run: bool,
        **others: Any,
    ) -> Any:
        layout = layout_of("--to", to, prefix=prefix, next_end=next_end or "")
        _check(to, form, null=null, removes=remove)
        jobs = _job_options(layout, job_name, job_timeout)
        end = b"\0" if null else b"\n"
        return command(
            target=Target(to, layout, server, jobs, form, end, remove, rate, is_dry=dry_run), **others
        )

    return with_options(choose, _OPTIONS)


def _check(to: str, form: str, *, null: bool, removes: bool) -> None:
    kind, colon, name = to.partition(":")
    if not to or (kind in KINDS and colon and not name):
        systems = ", ".join(f"{kind}:NAME" for kind in KINDS)
        raise CommandError(f"--to needs the name of a new file, '-' for stdout, or one of {systems}", USAGE)
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


def _job_options(layout: Layout | None, name: str | None, timeout: float | None) -> JobOptions:
    kind = None if layout is None else layout.kind
    if name is not None and kind not in ("rq", "bullmq"):
        raise CommandError("--job-name needs --to rq:NAME or bullmq:NAME", USAGE)
    if timeout is not None and kind != "rq":
        raise CommandError("--job-timeout needs --to rq:NAME", USAGE)
    if name is not None and (not name or (kind == "rq" and not all(name.rpartition(".")))):
        raise CommandError(f'--job-name "{name}" is no name of a job; with rq: write MODULE.FUNCTION', USAGE)
    return JobOptions(name, JobOptions().timeout if timeout is None else max(1, round(timeout)))
