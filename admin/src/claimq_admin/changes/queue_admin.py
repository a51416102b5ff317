"""The service that acts on a queue: commands and the web page use it. Each change is recorded before it is made."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import claimq
from claimq.codec import check_name, part_of_queue
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.limits import Limits
from claimq.model import Reason, State
from claimq.policy import changed_fields
from claimq.waiting.texts import read_limits
from claimq_admin.changes.policy_fields import fields_of, read_changes
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.instants import parse_end
from claimq_admin.reads.documents import Json
from claimq_control.large_reads import Turn, in_turn

WORKER_DIED = "its worker died"
"""The error on items that are given back, unless the user gives another."""
_RECORDED = 400
"""Characters that one entry of the audit log keeps of what was changed."""


class Record(Protocol):
    """Records an action of a user, as :meth:`claimq.ReliableQueue.record_action` does."""

    async def __call__(
        self, action: str, target: str = "", *, count: int | None = None, adds: bool = False
    ) -> None:
        """Records it. Raises StoreUnavailable; the action must not be taken then. ``adds``: it only adds items."""
        ...


class Runner(Protocol):
    """What runs the workers of a queue."""

    async def suspend(self, suspended: bool) -> None:
        """Stops all workers and starts none, or ends that. CommandError."""
        ...

    async def drain(self, worker: str) -> None:
        """Begins to drain a worker: it claims nothing more, finishes its items and ends. CommandError."""
        ...


class _NoRunner:
    """Of a queue whose workers claimq did not start."""

    async def suspend(self, suspended: bool) -> None:  # noqa: ARG002 - as the protocol has it
        """Refused."""
        raise CommandError("the queue has no ReliableQueue that could be suspended; pause it")

    async def drain(self, worker: str) -> None:
        """Refused."""
        raise CommandError(f"claimq did not start {worker}; send SIGTERM to it")


_NO_RUNNER = _NoRunner()


@dataclass(frozen=True, slots=True)
class QueueAdmin:
    """A queue on which a user acts. ``user``: as the audit log names them; ``destination``: where items are moved to;
    ``turn``: for large items, where the memory for them is limited.

    Methods that change something raise CommandError and ClaimqError if that cannot be done, for wrong values also
    ValueError and TypeError. What they return is the document for programs.
    """

    queue: claimq.ReliableQueue
    user: str
    record: Record
    destination: QueueAdmin | None = None
    runner: Runner = _NO_RUNNER
    turn: Turn | None = None

    async def owner(self) -> Owner | None:
        """The owner of the queue."""
        return await internals(self.queue).owner()

    async def policy(self) -> Json:
        """The policy of the queue, and the text of its owner or None."""
        owner = await self.owner()
        return {
            "policy": fields_of(await self.queue.policy()),
            "owner": None if owner is None else str(owner),
        }

    async def pause(
        self, until: str = "", within: str = "", reason: str = "", client: str = "", key: str = ""
    ) -> None:
        """Stops claims, or those of one client or key. ``until``: an instant or a duration (:func:`parse_end`)."""
        part = _part(client, key)
        end = parse_end(until, within, (await self.queue.snapshot()).now)
        words = f"{part} {_span(until, within)}".strip()
        async with self._change("pause", ": ".join(filter(None, (words, reason)))):
            await self.queue.pause(
                client=client or None, key=key or None, until=end, reason=reason, by=self.user
            )

    async def resume(self, client: str = "", key: str = "") -> bool:
        """Allows claims again; False if they were not paused."""
        async with self._change("resume", _part(client, key)):
            return await self.queue.resume(client=client or None, key=key or None)

    async def change_limits(
        self, change: str, limit: str = "", until: str = "", within: str = "", reason: str = ""
    ) -> None:
        """Changes a limit of the policy, or with an end (:func:`parse_end`) for a time. ``change``: ``set`` with a
        limit such as ``api:rate=10/s,burst=5``, ``remove`` with its name, or ``reset``, which ends what is for a
        time."""
        limits = check_limit_change(change, limit)
        if change == "reset":
            async with self._change("limits", "reset"):
                await self.queue.reset_limits()
            return
        end = parse_end(until, within, (await self.queue.snapshot()).now)
        words = f"{change} {limit} {_span(until, within)}".strip()
        async with self._change("limits", ": ".join(filter(None, (words, reason)))):
            if limits:
                await self.queue.set_limit(limits[0], until=end, reason=reason, by=self.user)
            else:
                await self.queue.remove_limit(limit, until=end, reason=reason, by=self.user)

    async def suspend(self, suspended: bool) -> None:
        """Ends all workers after what they have, or ends the suspension."""
        await self.record("suspend" if suspended else "end-suspension")
        await self.runner.suspend(suspended)

    async def drain(self, worker: str) -> None:
        """Begins to drain a worker."""
        await self.record("drain", worker)
        await self.runner.drain(worker)

    async def release(self, worker: str, *, interrupted: bool = False, error: str = "") -> Json:
        """Gives back the items of a dead worker; returns how many went where."""
        check_name("worker", worker)
        async with self._change("release", f"worker {worker}{', interrupted' if interrupted else ''}"):
            reason = Reason.INTERRUPTED if interrupted else Reason.CRASHED
            release = partial(self.queue.release_worker, worker, reason, error or WORKER_DIED)
            done = await in_turn(self.turn, release)
        counts = {
            name: getattr(done, name) for name in ("requeued", "delayed", "failed", "unclaimed", "total")
        }
        return {"worker": worker, **counts}

    async def flush(self, client: str | None = None) -> Json:
        """Removes all items, or those of a client in main; returns how many there were by state."""
        if client is not None:
            check_name("client", client)
        async with self._change("flush", "" if client is None else f"client {client}"):
            if client is None:
                removed = await in_turn(self.turn, self.queue.flush)
            else:
                removed = {State.MAIN: await in_turn(self.turn, partial(self.queue.flush_client, client))}
        return {"client": client, "removed": {state.value: removed.get(state, 0) for state in State}}

    async def delete(self, *, only_if_empty: bool) -> Json | None:
        """Removes the queue with its policy and its audit log; None if it is not empty."""
        removed = await self.queue.delete(only_if_empty=only_if_empty)
        if removed is None:
            return None
        return {"removed": {state.value: number for state, number in removed.items()}}

    async def update_policy(self, changes: str) -> Json:
        """Changes the fields of the policy that the words FIELD=VALUE name. Returns the whole policy, see
        :meth:`policy`, and the names of the changed fields."""
        read = read_changes(changes.split())
        changed_fields(read)
        await self.owner()  # if it cannot be read, nothing is changed
        *parts, last = textwrap.wrap(changes, _RECORDED, break_on_hyphens=False)
        for part in parts:
            await self.record("policy", part)
        async with self._change("policy", last):
            await self.queue.update_policy(**read)
        return {**await self.policy(), "changed": sorted(read)}

    @asynccontextmanager
    async def _change(self, action: str, target: str = "") -> AsyncGenerator[None]:
        """Records a change, which the block makes, and adds the queue to the list of `claimq queues`."""
        await self.record(action, target)
        yield
        await self.queue.add_to_index()


def _part(client: str, key: str) -> str:
    """What is paused, for the audit log: nothing for the whole queue. Raises InvalidName and ValueError."""
    return part_of_queue(client or None, key or None) if client or key else ""


def _span(until: str, within: str) -> str:
    return f"until {until}" if until else f"for {within}" if within else ""


def check_limit_change(change: str, limit: str) -> Limits:
    """The limit that a change sets, if it sets one. CommandError and ValueError for words without sense."""
    if bool(limit) != (change in ("set", "remove")) or change not in ("set", "remove", "reset"):
        raise CommandError(
            f"write set LIMIT, remove NAME or reset, not {f'{change} {limit}'[:100].strip()!r}", USAGE
        )
    limits = read_limits(limit) if change == "set" else ()
    if len(limits) != (change == "set"):
        raise ValueError(
            f"limit is {limit[:100]!r}; give one, such as api:rate=10/s,burst=5 or licences:busy=3"
        )
    return limits


def admin_of(
    queue: claimq.ReliableQueue,
    user: str,
    destination: QueueAdmin | None = None,
    runner: Runner = _NO_RUNNER,
) -> QueueAdmin:
    """The queue, for changes that are recorded in its audit log for this user."""
    return QueueAdmin(queue, user, partial(queue.record_action, user), destination, runner)
