"""Time for tests of a queue moves through the store: the scripts add `clock_offset` to the server's own clock.

They take a tenth of the time that has passed off a positive offset: what is added here makes up for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from testkit.queues.frozen_clock import FrozenClock

if TYPE_CHECKING:
    from claimq.reliable_queue import ReliableQueue

MOVE = """
for i = 2, #ARGV do
    if i == 2 or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
        redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i], ARGV[1])
    end
end
"""
"""Adds to the fields in one step: another call in between would see a gap."""
Near = Callable[[float], Any]
"""The fixture `near`: what a number of seconds is compared with, give or take the duration of the test."""


async def move_clock(queue: ReliableQueue, seconds: float, *, gap: bool = False) -> None:
    """Moves the queue's clock, at once and for all its users.

    Forward, as if the queue had been in use all the time; with `gap` as if it had not (the server was down, or its
    clock was stepped). Backward, as if the server's clock had been stepped back. A frozen clock moves forward only.
    """
    client = queue._connection.clients.shared
    if isinstance(client, FrozenClock):
        client.move(queue.name, round(seconds * 1000), gap=gap)
        return
    milliseconds = before_slewing(round(seconds * 1000)) if gap else round(seconds * 1000)
    fields = ["clock_offset"] if gap or seconds < 0 else ["clock_offset", "seen_at"]
    await queue._connection.command("EVAL", MOVE, 1, queue._keys.stats, milliseconds, *fields)


def before_slewing(milliseconds: int) -> int:
    """How far an offset has to leap for the queue's clock to leap so far."""
    return -(-milliseconds * 10 // 9)
