"""The server of a program that names none: $CLAIMQ_REDIS_URL or the URL in $CLAIMQ_REDIS_URL_FILE, else the running
local mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from claimq.address import local_mode, variables
from claimq.errors import NoServer
from claimq.redis_store.settings import RedisSettings

ADVICE = f"give a URL, set {variables.REDIS_URL}, or start `claimq up -f FILE` first"


def found_settings(environ: Mapping[str, str] | None = None) -> RedisSettings:
    """The settings for a program that names no server.

    Raises NoServer, and ValueError for a malformed URL or an unreadable file in the environment.
    """
    environ = os.environ if environ is None else environ
    return settings_from(url_in(environ) or _url_of_local_mode(), environ)


def url_in(environ: Mapping[str, str]) -> str:
    """The URL in a variable, or in the file that another one names; empty without either.

    Raises ValueError for both, and for a file that cannot be read or is empty.
    """
    url, file = environ.get(variables.REDIS_URL, "").strip(), environ.get(variables.REDIS_URL_FILE)
    if not file:
        return url
    if url:
        raise ValueError(f"{variables.REDIS_URL} is set beside {variables.REDIS_URL_FILE}; give one of them")
    url_of_file = _text_of(variables.REDIS_URL_FILE, file)
    if not url_of_file:
        raise ValueError(f"{variables.REDIS_URL_FILE} names an empty file; write the server's URL into it")
    return url_of_file


def settings_from(
    url: str, environ: Mapping[str, str], *, username: str | None = None, retry_for: float = 10.0
) -> RedisSettings:
    """Settings from a URL. What a URL cannot hold comes from the variables that the sidecar reads.

    Raises ValueError that names the variable or says what a URL looks like.
    """
    password = environ.get(variables.REDIS_PASSWORD) or None
    password_file = environ.get(variables.REDIS_PASSWORD_FILE)
    if password_file and password is None:
        password = _text_of(variables.REDIS_PASSWORD_FILE, password_file)
    return RedisSettings(
        url,
        username=username or environ.get(variables.REDIS_USERNAME) or None,
        password=password,
        ca_file=environ.get(variables.REDIS_CA_FILE) or None,
        cert_file=environ.get(variables.REDIS_CERT_FILE) or None,
        key_file=environ.get(variables.REDIS_KEY_FILE) or None,
        retry_for=retry_for,
    )


def _text_of(variable: str, file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"{variable} cannot be read ({why})") from error


def _url_of_local_mode() -> str:
    directories = local_mode.running_near() or local_mode.running_anywhere()
    urls = sorted({url for directory in directories for url in local_mode.queues_of(directory).values()})
    if len(urls) > 1:
        raise NoServer(
            f"local modes run with {len(urls)} servers; give the URL of one (`claimq url NAME` prints it), or set "
            f"{variables.REDIS_URL}"
        )
    if not urls:
        starting = "the local mode is still starting; try again in a moment, or " if directories else ""
        raise NoServer(f"no server is known: {starting}{ADVICE}")
    return urls[0]
