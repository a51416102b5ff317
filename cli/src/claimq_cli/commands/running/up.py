"""`claimq up`: runs the queues of a manifest on this machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

import claimq
from claimq.address.local_mode import DIRECTORY_NAME
from claimq_admin.errors import NOT_DONE, USAGE, CommandError
from claimq_admin.server_choice import settings_for
from claimq_admin.text import count
from claimq_cli.commands.checking.manifest_files import load_manifests
from claimq_cli.commands.moving.bulk_load import Loaded, Wanted, load
from claimq_cli.commands.moving.input_source import InputSource
from claimq_cli.commands.moving.line_options import LineOptions, line_options
from claimq_cli.commands.options.option_types import server_url
from claimq_cli.commands.running.up_page import web_page
from claimq_cli.commands.running.web import DEFAULT_ADDRESS
from claimq_control.manifest import Manifest
from claimq_local.local_mode import Loader, LocalMode, Options, Report, first_error
from claimq_local.reloading import Watched, check_reload
from claimq_local.screen.board import Board
from claimq_local.screen.display import shown


@click.command()
@click.option(
    "-f",
    "--file",
    "file",
    default="queue.yaml",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The manifest; '-' is stdin.",
)
@server_url(
    "--redis",
    "url",
    instead="set CLAIMQ_REDIS_PASSWORD or CLAIMQ_REDIS_PASSWORD_FILE, and leave it out of the URL",
    help="Use this server instead of starting one; put a password into the file $CLAIMQ_REDIS_PASSWORD_FILE.",
)
@click.option(
    "--command",
    "command",
    metavar="COMMAND",
    help="Command of the workers, instead of worker.command in the manifest.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory (default: .claimq beside the manifest).",
)
@click.option(
    "--take-over",
    "take_over",
    multiple=True,
    metavar="OWNER",
    help="Take the queue over from OWNER, written as in the error message of a run without this option.",
)
@click.option(
    "--web",
    "page",
    metavar="HOST:PORT",
    help=f"Address of the web page and of /metrics (default: {DEFAULT_ADDRESS}, or a free port if that one is in use; "
    "off: neither).",
)
@click.option(
    "--web-actions",
    "may_act",
    is_flag=True,
    help="Allow changes on the web page, with a login; its token is in the file web-token of the state directory.",
)
@line_options
@click.option(
    "--reload",
    "paths",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Replace the workers when this file, or a file in this directory, changes, and follow changes of the "
    "manifest. May be given several times. Needs the extra `reload`.",
)
@click.option("--until-empty", is_flag=True, help="Stop when main, busy and delayed are empty.")
@click.option("--plain", is_flag=True, help="Print plain lines even on a terminal.")
def up(
    file: Path,
    url: str | None,
    command: str | None,
    data: Path | None,
    take_over: tuple[str, ...],
    page: str | None,
    may_act: bool,
    lines: LineOptions | None,
    paths: tuple[Path, ...],
    until_empty: bool,
    plain: bool,
) -> None:
    """Run the queues of a manifest on this machine until Ctrl-C.

    Starts a Valkey server (unless --redis or spec.redis.url names one) and as many workers as the scaling rule asks
    for. A worker is a sidecar and the command of the manifest; $CLAIMQ_SOCKET is the sidecar's socket.

    \b
    claimq up --lines urls.txt --until-empty        # works on this list, and exits
    claimq up --reload worker.py --reload lib/      # new workers when their code changes

    With --lines the manifest must have exactly one queue.
    """

    def read() -> tuple[Manifest, ...]:
        return load_manifests(file, url=url, command=command)

    manifests = read()
    here = Path.cwd() if str(file) == "-" else file.absolute().parent
    if url:
        settings_for(url)
    loads: list[Loaded] = []
    loader = None if lines is None else _loader_of(lines, manifests, file, loads)
    watched = None
    if paths:
        check_reload()
        manifest = None if str(file) == "-" else file.absolute()
        watched = Watched(tuple(path.absolute() for path in paths), manifest, read)
    state = data or here / DIRECTORY_NAME
    options = Options(manifests, here, state, url, until_empty, take_over, loader, watched)
    asyncio.run(
        _run(options, Console(force_terminal=False if plain else None), str(file), page, may_act=may_act)
    )
    if loads and loads[0].refused_count:
        loaded = loads[0]
        raise CommandError(
            f"{count(loaded.refused_count, 'line')} refused; the first is line {loaded.refused[0].line}: "
            f"{loaded.refused[0].reason}",
            NOT_DONE,
        )


async def _run(options: Options, console: Console, title: str, page: str | None, *, may_act: bool) -> None:
    board = Board(title=title)
    mode = LocalMode(options, board)
    mode.stop_on_signals()
    logs_to(board)
    async with shown(board, console), web_page(mode, page, may_act=may_act):
        try:
            await mode.run()
        except* Exception as group:
            raise first_error(group) from group


def _loader_of(lines: LineOptions, manifests: Sequence[Manifest], file: Path, loads: list[Loaded]) -> Loader:
    """Enqueues the lines into the queue of the manifest, and adds the result to ``loads``. CommandError if it is not a
    single one, or FILE cannot be read."""
    if len(manifests) > 1:
        raise CommandError(
            f"the manifest has {len(manifests)} queues; --lines needs a manifest with one", USAGE
        )
    if lines.source == str(file) == "-":
        raise CommandError("-f - and --lines - both read stdin; name a file for one of them", USAGE)
    source = InputSource(lines.source)
    load_options = Wanted(id_prefix=lines.id_prefix, from_line=lines.from_line)

    async def loader(queue: claimq.ReliableQueue, stop: asyncio.Event, report: Report) -> str:
        with source:
            loaded = await load(queue, source, lines.end, load_options, stop, report=report)
        loads.append(loaded)
        return f"{queue.name}: {loaded.summary}"

    return loader


def logs_to(board: Board) -> None:
    """Shows the log records of the library on the board."""

    class ToBoard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            board.note(record.getMessage(), is_trouble=record.levelno >= logging.WARNING)

    logger = logging.getLogger("claimq")
    logger.handlers = [ToBoard()]
    logger.setLevel(logging.INFO)
    logger.propagate = False
