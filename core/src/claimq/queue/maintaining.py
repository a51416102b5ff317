"""Keeping a queue in order: its policy, expired leases, dead workers, flush."""

from __future__ import annotations

from typing import Unpack

from claimq.arguments import count
from claimq.codec import check_name, kept_error
from claimq.model import Outcome, Reaped, Reason, Released, State, Verdict
from claimq.policy import Policy
from claimq.policy_changes import PolicyChanges, changed_fields
from claimq.queue.failed_items import read_policy
from claimq.queue.index import add_name
from claimq.queue.queue_part import QueuePart
from claimq.queue.token_groups import BATCH
from claimq.tokens import number_of

_RELEASED_AT_ONCE = 500


class Maintaining(QueuePart):
    """What a reaper, an operator or an administrator does. Every call is bounded and may run in any number of
    processes at once."""

    async def policy(self) -> Policy:
        """The policy in force; fields that were never set have their defaults. O(1).

        Raises StoreMisused for a field that somebody has set to what it cannot be.
        """
        return read_policy(await self._connection.command("HGETALL", self._keys.config), self._keys.config)

    async def set_policy(self, policy: Policy) -> None:
        """Sets the whole policy (a pause by hand stays). It holds at once, also for what is queued, and for
        clients of every language. O(1)."""
        await self._set_fields(policy.to_fields())

    async def update_policy(self, **changes: Unpack[PolicyChanges]) -> None:
        """Sets the fields that are named and leaves all others as they are, in one step: processes that change
        different fields at the same time do not undo each other's changes.

        The names are those of :class:`Policy`; a field of ``retry_delay`` or ``failed`` also has its own, as in
        ``failed_max_items=100``. Holds as :meth:`set_policy`. Raises ValueError for a value out of bounds, and
        where a fail count would be without the age that it needs; TypeError for a name that is no field. O(1).
        """
        await self._set_fields(changed_fields(changes))

    async def _set_fields(self, fields: dict[str, str]) -> None:
        await self._configure(*(word for pair in fields.items() for word in pair))
        if fields.get("suspended") == "0":
            await self.wake()

    async def add_to_index(self) -> bool:
        """Adds the queue's name to those that :meth:`Server.queues` returns. False where this user may not write
        ``cq:queues``; nothing but that list needs it. O(log queues).
        """
        return await add_name(self._connection, self.name)

    async def pause(self) -> None:
        """The queue gives no claims until :meth:`resume`; enqueueing, verdicts and the reaper go on. O(1)."""
        await self._configure("paused", "1")

    async def resume(self) -> None:
        """Ends a pause and wakes a waiting claimer. O(1)."""
        await self._configure("paused", "0")
        await self.wake()

    async def _configure(self, *words: str) -> None:
        """Sets fields of the policy, also on a full server: there a pause or fewer failed items are what helps."""
        reply = await self._connection.run("configure", [self._keys.main], words)
        if reply[0] == b"ALONE":
            count, age = reply[1].decode(), reply[2].decode()
            raise ValueError(
                f"the policy would have {count} without {age}, which does nothing; set both in one call, or unset both"
            )

    async def wake(self) -> None:
        """Leaves a wake token if there is work and none; anybody may do so at any time. O(1), bounded."""
        await self._connection.run("repair", [self._keys.main], [1])

    async def reap(self, limit: int = 100) -> Reaped:
        """One bounded sweep: up to ``limit`` expired leases and due delayed items, then repairs in both
        directions.

        An expired claim counts as a crash and goes where the policy's on_expiry says. A lease without an item
        is dropped, an item in busy without a lease gets one, work without a wake token gets one. After a gap
        of five seconds in which nobody touched the queue (the server was down, or its clock was stepped)
        holders have a third of busy_expiry, at most 10 s, to renew before anything expires. Raises
        StoreUnavailable. O(limit log n).
        """
        count("limit", limit, least=1, most=BATCH)
        reply = await self._connection.run("reap", [self._keys.main], [limit])
        rows = zip(reply[5::3], reply[6::3], reply[7::3], strict=True)
        expired = tuple(
            Outcome(token.decode(), Verdict(verdict.decode()), item.decode("utf-8", "replace"))
            for token, item, verdict in rows
        )
        repaired = await self._connection.run("repair", [self._keys.main], [limit])
        return Reaped(
            expired,
            due=reply[2],
            repaired=reply[3] + repaired[1],
            more=bool(reply[4]) or repaired[2] >= limit,
        )

    async def release_worker(
        self, worker: str, reason: Reason = Reason.CRASHED, error: str = "its worker died"
    ) -> Released:
        """Gives back at once all that a dead worker holds, in order: crashed to the tail and counted,
        interrupted to the head and not.

        Safe to repeat: only what is still held is given back. Raises StoreUnavailable. O(held log n), in calls
        of 500 items after one look at their tokens.
        """
        check_name("worker", worker)
        kind = Reason(reason)
        tokens = await self._tokens_of(worker)
        total = Released()
        while tokens:
            # What goes to the head goes there the last first.
            last_first = kind is Reason.INTERRUPTED
            part = tokens[-_RELEASED_AT_ONCE:] if last_first else tokens[:_RELEASED_AT_ONCE]
            with self._connection.lane() as call:
                args = [*call, worker, kind.value, kept_error(error), *part]
                reply = await self._connection.run("release_worker", [self._keys.main], args)
            requeued, delayed, failed, unclaimed, looked_at = map(int, reply[1].split())
            tokens = tokens[:-looked_at] if last_first else tokens[looked_at:]
            total = Released(
                total.requeued + requeued,
                total.delayed + delayed,
                total.failed + failed,
                total.unclaimed + unclaimed,
            )
        return total

    async def _tokens_of(self, worker: str) -> list[str]:
        """What a worker holds, in the order of claiming."""
        held = await self._connection.command("HKEYS", self._keys[f"busy:{worker}"])
        return sorted(filter(number_of, (token.decode("ascii", "replace") for token in held)), key=number_of)

    async def flush(self) -> dict[State, int]:
        """Removes every item in every state; returns how many there were. Policy and counters stay; live
        claims become lost.

        Raises StoreUnavailable. O(clients + workers) on the server's main thread; it frees the n items in the
        background.
        """
        with self._connection.lane() as call:
            reply = await self._connection.run("flush", [self._keys.main], call)
        counts = map(int, reply[1].split())
        return dict(zip((State.MAIN, State.BUSY, State.DELAYED, State.FAILED), counts, strict=True))

    async def flush_client(self, client: str) -> int:
        """Removes all items of one client that wait in main; returns how many there were, counted in ``flushed``.

        Its items in the other states stay, and it may enqueue again at once. Raises InvalidName, StoreUnavailable.
        O(clients) on the server's main thread; it frees the items in the background.
        """
        check_name("client", client)
        with self._connection.lane() as call:
            reply = await self._connection.run("flush_client", [self._keys.main], [*call, client])
        return int(reply[1])
