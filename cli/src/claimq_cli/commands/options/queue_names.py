"""Checks that a queue exists, and reports new ones."""

from __future__ import annotations

from dataclasses import dataclass

import claimq
from claimq.arguments import did_you_mean
from claimq_admin.errors import NOT_DONE, CommandError


@dataclass(frozen=True, slots=True)
class NewQueue:
    """A queue that did not exist before the command. ``hint``: see :func:`did_you_mean`."""

    hint: str

    def text(self, enqueued: int) -> str:
        """Whether it was created, for the end of a line."""
        return f" ({'a new queue' if enqueued else 'no queue was created'}{self.hint})"


async def check_exists(server: claimq.Server, queue: claimq.ReliableQueue) -> None:
    """Raises CommandError if the queue does not exist, with similar names."""
    if not await queue.exists():
        hint = did_you_mean(queue.name, await server.queues(only_existing=False))
        raise CommandError(
            f"there is no queue {queue.name} on this server{hint} (see `claimq queues`)", NOT_DONE
        )
