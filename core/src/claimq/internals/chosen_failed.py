"""Requeues and removes failed items that a program has read and chosen. Only the admin service needs it; it is not part
of the public API."""

from __future__ import annotations

from collections.abc import Sequence

from claimq.model import Located
from claimq.queue.failed_items import FailedItems
from claimq.queue.queue_part import QueuePart, with_operations_of
from claimq.queue.token_groups import BATCH
from claimq.redis_store.scripts import Arg


def chosen_failed(queue: QueuePart) -> ChosenFailed:
    """The operations for a :class:`claimq.ReliableQueue`, on its connection and under its worker's name."""
    return with_operations_of(ChosenFailed, queue)


class ChosenFailed(FailedItems):
    """Made by :func:`chosen_failed`. An item that has left failed since it was read, or has failed again, stays as it
    is."""

    async def requeue(self, items: Sequence[Located]) -> int:
        """Sends the items back to the tail of main; returns how many. Each call takes up to 100 items, or 2 MiB."""
        return await self._in_calls("requeue_failed", items, 0, "", "-inf", 0)

    async def remove(self, items: Sequence[Located]) -> int:
        """Removes the items; returns how many. Each call takes up to 1,000 items, or 2 MiB."""
        return await self._in_calls("remove_failed", items, 0, 0, "-inf", 0, behind_chunk=(0, 0, ""))

    async def _in_calls(
        self, script: str, items: Sequence[Located], *filters: Arg, behind_chunk: Sequence[Arg] = ()
    ) -> int:
        names = list(dict.fromkeys(located.name for located in items))
        until = round(max((located.failed_at or 0.0 for located in items), default=0.0) * 1000)
        changed = 0
        with self._reading(script, keeps=False):
            while names:
                batch = names[:BATCH]
                args = [until, *filters, len(batch), *behind_chunk, *batch]
                words, _ = await self._run_counted(script, args)
                changed += int(words[0])
                names = names[max(int(words[1]), 1) :]
        return changed
