"""Keeping a queue in order: its policy, expired leases, claims of dead workers, removal."""

from __future__ import annotations

from typing import Unpack

from claimq.arguments import choice, count, of_type
from claimq.codec import check_name, kept_error
from claimq.model import Outcome, Reaped, Reason, Released, State, Verdict
from claimq.policy import Policy, PolicyChanges, changed_fields
from claimq.queue.failed_items import read_policy
from claimq.queue.index import add_name
from claimq.queue.queue_part import QueuePart, Removal
from claimq.queue.token_groups import BATCH, MOVES


class Maintaining(QueuePart):
    """Operations of reapers, operators and administrators. Every call is bounded and may run in any number of processes
    at once."""

    async def policy(self) -> Policy:
        """The current policy; fields that were never set have their defaults. O(1).

        Raises StoreMisused for a field with an invalid value.
        """
        with self._reading("policy") as read:
            raw = await read.reply(self._read("HGETALL", self._keys.config))
            return read_policy(raw, self._keys.config)

    async def set_policy(self, policy: Policy) -> None:
        """Sets the whole policy. It applies at once, also to items that are already in the queue. A pause stays.
        O(1)."""
        await self._set_fields(of_type("policy", policy, Policy, "a Policy").to_fields())

    async def update_policy(self, **changes: Unpack[PolicyChanges]) -> None:
        """Sets the named fields and leaves all others unchanged, in one step: processes that change different fields at
        the same time do not undo each other's changes.

        The names are those of :class:`Policy`; the fields of ``retry_delay`` and ``failed`` also have names of their
        own, as in ``failed_max_items=100``. Applies as :meth:`set_policy`. Raises ValueError for a value out of bounds,
        and for a given-up count without the age that it needs; TypeError for an unknown field. O(1).
        """
        await self._set_fields(changed_fields(changes))

    async def _set_fields(self, fields: dict[str, str]) -> None:
        await self._configure(*(word for pair in fields.items() for word in pair))
        if fields.get("suspended") == "0":
            await self._wake()

    async def add_to_index(self) -> bool:
        """Adds the queue's name to those that :meth:`Server.queues` returns; only that list needs it. False if this
        user may not write ``cq:queues``, that key has another type, or the server cannot write now. O(log queues).
        """
        return await add_name(self._connection, self.name)

    async def pause(self) -> None:
        """Stops claims until :meth:`resume`. Enqueueing, verdicts and reaping go on. O(1)."""
        await self._configure("paused", "1")

    async def resume(self) -> None:
        """Ends a pause and wakes a waiting claim. O(1)."""
        await self._configure("paused", "0")
        await self._wake()

    async def _configure(self, *words: str) -> None:
        """Sets fields of the policy. Works on a full server too, where a pause or fewer failed items help."""
        reply = await self._connection.run("configure", [self._keys.main], words)
        if reply[0] == b"ALONE":
            count, age = reply[1].decode(), reply[2].decode().removesuffix("_ms")
            raise ValueError(
                f"the policy would have {count} without {age}, which does nothing; set both in one call, or unset both"
            )

    async def reap(self, limit: int = 100) -> Reaped:
        """Ends up to ``limit`` expired claims, moves up to ``limit`` due items to main, and repairs.

        An expired claim counts as a crash, and its item goes where the policy's on_expiry says. Repair removes an ended
        lease without an item, gives one that is too long another end, and leaves a wake token if there is work. After
        five seconds without any call on the queue (the server was down, or its clock was stepped) holders have a third
        of busy_expiry, at most 10 s, to renew before anything expires. Raises StoreUnavailable. O(limit log n).
        """
        count("limit", limit, least=1, most=BATCH)
        with self._reading("reap") as read:
            reply = await read.reply(self._connection.run("reap", [self._keys.main], [limit]))
            rows = zip(reply[5::3], reply[6::3], reply[7::3], strict=True)
            expired = tuple(
                Outcome(token.decode(), Verdict(verdict.decode()), item.decode("utf-8", "replace"))
                for token, item, verdict in rows
            )
            repaired = await read.reply(self._connection.run("repair", [self._keys.main], [limit]))
            return Reaped(
                expired,
                due=int(reply[2]),
                repaired=int(reply[3]) + int(repaired[1]),
                more=bool(reply[4] or repaired[2]),
            )

    async def release_worker(
        self, worker: str, reason: Reason = Reason.CRASHED, error: str = "its worker died"
    ) -> Released:
        """Gives back all claims of a dead worker at once, in order: CRASHED to the tail and counted, INTERRUPTED to the
        head and not counted.

        Safe to repeat: only claims that are still held are given back. Raises StoreUnavailable. O(held log n), in calls
        of 100 items after one call for their tokens.
        """
        check_name("worker", worker)
        kind = choice("reason", reason, Reason)
        message, total = kept_error(error), Released()
        with self._reading("release_worker") as read:
            tokens = await self._tokens_of(worker)
            while tokens:
                # Items that go to the head go there in reverse order.
                last_first = kind is Reason.INTERRUPTED
                part = tokens[-MOVES:] if last_first else tokens[:MOVES]
                with self._connection.lane() as call:
                    args = [*call, worker, kind.value, message, *part]
                    reply = await read.reply(self._connection.run("release_worker", [self._keys.main], args))
                requeued, delayed, failed, unclaimed, looked_at = map(int, reply[1].split())
                if not 0 < looked_at <= len(part):
                    raise ValueError("a number of claims out of bounds")
                tokens = tokens[:-looked_at] if last_first else tokens[looked_at:]
                total = Released(
                    total.requeued + requeued,
                    total.delayed + delayed,
                    total.failed + failed,
                    total.unclaimed + unclaimed,
                )
        return total

    async def flush(self) -> dict[State, int]:
        """Removes all items in all states; returns how many there were by state. Policy and counters stay; claims
        become lost.

        One atomic step for up to 1,000 claims and 500 clients, unless items are so large that freeing them would
        block the server; otherwise several steps, between which other calls run. Items that are enqueued, or claimed
        and requeued, while this runs may stay. Raises StoreUnavailable. O(claims + clients), in calls of bounded size.
        """
        total = Removal()
        with self._reading("flush", keeps=False) as read:
            while total.more:
                with self._connection.lane() as call:
                    reply = await read.reply(self._connection.run("flush", [self._keys.main], call))
                total.add(reply[1])
        return total.by_state()

    async def flush_client(self, client: str) -> int:
        """Removes all items of one client that wait in main; returns how many there were. They count in ``flushed``.

        Its items in other states stay, and it may enqueue again at once. Raises InvalidName, StoreUnavailable.
        O(clients), 6 ms at most; the server frees the items in the background.
        """
        check_name("client", client)
        with self._reading("flush_client"), self._connection.lane() as call:
            reply = await self._connection.run("flush_client", [self._keys.main], [*call, client])
            return int(reply[1])

    async def delete(self, *, only_if_empty: bool = False) -> dict[State, int] | None:
        """Removes the whole queue with its policy and its counters; returns how many items there were by state.

        ``only_if_empty``: returns None and changes nothing if there is an item in any state. Both happen in one step,
        so no item that is enqueued at the same time is lost. Stop the queue's workers before. One atomic step or
        several, as :meth:`flush`; the policy and the counters go with the last. Raises StoreUnavailable. O(claims +
        clients), in calls of bounded size.
        """
        return await self._delete(only_if_empty=only_if_empty)
