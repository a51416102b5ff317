"""Claiming items from main."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final

from claimq import arguments
from claimq.arguments import Duration, optional_seconds
from claimq.codec import read_envelope
from claimq.concurrency.without_loop import sleep
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim, construct
from claimq.queue.index import note_use
from claimq.queue.queue_part import QueuePart, seconds_until
from claimq.queue.token_groups import BATCH, TokenGroups
from claimq.redis_store.lost_claims import LostClaim
from claimq.redis_store.scripts import Arg

IDLE_POLL, LONGEST_POLL, _POLLS = 1.0, 15.0, 66
"""Seconds after which a waiting claim asks the server again, with or without a wake token. With many workers it is
longer: all of them together ask 66 times a second."""
_TIMER_STEP = 0.11
"""A quiet server ends a blocking command up to 1/hz seconds late, by default 0.1: a rate would lose each delay."""
_SLEEP_STEP = 0.002
"""A sleep ends up to a millisecond late, and the server counts whole ones. So a claim asks from a little before the
instant on: without a burst, a rate would lose each delay."""
_LONGEST_WAIT = 86_400.0
_NONCE_BYTES, _NONCE, _MARK = 6, 8, 3

_log = logging.getLogger(__name__)


class _Default(Enum):
    WAIT = "the queue's claim_wait_timeout"


DEFAULT: Final = _Default.WAIT
"""Wait as long as the queue's policy says (one second unless set)."""
Wait = Duration | _Default | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """Reply of one claim call. Without claims: how long the policy lets a claim wait, when the next delayed item is
    due, whether to ask again at once, whether the queue is paused, whether limits or an app hold items back, and how
    long to wait for a wake token. With claims: whether a limit of the queue is a rate or slots are kept free, so that
    nothing should be claimed ahead."""

    claims: list[Claim]
    wait: float | None = 1.0
    next_due_in: float | None = None
    again: bool = False
    paused: bool = False
    is_held_back: bool = False
    poll: float = IDLE_POLL
    has_rate: bool = False

    @property
    def may_be_continued(self) -> bool:
        """Whether a claim right after this one may begin with a wait: what it would find leaves a wake token."""
        is_due_later = self.next_due_in is None or self.next_due_in > 2 * self.poll
        return is_due_later and not (self.claims or self.again or self.is_held_back)


