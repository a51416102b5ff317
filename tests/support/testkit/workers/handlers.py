"""A handler for consume() that tests can watch and hold, and items for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from claimq import ReliableQueue
    from claimq.model import Item


class Seen:
    """A handler that notes what it was given, and waits where the test asks for it."""

    def __init__(self) -> None:
        self.payloads: list[str] = []
        self.running = 0
        self.most_at_once = 0
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def __call__(self, item: Item) -> None:
        self.payloads.append(item.text)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await self.may_go_on.wait()
        finally:
            self.running -= 1
        if item.text.startswith("bad"):
            raise ValueError(f"{item.text} is bad")


async def fill(queue: ReliableQueue, count: int) -> list[str]:
    """Enqueues so many items; their payloads, which are their numbers."""
    payloads = [str(number) for number in range(count)]
    await queue.enqueue_many(payloads)
    return payloads
