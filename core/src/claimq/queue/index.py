"""The index of a server's queues by name, for people (docs/decisions/commands.md). No operation needs it."""

from __future__ import annotations

from collections.abc import Sequence

from claimq.codec import check_name
from claimq.errors import ClaimqError, InvalidName, RightMissing, StoreFull, StoreUnavailable, WrongKeyType
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.clients.opening import plain
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import queue_of

KEY = "cq:queues"
_PAGE, _NAMES = 1000, 5000


async def add_name(connection: Connection, name: str) -> bool:
    """Adds the name of a queue. False if this user may not write the index, its key has another type, or the server
    cannot write now. Raises StoreMisused."""
    try:
        await connection.command("ZADD", KEY, 0, name, retry_for=1.0)
    except (RightMissing, WrongKeyType, StoreUnavailable, StoreFull):
        return False
    return True


async def note_use(connection: Connection, main_keys: Sequence[str]) -> None:
    """Adds the names of queues that this connection has not used before, if its user may write the index. The server
    is asked first, since it logs each refusal. Makes two calls, once for each queue; no error of theirs is raised."""
    names = [queue_of(main_key) for main_key in main_keys]
    connection.noted_queues.update(main_keys)
    words = [word for name in names for word in (0, name)]
    try:
        if await connection.run("may_list", main_keys[:1], [KEY, names[0]], retry_for=0) == [b"OK", 1]:
            await connection.retry(
                lambda client: plain(client, "ZADD", KEY, *words), doing="ZADD", use="calls", retry_for=0
            )
    except ClaimqError:
        return


async def remove_names(connection: Connection, names: Sequence[str]) -> None:
    """Removes names. Does nothing if this user may not write the index, or its key has another type. Raises
    StoreUnavailable, and StoreMisused (such as a wrong password)."""
    try:
        for begin in range(0, len(names), _PAGE):
            await connection.command("ZREM", KEY, *names[begin : begin + _PAGE])
    except (RightMissing, WrongKeyType):
        return


async def known_names(connection: Connection) -> list[str]:
    """All names, sorted; empty if this user may not read the index, or its key has another type. Raises
    StoreUnavailable, and StoreMisused (such as a wrong password)."""
    names: list[str] = []
    try:
        with BoundedRead("queues", connection.settings.read_bounds) as read:
            while page := await read.reply(
                connection.command("ZRANGE", KEY, len(names), len(names) + _NAMES - 1)
            ):
                names += [name.decode("ascii", "replace") for name in page]
                if len(page) < _NAMES:
                    break
    except (RightMissing, WrongKeyType):
        return []
    return [name for name in names if _is_name(name)]


def _is_name(name: str) -> bool:
    try:
        check_name("queue", name)
    except InvalidName:
        return False
    return True
