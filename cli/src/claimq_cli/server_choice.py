"""Which server a command talks to: --redis, $CLAIMQ_REDIS_URL, or that of a running local mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import claimq
from claimq_cli.failures import USAGE, CommandError
from claimq_cli.local.running import running_directories
from claimq_cli.local.state_directory import RunState, StateDirectory

RETRY_SECONDS = 3.0
DIRECTORY_NAME = ".claimq"
_ADVICE = "give --redis URL, set CLAIMQ_REDIS_URL, or start `claimq up -f FILE` first"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A server, and the queues that are known to be there (those of a local mode)."""

    settings: claimq.RedisSettings
    queues: tuple[str, ...] = ()


def choose(url: str | None, data: Path | None, queue: str | None) -> Chosen:
    """Finds the server. Raises CommandError that says how to name one."""
    url = url or (None if data else os.environ.get("CLAIMQ_REDIS_URL"))
    if url:
        return Chosen(settings_for(url))
    state = _running_state(data, queue)
    urls = {state.queues[queue]} if queue in state.queues else set(state.queues.values())
    if queue is not None and queue not in state.queues:
        known = ", ".join(state.queues)
        raise CommandError(
            f"the running local mode has no queue {queue}, only {known}; name one of these, or {_ADVICE}"
        )
    if len(urls) > 1:
        raise CommandError(
            "the queues of the running local mode are on several servers; name the queue", USAGE
        )
    found = urls.pop()
    return Chosen(settings_for(found), tuple(name for name, where in state.queues.items() if where == found))


def _running_state(data: Path | None, queue: str | None) -> RunState:
    if data is not None:
        places = [StateDirectory(data)] if StateDirectory(data).is_held() else []
    else:
        places = _near() or running_directories()
    states = [(place, state) for place in places if (state := place.read()) is not None and state.queues]
    if len(states) > 1:
        states = [one for one in states if queue in one[1].queues] or states
    if len(states) > 1:
        where = ", ".join(str(place.path) for place, _ in states)
        raise CommandError(f"several local modes run ({where}); name one with --data DIR", USAGE)
    if not states:
        if places:
            raise CommandError("the local mode is only just starting; try again in a moment")
        raise CommandError(f"no server to talk to: {_ADVICE}", USAGE)
    return states[0][1]


def _near() -> list[StateDirectory]:
    """That of this directory, or of the nearest one above."""
    here = Path.cwd()
    for place in (here, *here.parents):
        directory = StateDirectory(place / DIRECTORY_NAME)
        if directory.is_held():
            return [directory]
    return []


def settings_for(
    url: str,
    *,
    username: str | None = None,
    retry_for: float = RETRY_SECONDS,
    environ: Mapping[str, str] = os.environ,
) -> claimq.RedisSettings:
    """The URL with what it cannot carry, from the same variables that the sidecar reads. CommandError for a bad one."""
    password = environ.get("CLAIMQ_REDIS_PASSWORD") or None
    password_file = environ.get("CLAIMQ_REDIS_PASSWORD_FILE")
    try:
        if password_file and password is None:
            password = Path(password_file).read_text("utf-8").strip()
        return claimq.RedisSettings(
            url,
            username=username or environ.get("CLAIMQ_REDIS_USERNAME") or None,
            password=password,
            ca_file=environ.get("CLAIMQ_REDIS_CA_FILE") or None,
            cert_file=environ.get("CLAIMQ_REDIS_CERT_FILE") or None,
            key_file=environ.get("CLAIMQ_REDIS_KEY_FILE") or None,
            retry_for=retry_for,
        )
    except OSError as error:
        raise CommandError(f"CLAIMQ_REDIS_PASSWORD_FILE cannot be read ({error.strerror})", USAGE) from error
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
