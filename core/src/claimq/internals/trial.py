"""Whether a server can run claimq's scripts, and what it calls itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from claimq.errors import ClaimqError, ScriptsRefused, UnknownReply
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.causes import named_commands
from claimq.redis_store.clients.opening import fields_of
from claimq.redis_store.connection import Connection

_WORD = re.compile("[a-z0-9.-]{1,40}")
"""Values of a server's reply that may be shown. No Redis returns a longer text, and foreign text is not repeated."""
_REFUSED = "the server cannot run claimq's scripts"
_USE = "use a server of the table in docs/servers.md"


async def try_scripts(connection: Connection, main_key: str) -> None:
    """Runs a script that makes the kinds of calls of all others and writes nothing.

    Raises ScriptsRefused, with the server's name and version, if the server cannot run it. Otherwise raises what any
    script would: StoreUnavailable (it refuses writes now), StoreMisused (a permission is missing).
    """
    try:
        reply = await connection.run("trial", [main_key], [])
    except (ScriptsRefused, UnknownReply) as error:
        name = await server_name(connection, main_key)
        if not name and isinstance(error, UnknownReply):
            raise  # it may be no such server at all, but one for HTTP
        raise _refusal(name, named_commands(str(error.__cause__))[:1]) from error
    with BoundedRead("trial", connection.settings.read_bounds):
        unknown = [text for word in reply[1:] if (text := _word(word).upper())]
    if unknown:
        raise _refusal(await server_name(connection, main_key), unknown)


def _refusal(server: tuple[str, ...], unknown: Sequence[str]) -> ScriptsRefused:
    """The error that names the server, and the commands that it does not know."""
    name = " ".join(server) or "it"
    if not unknown:
        return ScriptsRefused(f"{_REFUSED}: {name} refuses them; {_USE}")
    commands = ", ".join(unknown)
    fix = f"remove its rename-command from the configuration, or {_USE}"
    return ScriptsRefused(f"{_REFUSED}: {name} has no command {commands}; {fix}")


async def server_name(connection: Connection, main_key: str) -> tuple[str, ...]:
    """What the server calls itself, and its version: ("valkey", "9.1.2"); empty if it does not answer. Every user may
    ask."""
    try:
        with BoundedRead("HELLO", connection.settings.read_bounds):
            fields = fields_of(await connection.ask(main_key, "HELLO"))
    except ClaimqError:
        return ()
    name, version = _word(fields.get("server")), _word(fields.get("version"))
    return (name, version) if name and version else ()


def _word(word: Any) -> str:
    text = (word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)).lower()
    return text if _WORD.fullmatch(text) else ""
