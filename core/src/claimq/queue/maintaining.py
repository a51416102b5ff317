"""Keeping a queue in order: its policy, expired leases, claims of dead workers, removal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Unpack

from claimq.arguments import Instant, choice, count, of_type, text
from claimq.codec import check_name, kept_error, part_of_queue
from claimq.item_options import checked_end, stored_end
from claimq.limits import MOST_LIMITS, Limit, TemporaryLimit, change_limit
from claimq.model import Outcome, Reaped, Reason, Released, State, Verdict
from claimq.policy import Policy, PolicyChanges, changed_fields
from claimq.queue.index import add_name
from claimq.queue.queue_part import LAST_MS, QueuePart, Removal
from claimq.queue.reading.listing import number_of_reply
from claimq.queue.token_groups import BATCH, MOVES
from claimq.redis_store.scripts import Arg

_OVER = "until is over by the clock of the server; give a later instant, or none"


class Maintaining(QueuePart):
    """Operations of reapers, operators and administrators. Every call is bounded and may run in any number of processes
    at once."""

    async def policy(self) -> Policy:
        """The current policy; fields that were never set have their defaults. O(1).

        Raises StoreMisused for a field with an invalid value.
        """
        return await self._stored_policy()

    async def set_policy(self, policy: Policy) -> None:
        """Sets the whole policy. It applies at once, also to items that are already in the queue. A pause stays.
        O(1)."""
        await self._set_fields(of_type("policy", policy, Policy, "a Policy").to_fields())

    async def update_policy(self, **changes: Unpack[PolicyChanges]) -> None:
        """Sets the named fields and leaves all others unchanged, in one step: processes that change different fields at
        the same time do not undo each other's changes.

        The names are those of :class:`Policy`; the fields of ``retry_delay`` and ``failed`` also have names of their
        own, as in ``failed_max_items=100``. Applies as :meth:`set_policy`. Raises ValueError for a value out of bounds,
        for a given-up count without the age that it needs, and for limits that are more than eight with the temporary
        ones; TypeError for an unknown field. O(1).
        """
        await self._set_fields(changed_fields(changes))

    async def _set_fields(self, fields: dict[str, str]) -> None:
        await self._configure(*(word for pair in fields.items() for word in pair))
        if fields.get("suspended") == "0" or "limits" in fields:
            await self._wake()

    async def add_to_index(self) -> bool:
        """Adds the queue's name to those that :meth:`Server.queues` returns; only that list needs it. False if this
        user may not write ``cq:queues``, that key has another type, or the server cannot write now. O(log queues).
        """
        return await add_name(self._connection, self.name)

    async def pause(
        self,
        *,
        client: str | None = None,
        key: str | None = None,
        until: Instant | timedelta | None = None,
        reason: str = "",
        by: str = "",
    ) -> None:
        """Stops claims, or those of one client or key, ``until`` an instant, for a timedelta, or until :meth:`resume`.
        All else goes on, also :meth:`claim_item`.

        Of ``reason`` and ``by`` (whom) the first 400 and 128 characters are kept. A
        second pause replaces the first. Raises ValueError for an end that is over and for more than 100 paused
        clients or keys. O(pauses).
        """
        end = "" if until is None else stored_end(checked_end("until", until))
        reply = await self._pause(client, key, end, text("by", by)[:128], text("reason", reason)[:400])
        if reply[0] == b"PAST":
            raise ValueError(_OVER)
        if reply[0] == b"FULL":
            raise ValueError("100 clients, or keys, of the queue are paused, which is the limit; resume some")

    async def resume(self, *, client: str | None = None, key: str | None = None) -> bool:
        """Ends the pause of the queue, or of a client or key, and wakes a waiting claim. False if there was none.
        O(pauses)."""
        return bool((await self._pause(client, key, "resume", "", ""))[1])

    async def _pause(self, client: str | None, key: str | None, *words: Arg) -> list[Any]:
        args: list[Arg] = [part_of_queue(client, key), *words]
        with self._reading("pause") as read:
            return list(await read.reply(self._connection.run("pause", [self._keys.main], args)))

    async def set_limit(
        self, limit: Limit, *, until: Instant | timedelta | None = None, reason: str = "", by: str = ""
    ) -> None:
        """Adds a limit to those of the policy, or changes the one of its name. Other limits stay.

        With ``until`` (an instant, or a timedelta from now) the policy stays as it is: the limit holds in place of the
        policy's until then, whatever sets the policy in between, and it ends by itself. The first 200 characters of
        ``reason`` and 128 of ``by`` (who) are shown with it. Either ends an earlier temporary change of this limit.
        Raises ValueError for an end that is over and for a ninth limit. Two round trips; O(1).
        """
        of_type("limit", limit, Limit, "a Limit")
        await self._change_limit(limit.name, limit, until, reason, by)

    async def remove_limit(
        self, name: str, *, until: Instant | timedelta | None = None, reason: str = "", by: str = ""
    ) -> None:
        """Removes a limit from the policy, or with ``until`` lets it not hold for a time; otherwise as
        :meth:`set_limit`. Raises ValueError if the queue has no limit of this name."""
        await self._change_limit(text("name", name), None, until, reason, by)

    async def reset_limits(self) -> None:
        """Ends all temporary changes of limits: those of the policy hold. O(1)."""
        await self._change_limits(lambda stored, _: stored.partition("|")[0])

    async def _change_limit(
        self, name: str, limit: Limit | None, until: Instant | timedelta | None, reason: str, by: str
    ) -> None:
        end = None if until is None else checked_end("until", until)
        words = text("by", by)[:128], text("reason", reason)[:200]

        def changed(stored: str, now: float) -> str:
            ends = now + end.total_seconds() if isinstance(end, timedelta) else end or 0.0
            if end is not None and ends <= now:
                raise ValueError(_OVER)
            change = TemporaryLimit(name, limit, ends, *words)
            return change_limit(stored, now, change, is_temporary=end is not None)

        await self._change_limits(changed)

    async def _change_limits(self, change: Callable[[str, float], str]) -> None:
        """Sets the limits to ``change`` of the present ones and the time of the server. Repeats that if another call
        has changed them in between."""
        is_set, after = False, ""
        while not is_set:
            with self._reading("limits") as read:
                (reply,) = await read.reply(self._connection.run("snapshot", [self._keys.main], [1, 0]))
                before, now = reply[9][-1] if reply[9] else b"", number_of_reply(reply[0], LAST_MS) / 1000
            stored = before.decode("utf-8", "replace")
            if after and stored == after:  # the reply of the first call was lost
                break
            after = change(stored, now)
            is_set = await self._configure("limits", after, "limits_before", before)
        await self._wake()

    async def _configure(self, *words: Arg) -> bool:
        """Sets fields of the policy; False if ``limits_before`` is not their value. Works on a full server too, where
        fewer failed items help."""
        reply = await self._connection.run("configure", [self._keys.main], words)
        if reply[0] == b"ALONE":
            count, age = reply[1].decode(), reply[2].decode().removesuffix("_ms")
            raise ValueError(
                f"the policy would have {count} without {age}, which does nothing; set both in one call, or unset both"
            )
        if reply[0] == b"MANY":
            raise ValueError(
                f"limits has {reply[1]} limits with the temporary ones; give at most {MOST_LIMITS}, or reset those"
            )
        return bool(reply[0] != b"CHANGED")

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
                with self._connection.lanes.new_call() as call:
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
                with self._connection.lanes.new_call() as call:
                    reply = await read.reply(self._connection.run("flush", [self._keys.main], call))
                total.add(reply[1])
        return total.by_state()

    async def flush_client(self, client: str) -> int:
        """Removes all items of one client that wait in main; returns how many there were. They count in ``flushed``.

        Its items in other states stay, and it may enqueue again at once. Raises InvalidName, StoreUnavailable.
        O(clients), 6 ms at most; the server frees the items in the background.
        """
        check_name("client", client)
        with self._reading("flush_client"), self._connection.lanes.new_call() as call:
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
