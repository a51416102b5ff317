"""Finds out whether another object owns a queue on its server."""

from __future__ import annotations

from collections.abc import Iterable

from claimq.internals.operations import internals
from claimq.internals.owner import Owner, read_owner
from claimq.reliable_queue import ReliableQueue


async def foreign_owner(
    queue: ReliableQueue, owner: Owner, take_over: Iterable[str], *, records: bool
) -> Owner | None:
    """The owner of the queue, if it is another one than ``owner``.

    ``take_over``: owners with their numbers, of whom ``owner`` takes the queue over. ``records``: whether ``owner``
    becomes the owner of a queue that has none. Raises ClaimqError.
    """
    operations = internals(queue)
    present = await (operations.own(owner) if records else operations.owner())
    if present is not None and present.words() != owner.words() and present in map(read_owner, take_over):
        present = await operations.own(owner, take_over_from=present)
    return None if present is None or present.words() == owner.words() else present
