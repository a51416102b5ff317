"""What an operator does besides keeping a queue in order: waiting for its first item, and removing it for good."""

from __future__ import annotations

import asyncio

from claimq import arguments
from claimq.arguments import Duration
from claimq.codec import check_name, kept_error
from claimq.errors import StoreMisused
from claimq.model import State
from claimq.owner import Owner, read_owner
from claimq.queue.queue_part import QueuePart
from claimq.redis_store.connection import Arg


class Operating(QueuePart):
    """For whoever starts and ends a queue's workers."""

    async def wait_for_work(self, seconds: Duration) -> bool:
        """Waits until there is something to claim, at most ``seconds``; whether it was worth waking up.

        For a queue without workers: a wake token that it finds is put back while there is work, so that it costs a
        waiting claimer one round trip and no item. A token that is lost on the way (this process dies between the
        two) is found missing by the next reap or wake. True may be a false alarm; look at the queue. Raises
        StoreUnavailable. O(1), one round trip in two seconds.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + arguments.seconds("seconds", seconds)
        while (left := deadline - loop.time()) > 0:
            if await self._connection.wait_for_wake(self._keys.wake, left):
                await self._connection.run("repair", [self._keys.main], [1])
                return True
        return False

    async def explain(self, worker: str, cause: str, *, within: Duration = 60.0, limit: int = 200) -> int:
        """Writes onto items that ``worker`` gave back as crashed why they were; returns how many were told.

        A sidecar knows at once that its app is gone, and the kubelet a moment later that it ran out of memory. Only
        crashes of the last ``within`` seconds, among the newest ``limit`` items of each state, that bear no cause of
        this kind yet (its text up to the first colon). Counts and places do not change; safe to repeat. Raises
        StoreUnavailable. O(limit).
        """
        check_name("worker", worker)
        args: list[Arg] = [
            worker,
            kept_error(cause),
            round(arguments.seconds("within", within) * 1000),
            arguments.count("limit", limit),
        ]
        return await self._walk("explain", args)

    async def recount(self, worker: str, cause: str, *, within: Duration = 60.0, limit: int = 200) -> int:
        """Counts as crashes what ``worker`` gave back as interrupted, with ``cause``; returns how many items that were.

        A pod that is evicted for what it used itself is told to end like any other, and its sidecar gives back what
        it holds, uncounted; the kubelet's reason comes a moment later. Only interruptions that bear words (a holder
        that was ended, not an item that was never begun) of the last ``within`` seconds, among the ``limit`` next
        items of main and the newest claims. What waits again goes to the tail, or to failed at the limit. What
        another worker holds by now stays with it; at the limit, it goes to failed when that one gives it back.
        Safe to repeat. Raises StoreUnavailable. O(limit log n).
        """
        check_name("worker", worker)
        args: list[Arg] = [
            worker,
            kept_error(cause),
            round(arguments.seconds("within", within) * 1000),
            arguments.count("limit", limit),
        ]
        return await self._walk("recount", args)

    async def _walk(self, name: str, args: list[Arg]) -> int:
        """Runs a script that looks at a bounded part until it has seen all; returns how many items it met."""
        met = place = 0
        while True:
            reply = await self._connection.run(name, [self._keys.main], [*args, place])
            found, place, more = map(int, reply[1:])
            met += found
            if not more:
                return met

    async def owner(self) -> Owner | None:
        """The recorded owner; None if the queue has none. Raises StoreUnavailable, and StoreMisused for a record that
        cannot be read. O(1).
        """
        record = await self._connection.command("HGET", self._keys.config, "owner")
        return None if record is None else self._read_owner(record)

    async def own(self, owner: Owner, *, take_over_from: Owner | None = None) -> Owner:
        """Records ``owner`` as the queue's owner, if it has none; returns the owner that it has now.

        A queue that has another owner changes hands only if ``take_over_from`` is that owner with its number, or if
        the owner has the same cluster, namespace and name: an object that was made again. Safe to repeat. Raises
        StoreUnavailable, and StoreMisused for a record that cannot be read. O(1).
        """
        from_ = "" if take_over_from is None else f"{take_over_from.words()} {take_over_from.number}"
        reply = await self._connection.run("own", [self._keys.main], [owner.words(), from_])
        return self._read_owner(reply[1])

    def _read_owner(self, record: bytes) -> Owner:
        found = read_owner(record.decode("ascii", "replace"), " ")
        if found is None:
            raise StoreMisused(
                f"the owner of the queue {self.name} cannot be read; remove it with "
                f"HDEL {self._keys.config} owner, if the queue is yours"
            )
        return found

    async def delete(
        self, *, only_if_empty: bool = False, owner: Owner | None = None
    ) -> dict[State, int] | None:
        """Removes the whole queue, its policy and its counters too; returns how many items there were by state.

        ``only_if_empty``: None, and nothing has changed, if there is an item in any state; looked at and removed in
        one step, so no item that is enqueued meanwhile is lost. ``owner``: StoreMisused, and nothing has changed,
        if the queue has an owner that is not this one. The numbering of tokens begins anew: end the queue's
        workers before. Raises StoreUnavailable. O(clients + workers); the items are freed in the background.
        """
        args: list[Arg] = [int(only_if_empty), "" if owner is None else owner.words()]
        with self._connection.lane() as call:
            reply = await self._connection.run("delete", [self._keys.main], [*call, *args])
        if reply[0] == b"OTHER":
            raise StoreMisused(f"delete: the queue {self.name} belongs to another owner, so it stays")
        if reply[0] == b"HELD":
            return None
        counts = map(int, reply[1].split())
        return dict(zip((State.MAIN, State.BUSY, State.DELAYED, State.FAILED), counts, strict=True))
