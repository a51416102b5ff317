"""Operations that only claimq's own operator, local mode and sidecar need. They are not part of the public API.

``internals(queue)`` gives them for a :class:`claimq.ReliableQueue`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from claimq import arguments
from claimq.arguments import Duration
from claimq.codec import check_name, kept_error
from claimq.internals.owner import Owner, owner_on_record
from claimq.internals.trial import try_scripts
from claimq.model import State
from claimq.queue.queue_part import QueuePart, with_operations_of
from claimq.queue.token_groups import BATCH
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.scripts import Arg

_MOST_EXPLAINED = 200
"""Items of each state at which ``explain`` and ``recount`` look."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A key of a queue as no call of claimq leaves it. ``command``: the Redis command that corrects it."""

    key: bytes
    message: bytes
    command: tuple[bytes, ...]


def internals(queue: QueuePart) -> Internals:
    """The internal operations of a queue, on its connection and under its worker's name."""
    return with_operations_of(Internals, queue)


class Internals(QueuePart):
    """Made by :func:`internals`."""

    @property
    def wake_key(self) -> str:
        """The key of the list in which the wake token is."""
        return self._keys.wake

    def name_slots(self, slots: int) -> None:
        """On how many items this worker works at the same time: its claims name it."""
        self._connection.slots[self._keys.main, self.worker] = slots

    async def try_scripts(self) -> None:
        """Runs a script that makes the kinds of calls of all others and writes nothing. Raises ScriptsRefused, with the
        server's name and version, if the server cannot run it; otherwise what any script raises. One round trip."""
        await try_scripts(self._connection, self._keys.main)

    async def wake(self) -> None:
        """Leaves a wake token if there is work and no token. Any process may do so at any time. O(1)."""
        await self._wake()

    def reading(self, doing: str, *, keeps: bool = True) -> BoundedRead:
        """For a ``with`` block whose calls share the bounds of one read. Errors name the read with ``doing``.
        ``keeps``: whether the caller keeps what the calls return; if not, only their time is bounded."""
        return BoundedRead(doing, self._connection.settings.read_bounds, keeps=keeps, parses=False)

    async def lost_claims_recovered(self) -> None:
        """Waits for the recovery of this queue's claims that were cancelled or ended with StoreUnavailable on this
        connection: none of them runs any more, and the items that they claimed are back at the head of main.

        Also returns when a recovery was given up after ten minutes, or the connection is closed: the leases then
        decide. Does not wait for claims that begin later. Makes no call of its own.
        """
        await self._connection.lost_claims.recovered(self._keys.main)

    async def known_ids(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids with which an enqueue would add nothing now: producers gave them within the queue's id
        window. Two round trips for up to 1,000 ids; O(ids * log ids of the queue)."""
        known_names: set[str] = set()
        if ids:
            now = int((await self._connection.run("snapshot", [self._keys.main], [1, 0]))[0][0])
            for start in range(0, len(ids), BATCH):
                chunk = ids[start : start + BATCH]
                until = await self._read("ZMSCORE", self._keys["ids"], *chunk)
                known_names |= {name for name, at in zip(chunk, until, strict=True) if at and float(at) > now}
        return known_names

    async def damage(self) -> list[Damage]:
        """What another client, an eviction or a partial restore has done to the queue's keys: at most ten of a kind.

        Calls of claimq leave nothing of this, so nothing repairs it. Looks at up to 10,000 clients, 1,000 workers and
        5,000 items in busy and failed. Raises StoreUnavailable. O(what it looks at).
        """
        damages: list[Damage] = []
        words: list[bytes] = []
        with self._reading("damage") as read:
            for word in await read.reply(self._connection.run("damage", [self._keys.main], [])):
                if word is not None:
                    words.append(word)
                    continue
                key, message, *command = words
                damages.append(Damage(key, message, tuple(command)))
                words = []
        return damages

    async def explain(
        self,
        worker: str,
        cause: str,
        *,
        ended_at: float = math.inf,
        within: Duration = 60.0,
    ) -> int:
        """Adds the cause to items that ``worker`` gave back as crashed; returns how many items it changed.

        A sidecar notices at once that its app is gone; the kubelet reports a moment later that it ran out of memory.
        Changes only crashes of the last ``within`` seconds, among the newest 200 items of each state, that have no
        cause of this kind yet (its text up to the first colon). ``ended_at``: Unix seconds; a crash from after it
        has this cause even if an earlier end's is recorded: that call came late. Counts and states stay. Safe to
        repeat. Raises StoreUnavailable. O(those items).
        """
        return await self._walk("explain", worker, cause, within, ended_at)

    async def recount(self, worker: str, cause: str) -> int:
        """Counts as crashes, with ``cause``, what ``worker`` gave back as interrupted; returns how many items that
        were.

        A pod that is evicted for its own resource usage gets SIGTERM like any other, and its sidecar gives its claims
        back uncounted; the kubelet's reason comes a moment later. Changes only interruptions with a reason (work that
        had begun) of the last minute, among the 200 next items of main and the newest claims. An item that waits again
        goes to the tail, or to failed at the limit. An item that another worker holds stays with it, and goes to failed
        at the limit when that worker gives it back. Safe to repeat. Raises StoreUnavailable. O(log n) for each of those
        items.
        """
        return await self._walk("recount", worker, cause, 60.0)

    async def _walk(self, name: str, worker: str, cause: str, within: Duration, *more_words: Arg) -> int:
        """Runs a script that looks at a bounded part until it has seen all; returns how many items it changed."""
        milliseconds = round(arguments.seconds("within", within) * 1000)
        args = [check_name("worker", worker), kept_error(cause), milliseconds, _MOST_EXPLAINED, *more_words]
        changed = place = 0
        more = 1
        with self._reading(name, keeps=False) as read:
            while more:
                reply = await read.reply(self._connection.run(name, [self._keys.main], [*args, place]))
                count, place, more = map(int, reply[1:])
                changed += count
        return changed

    async def tokens_claimed_before(self, worker: str, at: float) -> list[str]:
        """The tokens of the claims that ``worker`` holds since before ``at`` (Unix seconds, the server's clock).

        Reads no items, whose size another program decides. Raises StoreUnavailable. O(held + live claim calls).
        """
        tokens = await self._tokens_of(check_name("worker", worker))
        times = await self._claim_times(token.encode() for token in tokens)
        return [token for token in tokens if times.get(token, at) < at]

    async def owner(self) -> Owner | None:
        """The recorded owner; None if the queue has none. Raises StoreUnavailable, and StoreMisused for a record that
        cannot be read. O(1).
        """
        with self._reading("owner"):
            record = await self._read("HGET", self._keys.config, "owner")
            return None if record is None else owner_on_record(record, self.name)

    async def own(self, owner: Owner, *, take_over_from: Owner | None = None) -> Owner:
        """Records ``owner`` as the queue's owner if it has none; returns the owner that it has now.

        The owner of an owned queue changes only if ``take_over_from`` is the present owner with its number, or if
        ``owner`` has the same cluster, namespace and name: an object that was created again. Safe to repeat. Raises
        StoreUnavailable, and StoreMisused for a record that cannot be read. O(1).
        """
        present = "" if take_over_from is None else f"{take_over_from.words()} {take_over_from.number}"
        with self._reading("own"):
            reply = await self._connection.run("own", [self._keys.main], [owner.words(), present])
            return owner_on_record(reply[1], self.name)

    async def delete_owned(self, owner: Owner, *, only_if_empty: bool = False) -> dict[State, int] | None:
        """As :meth:`claimq.ReliableQueue.delete`, unless the queue has another owner: then it raises StoreMisused and
        changes nothing."""
        return await self._delete(only_if_empty=only_if_empty, owner=owner.words())