class Claiming(QueuePart):
    """Moves items from main to busy."""

    _fits = BATCH
    """The most items to claim at once: fewer after a claim whose reply did not get through."""

    async def claim(self, count: int = 1, *, wait: Wait = DEFAULT, slots: int | None = None) -> list[Claim]:
        """Moves up to ``count`` items (1 to 1,000) to busy, oldest first, clients in turn. Returns an empty list if
        none comes in time or the queue is paused.

        ``wait``: seconds to wait for the first item; 0 does not wait, None waits forever, the default is the queue's
        claim_wait_timeout. ``slots``: on how many items this worker works at the same time, for the reserve of the
        policy's ``fairness``; kept for its next claims. The claims hold until ``lease_until``; renew or end them
        before. An item that has crashed a worker before comes alone; a call claims at most 2 MiB of items (1 MiB in a
        queue with keys), or 250 that have failed or been given back (fewer where their errors are long).

        If this is cancelled, the items that it claimed go back to the head of main. So do the items of a claim that
        ended with StoreUnavailable, once the server answers again. If the process dies, the lease decides. It also
        decides if 1,000 claims of the queue are already being recovered (100 for a claim that ended with
        StoreUnavailable). Raises StoreUnavailable (after retries for ``retry_for``), StoreMisused, ValueError. Costs
        one round trip if an item waits, two after a wait, and one more at a connection's first claim on the queue;
        O(count log busy) on the server, whatever the queue's length.
        """
        if slots is not None:
            self._connection.slots[self._keys.main, self.worker] = arguments.count("slots", slots, least=1)
        return (await self._claim(count, wait)).claims

    async def _claim(
        self, count: int | Callable[[], int], wait: Wait, *, after: Claimed | None = None
    ) -> Claimed:
        """``count``: how many items, or what returns this number before each call; at 0 the claim ends. ``after``: what
        a claim has just found that may be continued; this one then begins with a wait."""
        size_of = count if callable(count) else partial(arguments.count, "count", count, least=1, most=BATCH)
        limit = None if wait is DEFAULT else optional_seconds("wait", wait)
        started = time.monotonic()
        pause: float | None = None
        reaped = False
        while size := size_of():
            waits: float | None = None
            if wait is not DEFAULT:
                waits = math.inf if limit is None else started + limit - time.monotonic() - (pause or 0.0)
            claimed, after = after or await self._claim_once(size, pause, waits), None
            if claimed.claims:
                return claimed
            longest = claimed.wait if wait is DEFAULT else limit
            remaining = None if longest is None else started + longest - time.monotonic()
            # There may be much to reap: ask again once although the time is over, and then while there is time.
            if claimed.again and (remaining is None or remaining > 0 or not reaped):
                pause, reaped = None, True
                continue
            if remaining is not None and remaining <= 0:
                return claimed
            pause = min(
                bound for bound in (claimed.poll, remaining, claimed.next_due_in) if bound is not None
            )
            if claimed.is_held_back and pause == claimed.next_due_in:
                if pause > _TIMER_STEP:
                    pause -= _TIMER_STEP
                else:
                    await sleep(pause - _SLEEP_STEP)
                    pause = None
        return Claimed([])

    async def _claim_once(self, count: int, pause: float | None, waits: float | None = None) -> Claimed:
        """Claims once, after a wake token or ``pause`` seconds if that is given. ``waits``: for how many seconds more
        the caller waits for an item; None: as long as the policy says."""
        keys, unused_pause = [self._keys.main], pause
        waits_ms: Arg = "" if waits is None else round(min(max(waits, 0.0), _LONGEST_WAIT) * 1000)
        limit = [*(self._limit() or [""]), waits_ms]

        async def call(words: list[Arg]) -> list[Any]:
            nonlocal unused_pause
            seconds, unused_pause = unused_pause, None  # where the call is made again it does not wait again
            if seconds is None:
                return list(await self._connection.run("claim", keys, [*words, *limit]))
            return list(
                await self._connection.run_after_wake(
                    "claim", keys, [*words, *limit], wake=self._keys.wake, seconds=seconds
                )
            )

        reply, nonce = await self._run_claim(call, count)
        if reply[0] == b"EMPTY":
            return await self._without_claims(reply)
        return self._read_claims(reply, nonce)

    async def _run_claim(
        self, call: Callable[[list[Arg]], Awaitable[list[Any]]], count: int
    ) -> tuple[list[Any], str]:
        """Calls a claiming script. Repeats it while the reply is LOST or AGAIN. Returns the reply and the nonce of the
        tokens.
        """
        with self._reading("claim", keeps=False) as read:
            while True:
                reply, nonce = await read.reply(self._call_claim(call, count))
                if reply[0] not in {b"LOST", b"AGAIN"}:
                    self._fits = min(BATCH, 2 * self._fits)
                    return reply, nonce
                if reply[0] == b"LOST":
                    main, known = self._keys.main, self._connection.incarnations
                    is_new, known[main] = main in known, reply[1].decode()
                    if is_new or main not in self._connection.noted_queues:  # its name went with its old data
                        await note_use(self._connection, [self._keys.main])

    async def _call_claim(
        self, call: Callable[[list[Arg]], Awaitable[list[Any]]], count: int
    ) -> tuple[list[Any], str]:
        """One call. If it is cancelled or ends with StoreUnavailable, what it claimed goes back to the head of main."""
        identity, nonce, main = (
            self._connection.lanes.take(),
            new_nonce(self._connection.lanes.instance),
            self._keys.main,
        )
        incarnation = self._connection.incarnations.get(main, "")
        try:
            fits, slots = min(count, self._fits), self._connection.slots.get((main, self.worker))
            size: Arg = f"{fits} {slots}" if slots else fits
            reply = await call([*identity, self.worker, size, nonce, incarnation])
        except BaseException as error:  # also an interrupt of the caller's thread
            in_outage = isinstance(error, StoreUnavailable)
            if isinstance(error, ClaimqError) and not in_outage:
                self._connection.lanes.give(identity)
                raise
            if in_outage:
                self._fits = max(1, min(count, self._fits) // 4)  # the reply may be too large for this link
            lost = LostClaim(identity, main, self.worker, nonce)
            self._connection.lost_claims.recover(lost, in_outage=in_outage)
            raise
        self._connection.lanes.give(identity)
        return reply, nonce

    def _limit(self) -> list[Arg]:
        """The last word of a call that claims: the bytes of the largest item that this program can take, if there is a
        limit."""
        largest = self._connection.settings.largest_item
        return [] if largest is None else [largest]

    def _read_claims(self, reply: list[Any], nonce: str) -> Claimed:
        """The claims in a reply. A call that ended claims has its verdicts behind these numbers."""
        numbers = reply[1].split(b" ", 7)
        _, now, first, _, lease_end, overdue = map(int, numbers[:6])
        self._connection.incarnations[self._keys.main] = numbers[6].decode()
        has_rate = self._connection.rated[self._keys.main] = bool(overdue & 4)
        if overdue & 3:
            self._connection.in_background(self._reap_and_repair(overdue))
        claims = self._claims(reply[2:], first, nonce, now / 1000, lease_end / 1000)
        if len(claims) < len(reply) - 2 and self._connection.settings.largest_item is not None:
            too_large = {
                f"{self.worker}/{number}.{nonce}": size
                for number, size in enumerate(reply[2:], start=first)
                if isinstance(size, int)
            }
            if too_large:
                self._connection.in_background(self._fail_too_large(too_large))
        return Claimed(claims, again=not claims, has_rate=has_rate)

    async def _fail_too_large(self, claims: Mapping[str, int]) -> None:
        """Moves items that this program cannot take to failed. ``claims``: token -> bytes."""
        for token, size in claims.items():
            _log.warning(
                "%s: an item of %d bytes is too large for this program, so it fails", self.name, size
            )
            error = (
                f"the item has {size:,} bytes, and a worker of this queue takes at most "
                f"{self._connection.settings.largest_item:,}; give the worker more memory, or make the item smaller"
            )
            words = TokenGroups.of([token]).words
            with self._connection.lanes.new_call() as call:
                args = [*call, "permanent", error, "", "", *words]
                await self._connection.run("give_back", [self._keys.main], args, use="verdicts")

    async def _without_claims(self, reply: list[Any]) -> Claimed:
        self._connection.incarnations[self._keys.main] = reply[6].decode()
        return Claimed(
            [],
            wait=int(reply[2]) / 1000 if reply[2] else None,
            next_due_in=seconds_until(reply[3], int(reply[1])),
            again=bool(reply[4]) and await self._reap(),
            paused=reply[5] == 1,
            is_held_back=reply[5] == 2,
            poll=min(max(IDLE_POLL, int(reply[7]) / _POLLS), LONGEST_POLL),
        )

    async def _reap_and_repair(self, overdue: int) -> None:
        """``overdue`` as the claim script returns it: 1 for something to reap, plus 2 for something to repair."""
        if overdue & 1:
            await self._reap()
        if overdue & 2:
            await self._maintain("repair", 256)

    async def _reap(self) -> bool:
        """Reaps what a claim found overdue, so that recovery needs no operator. True if there may be an item now."""
        reply = await self._maintain("reap", 100)
        return len(reply) > 5 or (len(reply) > 2 and reply[2] > 0)

    async def _maintain(self, name: str, limit: int) -> list[Any]:
        """Runs a script that any process may run at any time. An error is left to the next claim."""
        try:
            return list(await self._connection.run(name, [self._keys.main], [limit], retry_for=0))
        except ClaimqError:
            return []

    def _claims(
        self, envelopes: list[bytes | int | None], first: int, nonce: str, now: float, lease_until: float
    ) -> list[Claim]:
        prefix, suffix, worker = f"{self.worker}/", f".{nonce}", self.worker
        claims: list[Claim] = []
        for number, envelope in enumerate(envelopes, start=first):
            if isinstance(envelope, bytes):
                token = f"{prefix}{number}{suffix}"
                fields = token, read_envelope(envelope, token), worker, now, lease_until
                claims.append(construct(Claim, fields))
        return claims


def new_nonce(instance: str) -> str:
    """Eight characters that the tokens of one claim call have in common: three of the instance of the connection, by
    which the server finds the claims of a process that is gone (lua/lib/presence.lua), and 30 random bits."""
    return f"{instance[:_MARK]}{secrets.token_urlsafe(_NONCE_BYTES)}"[:_NONCE]
