"""Time for tests of a queue moves through the store: the scripts add `clock_offset` to the server's own clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from claimq.reliable_queue import ReliableQueue


async def move_clock(queue: ReliableQueue, seconds: float, *, gap: bool = False) -> None:
    """Moves the queue's clock, at once and for all its users.

    Forward, as if somebody had served the queue all the time; with `gap` as if nobody had (the server was down, or its
    clock was stepped). Backward, as if the server's clock had been stepped back.
    """
    milliseconds = round(seconds * 1000)
    connection, stats = queue._connection, queue._keys.stats
    await connection.command("HINCRBY", stats, "clock_offset", milliseconds)
    if seconds > 0 and not gap and await connection.command("HGET", stats, "seen_at"):
        await connection.command("HINCRBY", stats, "seen_at", milliseconds)
