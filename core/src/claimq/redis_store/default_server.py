"""The server of a program that names none: $CLAIMQ_REDIS_URL or the URL in $CLAIMQ_REDIS_URL_FILE, else the running
local mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from claimq.address import local_mode, variables
from claimq.address.server_parts import SERVER_PARTS, URL, ServerPart
from claimq.errors import NoServer
from claimq.redis_store.settings import RedisSettings, settings_of

ADVICE = f"give a URL, set {variables.REDIS_URL}, or start `claimq up -f FILE` first"


def found_settings(environ: Mapping[str, str] | None = None) -> RedisSettings:
    """The settings for a program that names no server.

    Raises NoServer, and ValueError for a malformed URL or an unreadable file in the environment.
    """
    environ = os.environ if environ is None else environ
    url = None if url_in(environ) else _url_of_local_mode()
    return settings_from(environ, url=url)


def check_queue_of_local_mode(url: str, queue: str) -> None:
    """Raises NoServer for a queue that the running local modes with this server do not have: no worker would take its
    items, and no list would show them."""
    running = [(directory, local_mode.queues_of(directory)) for directory in local_mode.running()]
    running = [(directory, queues) for directory, queues in running if url in queues.values()]
    if running and not any(queues.get(queue) == url for _, queues in running):
        raise NoServer(local_mode.lacks_queue(*running[0], queue))


def url_in(environ: Mapping[str, str]) -> str:
    """The URL in a variable, or in the file that another one names; empty without either.

    Raises ValueError for both, and for a file that cannot be read or is empty.
    """
    url = _text_of(URL, environ)
    if not url and environ.get(URL.file_variable):
        raise ValueError(f"{URL.file_variable} names an empty file; write the server's URL into it")
    return url


def settings_from(
    environ: Mapping[str, str], *, url: str | None = None, username: str | None = None, **options: Any
) -> RedisSettings:
    """Settings from the variables of :data:`claimq.address.server_parts.SERVER_PARTS`. Files are read now.

    ``url``: instead of that of the variables, without what they say of its Sentinels, cluster and namespace.
    ``options``: fields of RedisSettings that have no variable. Raises ValueError that names the variable or says what
    a URL looks like.
    """
    parts: dict[str, Any] = {} if url is None else {"url": url}
    for part in SERVER_PARTS:
        if (url is None or part.name not in _OF_URL) and (text := _text_of(part, environ)):
            parts[part.name] = text
    if "cluster" in parts:
        parts["cluster"] = _flag(variables.REDIS_CLUSTER, parts["cluster"])
    if username:
        parts["username"] = username
    return settings_of(parts, **options)


_OF_URL = ("url", "sentinel_master", "sentinel_username", "sentinel_password", "cluster", "namespace")


def _flag(variable: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f'{variable} is "{text}"; give true or false')
    return text.lower() == "true"


def _text_of(part: ServerPart, environ: Mapping[str, str]) -> str:
    text, file = environ.get(part.variable, "").strip(), environ.get(part.file_variable)
    if not file:
        return text
    if text:
        raise ValueError(f"{part.variable} is set beside {part.file_variable}; give one of them")
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"{part.file_variable} cannot be read ({why})") from error


def _url_of_local_mode() -> str:
    directories = local_mode.running_for_program()
    urls = sorted({url for directory in directories for url in local_mode.queues_of(directory).values()})
    if len(urls) > 1:
        raise NoServer(
            f"`claimq up` runs with {len(urls)} servers; give the URL of one (`claimq url NAME` prints it), or set "
            f"{variables.REDIS_URL}"
        )
    if not urls:
        starting = "`claimq up` is still starting; try again in a moment, or " if directories else ""
        raise NoServer(f"no server is known: {starting}{ADVICE}")
    return urls[0]
