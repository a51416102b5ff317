"""Actions on a whole queue by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import claimq
from claimq.codec import check_name
from claimq.internals.operations import internals
from claimq.model import Reason, State
from claimq.policy import changed_fields
from claimq_admin.changes.action_record import Record
from claimq_admin.changes.policy_fields import fields_of, read_changes

Json = dict[str, Any]
WORKER_DIED = "its worker died"
"""The error on items that are given back, unless the user gives another."""
_RECORDED = 400
"""Characters that one entry of the audit log keeps of what was changed."""


async def policy_of(queue: claimq.ReliableQueue) -> Json:
    """The policy of a queue, and the text of its owner or None."""
    owner = await internals(queue).owner()
    return {
        "policy": fields_of(await queue.policy()),
        "owner": None if owner is None else str(owner),
    }


class QueueActions:
    """What a person can do with a queue. Each action is recorded before it is taken. Raises ClaimqError if it cannot be
    taken; for wrong arguments CommandError, ValueError or TypeError, and then nothing is recorded.
    """

    def __init__(self, queue: claimq.ReliableQueue, record: Record) -> None:
        self._queue = queue
        self._record = record

    async def pause(self) -> None:
        """Stops claims."""
        await self._record("pause")
        await self._queue.pause()

    async def resume(self) -> None:
        """Allows claims again."""
        await self._record("resume")
        await self._queue.resume()

    async def release(self, worker: str, error: str, *, is_interrupted: bool) -> Json:
        """Gives back the items of a dead worker; returns how many went where."""
        check_name("worker", worker)
        await self._record("release", f"worker {worker}{', interrupted' if is_interrupted else ''}")
        reason = Reason.INTERRUPTED if is_interrupted else Reason.CRASHED
        done = await self._queue.release_worker(worker, reason, error)
        return {
            "worker": worker,
            "requeued": done.requeued,
            "delayed": done.delayed,
            "failed": done.failed,
            "unclaimed": done.unclaimed,
            "total": done.total,
        }

    async def flush(self, client: str | None) -> Json:
        """Removes all items, or those of a client in main; returns how many there were by state."""
        if client is not None:
            check_name("client", client)
        await self._record("flush", "" if client is None else f"client {client}")
        if client is None:
            removed = await self._queue.flush()
        else:
            removed = {State.MAIN: await self._queue.flush_client(client)}
        return {"client": client, "removed": {state.value: removed.get(state, 0) for state in State}}

    async def change_policy(self, words: Sequence[str]) -> Json:
        """Changes the fields of the policy that the words FIELD=VALUE name; returns the whole policy, see
        :func:`policy_of`, and the names of the changed fields."""
        changes = read_changes(words)
        changed_fields(changes)
        await internals(self._queue).owner()  # if it cannot be read, nothing is changed
        for part in textwrap.wrap(" ".join(words), _RECORDED, break_on_hyphens=False):
            await self._record("policy", part)
        await self._queue.update_policy(**changes)
        return {**await policy_of(self._queue), "changed": sorted(changes)}
