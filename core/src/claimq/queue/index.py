"""The index of a server's queues by name, for people (docs/decisions/commands.md). No operation needs it."""

from __future__ import annotations

from collections.abc import Sequence

from claimq.codec import check_name
from claimq.errors import InvalidName, RightMissing, StoreFull, StoreUnavailable, WrongKeyType
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.connection import Connection

KEY = "cq:queues"
_PAGE = 1000


async def add_name(connection: Connection, name: str) -> bool:
    """Adds the name of a queue. False if this user may not write the index, its key has another type, or the server
    cannot write now. Raises StoreMisused."""
    try:
        await connection.command("ZADD", KEY, 0, name, retry_for=1.0)
    except (RightMissing, WrongKeyType, StoreUnavailable, StoreFull):
        return False
    return True


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
                connection.command("ZRANGE", KEY, len(names), len(names) + _PAGE - 1)
            ):
                names += [name.decode("ascii", "replace") for name in page]
    except (RightMissing, WrongKeyType):
        return []
    return [name for name in names if _is_name(name)]


def _is_name(name: str) -> bool:
    try:
        check_name("queue", name)
    except InvalidName:
        return False
    return True
