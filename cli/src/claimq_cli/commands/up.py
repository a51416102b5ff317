"""`claimq up`: runs the queues of a manifest on this machine."""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click
import yaml
from rich.console import Console

from claimq.errors import InvalidSpec, Problem
from claimq.local_mode import DIRECTORY_NAME
from claimq_cli.commands.up_page import web_page
from claimq_cli.commands.web import DEFAULT_ADDRESS
from claimq_cli.errors import BAD_MANIFEST, USAGE, CommandError
from claimq_cli.local.local_mode import LocalMode, Options, first_error
from claimq_cli.local.screen.board import Board
from claimq_cli.local.screen.display import shown
from claimq_cli.server_choice import settings_for
from claimq_spec.manifest import Manifest, parse_manifest


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
@click.option("--until-empty", is_flag=True, help="Stop when main, busy and delayed are empty.")
@click.option("--plain", is_flag=True, help="Print plain lines even on a terminal.")
def up(
    file: Path,
    url: str | None,
    command: str | None,
    data: Path | None,
    take_over: tuple[str, ...],
    page: str | None,
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
    asyncio.run(_run(options, Console(force_terminal=False if plain else None), str(file), page))


async def _run(options: Options, console: Console, title: str, page: str | None) -> None:
    board = Board(title=title)
    mode = LocalMode(options, board)
    mode.stop_on_signals()
    logs_to(board)
    async with shown(board, console), web_page(mode, page):
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


def load_manifests(
    file: Path, *, url: str | None = None, command: str | None = None, local: bool = True
) -> tuple[Manifest, ...]:
    """All queues of a file. InvalidSpec with the errors of all documents; CommandError if the file cannot be read."""
    words = _words(command)
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    documents = _documents(file)
    for number, document in enumerate(documents, 1):
        try:
            manifests.append(parse_manifest(document, local=local, redis_url=url, command=words))
        except InvalidSpec as error:
            before = f"document {number}: " if len(documents) > 1 else ""
            problems += [Problem(f"{before}{one.field}", one.message) for one in error.problems]
    names = [manifest.spec.queue_name for manifest in manifests]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(
            Problem("spec.queueName", f"is {name} in several documents; give each queue a unique name")
        )
    if problems:
        raise InvalidSpec(problems)
    return tuple(manifests)


def _words(command: str | None) -> list[str] | None:
    try:
        return shlex.split(command) if command else None
    except ValueError as error:
        raise CommandError(
            f"--command cannot be split into words ({error}); correct its quotes", USAGE
        ) from error


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys instead of using the last one."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (name := (key.tag, key.value)) in seen:
                problem = f"the key {key.value} is a duplicate of line {seen[name] + 1}; remove one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen[name] = key.start_mark.line
        return node


def _documents(file: Path) -> list[Mapping[str, object]]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(
            f"{file} cannot be read ({why}); give the path of a manifest", BAD_MANIFEST
        ) from error
    try:
        documents = [one for one in yaml.load_all(text, _UniqueKeys) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CommandError(
            f"{file} is not YAML{where}: {getattr(error, 'problem', error)}", BAD_MANIFEST
        ) from error
    if not documents:
        raise CommandError(
            f"{file} is empty; write a ReliableQueue in it (see docs/manifest.md)", BAD_MANIFEST
        )
    return cast("list[Mapping[str, object]]", documents)
