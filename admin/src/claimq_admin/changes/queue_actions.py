"""Actions on a whole queue by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
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
QUEUE_ACTIONS = {
    "pause": (),
    "resume": (),
    "release": ("worker", "interrupted", "error"),
    "flush": ("client",),
    "policy": ("changes",),
}
"""What can be done with a queue, and the fields that say how."""
_RECORDED = 400
"""Characters that one entry of the audit log keeps of what was changed."""


async def policy_of(queue: claimq.ReliableQueue) -> Json:
    """The policy of a queue, and the text of its owner or None."""
    owner = await internals(queue).owner()
    return {
        "policy": fields_of(await queue.policy()),
        "owner": None if owner is None else str(owner),
    }


async def change_queue(
    queue: claimq.ReliableQueue, record: Record, action: str, fields: Mapping[str, str]
) -> Json:
    """Records an action and takes it; returns what it has done. Raises ClaimqError if it cannot be taken; for wrong
    fields CommandError, ValueError or TypeError, and then nothing is recorded."""
    match action:
        case "pause":
            await record(action)
            await queue.pause()
        case "resume":
            await record(action)
            await queue.resume()
        case "release":
            return await _release(queue, record, **fields)
        case "flush":
            return await _flush(queue, record, **fields)
        case _:
            return await _change_policy(queue, record, **fields)
    return {}


async def _release(
    queue: claimq.ReliableQueue, record: Record, worker: str = "", interrupted: str = "false", error: str = ""
) -> Json:
    """Gives back the items of a dead worker; returns how many went where."""
    check_name("worker", worker)
    if interrupted not in ("true", "false"):
        raise ValueError(f"interrupted is {interrupted[:100]!r}; give true or false")
    is_interrupted = interrupted == "true"
    await record("release", f"worker {worker}{', interrupted' if is_interrupted else ''}")
    reason = Reason.INTERRUPTED if is_interrupted else Reason.CRASHED
    done = await queue.release_worker(worker, reason, error or WORKER_DIED)
    return {
        "worker": worker,
        "requeued": done.requeued,
        "delayed": done.delayed,
        "failed": done.failed,
        "unclaimed": done.unclaimed,
        "total": done.total,
    }


async def _flush(queue: claimq.ReliableQueue, record: Record, client: str | None = None) -> Json:
    """Removes all items, or those of a client in main; returns how many there were by state."""
    if client is not None:
        check_name("client", client)
    await record("flush", "" if client is None else f"client {client}")
    removed = await queue.flush() if client is None else {State.MAIN: await queue.flush_client(client)}
    return {"client": client, "removed": {state.value: removed.get(state, 0) for state in State}}


async def _change_policy(queue: claimq.ReliableQueue, record: Record, changes: str = "") -> Json:
    """Changes the fields of the policy that the words FIELD=VALUE name; returns the whole policy, see
    :func:`policy_of`, and the names of the changed fields."""
    read = read_changes(changes.split())
    changed_fields(read)
    await internals(queue).owner()  # if it cannot be read, nothing is changed
    for part in textwrap.wrap(changes, _RECORDED, break_on_hyphens=False):
        await record("policy", part)
    await queue.update_policy(**read)
    return {**await policy_of(queue), "changed": sorted(read)}
