"""Claiming items and saying what became of them: the worker's side of a queue."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from claimq import arguments
from claimq.arguments import Duration, optional_seconds
from claimq.codec import kept_detail, kept_error, read_envelope
from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable
from claimq.model import Claim, Outcome, Verdict
from claimq.queue.producing import Batch, batch_of, check_one_step, queue_words, raise_refusal
from claimq.queue.queue_part import QueuePart
from claimq.queue.token_groups import BATCH, Claims, TokenGroups
from claimq.redis_store.connection import Arg, Call
from claimq.redis_store.durable import run_durably
from claimq.redis_store.keys import Keys
from claimq.tokens import make_token, number_of

IDLE_POLL = 1.0
"""Seconds after which a waiting claim looks for itself, whatever the wake token says."""


WITHDRAW_SECONDS = 600.0
"""For so long it is tried to find out what became of a claim whose reply did not come; then its lease decides."""


_NONCE_BYTES = 6


class _Default(Enum):
    WAIT = "the queue's claim_wait_timeout"


DEFAULT: Final = _Default.WAIT
"""Wait as long as the queue's policy says (one second unless set)."""

Followers = Iterable[object] | Mapping[str, Iterable[object]]


@dataclass(frozen=True, slots=True)
class Done:
    """A claim that is done together with the items that follow from it: payloads for the same queue, or a
    mapping of queue to payloads."""

    claim: Claim | str
    enqueue: Followers


@dataclass(frozen=True, slots=True)
class _Looked:
    claims: list[Claim]
    wait: float | None = 1.0
    next_due_in: float | None = None
    again: bool = False


