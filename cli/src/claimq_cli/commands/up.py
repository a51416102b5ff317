"""`claimq up`: runs the queues of a manifest on this machine."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click
from rich.console import Console

from claimq.address.local_mode import DIRECTORY_NAME
from claimq_cli.commands.manifest_files import load_manifests
from claimq_cli.commands.up_page import web_page
from claimq_cli.commands.web import DEFAULT_ADDRESS
from claimq_cli.local.local_mode import LocalMode, Options, first_error
from claimq_cli.local.screen.board import Board
from claimq_cli.local.screen.display import shown
from claimq_cli.server_choice import settings_for


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
@click.option("--redis", "url", metavar="URL", help="Use this server instead of starting one.")
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
    help=f"Address of the web page (default: {DEFAULT_ADDRESS}, or a free port if that one is in use; off: no page).",
)
@click.option(
    "--web-actions",
    "may_act",
    is_flag=True,
    help="Allow changes on the web page, with a login; its token is in the file web-token of the state directory.",
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
    until_empty: bool,
    plain: bool,
) -> None:
    """Run the queues of a manifest on this machine until Ctrl-C.

    Starts a Valkey server (unless --redis or spec.redis.url names one) and as many workers as the scaling rule asks
    for. A worker is a sidecar and the command of the manifest; $CLAIMQ_SOCKET is the sidecar's socket.
    """
    manifests = load_manifests(file, url=url, command=command)
    here = Path.cwd() if str(file) == "-" else file.absolute().parent
    if url:
        settings_for(url)
    options = Options(manifests, here, data or here / DIRECTORY_NAME, url, until_empty, take_over)
    asyncio.run(
        _run(options, Console(force_terminal=False if plain else None), str(file), page, may_act=may_act)
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


def logs_to(board: Board) -> None:
    """Shows the log records of the library on the board."""

    class ToBoard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            board.note(record.getMessage(), is_trouble=record.levelno >= logging.WARNING)

    logger = logging.getLogger("claimq")
    logger.handlers = [ToBoard()]
    logger.setLevel(logging.INFO)
    logger.propagate = False
