"""Chooses the server of a command: --redis, a ReliableQueue, $CLAIMQ_REDIS_URL or its file, or that of a running local
mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import claimq
from claimq.address import local_mode, variables
from claimq.errors import NoServer
from claimq.redis_store.default_server import settings_from, url_in
from claimq_admin.errors import UNAVAILABLE, USAGE, CommandError

RETRY_SECONDS = 3.0
_ADVICE = (
    "give --redis URL or --namespace NAMESPACE, set CLAIMQ_REDIS_URL, or start `claimq up -f FILE` first"
)


class StillStarting(CommandError):
    """The local mode that runs does not serve its queues yet. ``seconds``: how long to wait for it."""

    seconds = 10.0


class MayBeStarting(StillStarting):
    """No local mode runs here: one that was started at the same time as the command may not have its lock yet."""

    seconds = 3.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """A server, and the queues that local mode or ReliableQueues use on it."""

    settings: claimq.RedisSettings
    queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names for commands -> names on the server. Empty: those of the server."""

    def queue_name(self, name: str) -> str:
        """The name of a queue on the server."""
        return self.queues.get(name, name)


def choose(url: str | None, directory: Path | None, queue: str | None) -> Chosen:
    """Finds the server. Raises CommandError if there is none or it is ambiguous."""
    try:
        is_in_environment = not url and not directory and bool(url_in(os.environ))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    if url or is_in_environment:
        return Chosen(settings_for(url or None))
    place, queues = _local_mode(directory, queue)
    urls = {queues[queue]} if queue in queues else set(queues.values())
    if queue is not None and queue not in queues:
        is_own = directory or local_mode.running_near()
        kind = CommandError if is_own else MayBeStarting
        raise kind(local_mode.lacks_queue(place, queues, queue))
    if len(urls) > 1:
        raise CommandError(
            "the queues of the running `claimq up` are on several servers; give the name of a queue", USAGE
        )
    chosen_url = urls.pop()
    return Chosen(
        settings_for(chosen_url), {name: name for name, where in queues.items() if where == chosen_url}
    )


def _local_mode(directory: Path | None, queue: str | None) -> tuple[Path, dict[str, str]]:
    """The directory of the selected local mode, and its queues with the URLs of their servers."""
    directories = _directories(directory)
    running = [
        (directory, queues) for directory in directories if (queues := local_mode.queues_of(directory))
    ]
    if len(running) > 1:
        running = [pair for pair in running if queue in pair[1]] or running
    if len(running) > 1:
        where = ", ".join(str(directory) for directory, _ in running)
        raise MayBeStarting(
            f"`claimq up` is running in several directories ({where}); choose one with --data DIR", USAGE
        )
    if not running:
        if directories:
            raise StillStarting("`claimq up` is still starting; try again in a moment", UNAVAILABLE)
        if directory is not None:
            raise MayBeStarting(f"no `claimq up` is running in {directory}; start it, or omit --data", USAGE)
        raise MayBeStarting(f"no server is configured: {_ADVICE}", USAGE)
    return running[0]


def _directories(directory: Path | None) -> list[Path]:
    if directory is None:
        try:
            return local_mode.running_for_program()
        except NoServer as error:
            raise MayBeStarting(str(error), USAGE) from error
    try:
        local_mode.check_trusted(directory)
    except local_mode.NotTrusted as error:
        raise CommandError(f"{error}, or give --redis URL", USAGE) from error
    except OSError:
        return []
    return [directory] if local_mode.is_running(directory) else []


def settings_for(
    url: str | None, *, username: str | None = None, retry_for: float = RETRY_SECONDS
) -> claimq.RedisSettings:
    """Settings from a URL and the environment (user, password, certificates). None: also the URL is from the
    environment. CommandError if they are invalid."""
    return _settings(url, os.environ, username, retry_for)


def settings_for_other(url: str) -> claimq.RedisSettings:
    """Settings of a server that may be another than the queue's: certificates are from the environment, user and
    password only from the URL. CommandError if they are invalid."""
    names = (variables.REDIS_CA_FILE, variables.REDIS_CERT_FILE, variables.REDIS_KEY_FILE)
    return _settings(url, {name: os.environ.get(name, "") for name in names}, None, RETRY_SECONDS)


def _settings(
    url: str | None, environ: Mapping[str, str], username: str | None, retry_for: float
) -> claimq.RedisSettings:
    try:
        return settings_from(environ, url=url, username=username, retry_for=retry_for)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