class Claiming(QueuePart):
    """Takes items from main and ends claims. Each call is guarded by the claims' tokens: a lost claim changes
    nothing."""

    _fits = BATCH
    """So many items at most are claimed at once: fewer after a claim whose reply did not get through."""

    async def claim(self, count: int = 1, *, wait: Duration | _Default | None = DEFAULT) -> list[Claim]:
        """Moves up to ``count`` (1 to 1,000; more is a ValueError) items to busy, oldest first, clients in
        turn; an empty list if there are none in time.

        ``wait``: seconds to wait for the first item; 0 not at all, None for ever, by default the queue's
        claim_wait_timeout. The items are held until ``lease_until``; renew or end them before. An item that
        has crashed a worker before comes alone.

        Cancelling this loses nothing: what was claimed by then goes back to the head of main. So does, once the
        server answers again, what a claim got that ended with StoreUnavailable; :meth:`withdrawn` waits for both.
        If the process dies, the lease decides. Raises StoreUnavailable (after trying for ``retry_for``),
        StoreMisused, ValueError. Costs one round trip where items wait, two after a wait; O(count log busy)
        on the server, whatever waits.
        """
        arguments.count("count", count, least=1, most=BATCH)
        given = None if wait is DEFAULT else optional_seconds("wait", wait)
        loop = asyncio.get_running_loop()
        started = loop.time()
        pause: float | None = None
        reaped = False
        while True:
            looked = await self._look(count, pause)
            if looked.claims:
                return looked.claims
            longest = looked.wait if wait is DEFAULT else given
            left = None if longest is None else started + longest - loop.time()
            if looked.again and (left is None or left > 0 or not reaped):
                pause, reaped = (
                    None,
                    True,
                )  # there may be much to reap: once also without time, then while there is
                continue
            if left is not None and left <= 0:
                return []
            pause = min(bound for bound in (IDLE_POLL, left, looked.next_due_in) if bound is not None)

    async def _look(self, count: int, pause: float | None) -> _Looked:
        """One look, after a wake token or ``pause`` seconds if that is given. If its caller is cancelled meanwhile, it
        runs no more, or what it got goes back."""
        call = self._connection.take_lane()
        nonce = new_nonce()
        keys: list[str] = [self._keys.main]
        words: list[Arg] = [*call, self.worker, min(count, self._fits), nonce]
        try:
            if pause is None:
                reply = await self._connection.run("claim", keys, words)
            else:
                reply = await self._connection.run_after_wake(
                    "claim", keys, words, wake=self._keys.wake, seconds=pause
                )
        except asyncio.CancelledError:
            self._connection.find_out(self._keys.main, self._withdraw(call, nonce), may_outlast=False)
            raise
        except StoreUnavailable:
            self._fits = max(1, min(count, self._fits) // 4)  # a reply may be too large for this link
            if self._connection.may_find_out(self._keys.main):
                self._connection.find_out(self._keys.main, self._withdraw(call, nonce), may_outlast=True)
            else:
                self._connection.give_lane(call)
            raise
        except BaseException:
            self._connection.give_lane(call)
            raise
        self._connection.give_lane(call)
        self._fits = min(BATCH, 2 * self._fits)
        if reply[0] == b"EMPTY":
            now, due = int(reply[1]), reply[3]
            again = bool(reply[4]) and await self._reap_some()
            wait = int(reply[2]) / 1000 if reply[2] else None
            return _Looked([], wait, max(int(float(due)) - now, 0) / 1000 if due else None, again)
        _, now, first, _, lease_end, overdue = map(int, reply[1].split())
        if overdue:
            self.in_background(self._tidy(overdue))
        return _Looked(self._claims(reply[2:], first, nonce, now / 1000, lease_end / 1000))

    async def withdrawn(self) -> None:
        """Waits until it is known what became of claims of this queue that were cancelled or ended in StoreUnavailable,
        on this connection: none of them runs any more, and what they had got is back at the head of main.

        Ends as well when that could not be found out for :data:`WITHDRAW_SECONDS`, or the connection is closed: the
        leases then decide. Claims that begin meanwhile are not waited for. Costs nothing where there are none.
        """
        await self._connection.doubts.settled(self._keys.main)

    async def _withdraw(self, call: Call, nonce: str) -> None:
        """Sees to it that a claim call for whose reply nobody waits any more does not run, and gives back what it got
        if it has run."""
        try:
            async with self._connection.doubts.turn(self._keys.main):
                reply = await self._on_its_lane("withdraw", call, [call[2]])
                if reply[1]:
                    _, _, first, held, *_ = map(int, reply[1].split())
                    claimed = [make_token(self.worker, n, nonce) for n in range(first, first + held)]
                    held_still = TokenGroups.of(claimed)
                    while held_still.sent:
                        words: list[Arg] = ["interrupt", "", "", "", *held_still.words]
                        said = await self._on_its_lane("give_back", call, words)
                        held_still = held_still.later(said[1].decode().partition("|")[0].split())
        finally:
            self._connection.give_lane(call)

    async def _on_its_lane(self, name: str, call: Call, words: list[Arg]) -> Any:
        words = [*self._connection.next_on_lane(call), *words]
        keys = [self._keys.main]
        return await self._connection.run(name, keys, words, use="verdicts", retry_for=WITHDRAW_SECONDS)

    async def _tidy(self, overdue: int) -> None:
        """What a claim that got items found to be due, done after it."""
        if overdue & 1:
            await self._reap_some()
        if overdue & 2:
            await self._upkeep("repair", 256)

    async def _reap_some(self) -> bool:
        """Every claimer reaps what it meets overdue, so that recovery needs no operator."""
        reply = await self._upkeep("reap", 100)
        return len(reply) > 5 or (len(reply) > 2 and reply[2] > 0)

    async def _upkeep(self, name: str, limit: int) -> list[Any]:
        """Something that any process may do at any time; a fault here is the next claim's to meet."""
        try:
            return list(await self._connection.run(name, [self._keys.main], [limit], retry_for=0))
        except ClaimqError:
            return []

    def _claims(
        self, envelopes: list[bytes | None], first: int, nonce: str, now: float, lease_until: float
    ) -> list[Claim]:
        prefix, suffix, worker = f"{self.worker}/", f".{nonce}", self.worker
        claims: list[Claim] = []
        for number, envelope in enumerate(envelopes, start=first):
            if envelope is not None:
                token = f"{prefix}{number}{suffix}"
                claims.append(Claim(token, read_envelope(envelope, token), worker, now, lease_until))
        return claims

    async def done(
        self, claims: Claims | Done | Iterable[Claim | str | Done], *, enqueue: Followers = ()
    ) -> list[Outcome]:
        """Ends claims whose work is finished; DONE or LOST for each. The items are gone.

        ``enqueue`` (with one claim), or :class:`Done` for each of several, adds items in the same atomic
        step: to this queue, or with a mapping to others on the same server slot. What would follow from a
        lost claim is not enqueued.

        Raises StoreUnavailable (not known; the leases go on), StoreMisused; with ``enqueue`` also
        ItemTooLarge, StoreFull, CrossSlot. Costs one round trip for up to 1,000 claims, O(claims log busy).
        """
        listed = [claims] if isinstance(claims, Claim | str | Done) else list(claims)
        if enqueue:
            if len(listed) != 1 or isinstance(listed[0], Done):
                raise ValueError(
                    "enqueue= goes with one claim; for several give Done(claim, enqueue=...) for each"
                )
            listed = [Done(listed[0], enqueue)]
        if any(isinstance(claim, Done) for claim in listed):
            return await self._done_enqueue(
                [claim if isinstance(claim, Done) else Done(claim, ()) for claim in listed]
            )
        return await self._settle("done", [claim for claim in listed if not isinstance(claim, Done)], [])

    async def _done_enqueue(self, pairs: list[Done]) -> list[Outcome]:
        groups = TokenGroups.of([pair.claim for pair in pairs])
        if len(pairs) > BATCH:
            raise ValueError(f"end at most {BATCH} claims with followers at once, not {len(pairs)}")
        position = {token: number for number, token in enumerate(groups.sent, start=1)}
        queues: dict[str, int] = {self.name: 1}
        words: list[Arg] = []
        batches: list[Batch] = []
        for pair in pairs:
            token = pair.claim.token if isinstance(pair.claim, Claim) else pair.claim
            guard = position.pop(token, None)  # a claim given twice is lost the second time
            wanted = _by_queue(pair.enqueue, self.name)
            for name, payloads in wanted.items():
                batch = batch_of(payloads)
                batches.append(batch)
                if guard is not None:
                    words += queue_words(batch, queues.setdefault(name, len(queues) + 1), guard)
        check_one_step(batches)
        with self._connection.lane() as call:
            keys = [Keys(name).main for name in queues]
            reply, missing = await run_durably(
                self._connection, "done_enqueue", keys, [*call, *groups.words, *words], use="verdicts"
            )
        raise_refusal(reply)
        return _confirmed(_outcomes(groups, reply[1].decode().partition("|")[0].split()), missing)

    async def fail(
        self, claims: Claims, error: str, *, permanent: bool = False, detail: str = ""
    ) -> list[Outcome]:
        """This attempt failed: to the tail of main (or delayed, by the retry delay), or to failed at the
        limit or when ``permanent``.

        Counts a failure and keeps ``error`` (its first 1,000 characters) with the item, and ``detail`` (its last 2,000
        characters: the frames of a traceback, for instance) until the next error. Verdicts REQUEUED,
        DELAYED (with the delay), FAILED, LOST. Raises StoreUnavailable, StoreMisused. One round trip for up
        to 1,000 claims, O(claims log n).
        """
        return await self._settle(
            "give_back",
            claims,
            ["permanent" if permanent else "fail", kept_error(error), kept_detail(detail), ""],
        )

    async def drop(self, claims: Claims, error: str) -> list[Outcome]:
        """This attempt failed and there will be no other: the items are gone. Counts a failure, and in ``dropped``.

        They are in the log of removed items (:meth:`claimq.ReliableQueue.removed_items`) with the beginning of
        ``error``. Verdicts DROPPED, LOST. Errors and cost as :meth:`fail`.
        """
        return await self._settle("give_back", claims, ["drop", kept_error(error), "", ""])

    async def requeue(self, claims: Claims, *, delay: Duration | None = None) -> list[Outcome]:
        """Not now: to the tail of main, or to delayed for ``delay`` seconds. Counts as a requeue, so the
        limit holds here too.

        Verdicts REQUEUED, DELAYED, FAILED (the limit was reached), LOST. Errors and cost as :meth:`fail`.
        """
        pause = optional_seconds("delay", delay)
        return await self._settle(
            "give_back", claims, ["requeue", "", "", "" if pause is None else round(pause * 1000)]
        )

    async def unclaim(self, claims: Claims, *, why: str = "") -> list[Outcome]:
        """The work never began, or was interrupted: to the head of main, in the order of arrival also among
        what other calls gave back. Counts nothing against the limit.

        ``why``: what interrupted work that had begun; a line in the item's history, from which :meth:`recount` knows
        it. Verdicts UNCLAIMED, LOST; FAILED for an item that :meth:`recount` found to be at its limit meanwhile.
        Errors and cost as :meth:`fail`.
        """
        listed = [claims] if isinstance(claims, Claim | str) else list(claims)
        words: list[Arg] = ["interrupt", kept_error(why) if why else "", "", ""]
        if len(listed) <= BATCH:
            return await self._settle("give_back", listed, words)
        # The last ones first: each call then finds its items before those of the call before it.
        places = sorted(range(len(listed)), key=lambda place: _number(listed[place]))
        outcomes: dict[int, Outcome] = {}
        for start in reversed(range(0, len(places), BATCH)):
            part = places[start : start + BATCH]
            said = await self._settle("give_back", [listed[place] for place in part], words)
            outcomes.update(zip(part, said, strict=True))
        return [outcomes[place] for place in range(len(listed))]

    async def crash(self, claims: Claims, error: str) -> list[Outcome]:
        """Their holder died: counted as a crash, to the tail of main, or to failed at the limit.

        Verdicts REQUEUED, DELAYED, FAILED, LOST. Errors and cost as :meth:`fail`.
        """
        return await self._settle("give_back", claims, ["crash", kept_error(error), "", ""])

    async def renew(self, claims: Claims) -> list[Outcome]:
        """Moves the ends of leases to one busy expiry from now. RENEWED with ``lease_until``, or LOST: stop
        working on that item.

        Raises StoreUnavailable, StoreMisused. One round trip for up to 1,000 claims, O(claims log busy).
        """
        outcomes: list[Outcome] = []
        for groups in TokenGroups.batches(claims):
            reply = await self._connection.run("renew", [self._keys.main], groups.words, use="renewals")
            lease_end, *verdicts = reply[1].decode().split()
            outcomes += _outcomes(groups, verdicts, lease_until=int(lease_end) / 1000)
        return outcomes

    async def _settle(self, name: str, claims: Claims, words: list[Arg]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        missing = ""
        for groups in TokenGroups.batches(claims):
            verdicts: dict[str, str] = {}
            part = groups
            while True:
                with self._connection.lane() as call:
                    reply, short = await run_durably(
                        self._connection,
                        name,
                        [self._keys.main],
                        [*call, *words, *part.words],
                        use="verdicts",
                    )
                missing = missing or short
                said = reply[1].decode().partition("|")[0].split()
                verdicts |= zip(part.sent, said, strict=True)
                part = part.later(said)
                if not part.sent:
                    break
            outcomes += _outcomes(groups, [verdicts[token] for token in groups.sent])
        return _confirmed(outcomes, missing)


def new_nonce() -> str:
    """Eight characters (48 random bits) that the tokens of one claim call have in common."""
    return secrets.token_urlsafe(_NONCE_BYTES)


def _number(claim: Claim | str) -> int:
    return number_of(claim if isinstance(claim, str) else claim.token)


def _confirmed(outcomes: list[Outcome], missing: str) -> list[Outcome]:
    if missing:
        raise NotReplicated(missing, outcomes)
    return outcomes


def _by_queue(followers: Followers, queue: str) -> Mapping[str, Iterable[object]]:
    if isinstance(followers, Mapping):
        return cast("Mapping[str, Iterable[object]]", followers)
    return {queue: followers}


_VERDICTS = {verdict.value: verdict for verdict in Verdict}


def _outcomes(groups: TokenGroups, verdicts: list[str], lease_until: float | None = None) -> list[Outcome]:
    """A verdict for each token that was given, in that order; one that was not sent, or given before in the
    call, is lost."""
    said = dict(zip(groups.sent, verdicts, strict=True))
    outcomes: list[Outcome] = []
    for token in groups.tokens:
        word, _, delay = said.pop(token, "lost").partition(":")
        verdict = _VERDICTS[word]
        renewed = lease_until if verdict is Verdict.RENEWED else None
        outcomes.append(
            Outcome(token, verdict, groups.ids.get(token), int(delay) / 1000 if delay else None, renewed)
        )
    return outcomes
