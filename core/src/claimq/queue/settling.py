"""Ending and renewing claims. A call with the token of a lost claim changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from claimq import tracing
from claimq.arguments import Duration, choice, optional_seconds, seconds, text
from claimq.codec import kept_detail, kept_error
from claimq.errors import NotReplicated
from claimq.handler_verdicts import Closing
from claimq.model import Claim, Outcome, Verdict, construct
from claimq.queue.batches import Batch, batch_of, check_one_step, queue_words, raise_refusal
from claimq.queue.queue_part import QueuePart
from claimq.queue.token_groups import BATCH, MOVES, Claims, TokenGroups, listed
from claimq.redis_store.durable import run_durably
from claimq.redis_store.keys import Keys
from claimq.redis_store.scripts import Arg
from claimq.tokens import number_of

Followers = Iterable[object] | Mapping[str, Iterable[object]]


@dataclass(frozen=True, slots=True)
class Done:
    """A claim to end together with items to add: payloads for the same queue, or payloads by queue."""

    claim: Claim | str
    enqueue: Followers


class Settling(QueuePart):
    """Ends claims with a verdict, and renews their leases.

    A claim is given as a :class:`Claim` or its token. Text that is not a token is a ValueError; a claim that is not
    held any more gets the verdict LOST.
    """

    async def done(
        self, claims: Claims | Done | Iterable[Claim | str | Done], *, enqueue: Followers = ()
    ) -> list[Outcome]:
        """Ends claims whose work is finished and removes their items; DONE or LOST for each.

        ``enqueue`` (with one claim), or :class:`Done` for each of several, adds items in the same atomic step: to this
        queue, or with a mapping to others on the same server slot. Nothing is added for a lost claim. What follows from
        the claims of several workers is added worker by worker.

        Raises StoreUnavailable (the outcome is unknown; the leases go on), StoreMisused; with ``enqueue`` also
        ItemTooLarge, StoreFull, CrossSlot. Costs one round trip for up to 1,000 claims, O(claims log busy).
        """
        every = [claims] if isinstance(claims, Done) else listed(claims)
        if enqueue:
            if len(every) != 1 or isinstance(every[0], Done):
                raise ValueError(
                    "enqueue= goes with one claim; for several give Done(claim, enqueue=...) for each"
                )
            every = [Done(every[0], enqueue)]
        alone = [claim for claim in every if not isinstance(claim, Done)]
        if len(alone) == len(every):
            return await self._settle("done", alone, [])
        return await self._done_enqueue(
            [claim if isinstance(claim, Done) else Done(claim, ()) for claim in every]
        )

    async def _done_enqueue(self, pairs: list[Done]) -> list[Outcome]:
        if len(pairs) > BATCH:
            raise ValueError(f"end at most {BATCH} claims with followers at once, not {len(pairs)}")
        groups = part = TokenGroups.of([pair.claim for pair in pairs])
        followers: dict[str, list[tuple[str, Batch]]] = {}
        for pair in pairs:  # a claim that is given twice is lost the second time, with its followers
            by_queue = _by_queue(pair.enqueue, self.name).items()
            followers.setdefault(
                _token(pair.claim), [(name, batch_of(tracing.carrying(items))) for name, items in by_queue]
            )
        check_one_step(itertools.chain.from_iterable(followers.values()))
        verdicts: dict[str, str] = {}
        missing = ""
        read = self._reading("done", keeps=False)
        while part.sent:
            queues: dict[str, int] = {self.name: 1}
            words: list[Arg] = []
            for position, token in enumerate(part.sent, start=1):
                for name, batch in followers[token]:
                    words += queue_words(batch, queues.setdefault(name, len(queues) + 1), position)
            with self._connection.lanes.new_call() as call:
                keys, args = [Keys(name).main for name in queues], [*call, *part.words, *words]
                reply, unconfirmed = await read.reply(
                    run_durably(self._connection, "done_enqueue", keys, args, use="verdicts")
                )
            raise_refusal(reply)
            replied = _verdicts(reply)
            verdicts |= zip(part.sent, replied, strict=True)
            missing, part = missing or unconfirmed, part.later(replied)
        return _confirmed(outcomes_of(groups, [verdicts[token] for token in groups.sent]), missing)

    async def fail(
        self,
        claims: Claims,
        error: str,
        *,
        permanent: bool = False,
        detail: str = "",
        delay: Duration | None = None,
    ) -> list[Outcome]:
        """This attempt failed: the items go to the tail of main, to delayed for ``delay`` seconds (by default the
        policy's retry delay), or to failed at the limit or when ``permanent``.

        Counts a failure and keeps ``error`` (its first 1,000 characters) with the item, and ``detail`` (its last
        2,000 characters, such as the frames of a traceback) until the next error. Verdicts REQUEUED, DELAYED (with
        the delay), FAILED, LOST. Raises StoreUnavailable, StoreMisused. One round trip, and one atomic step, for up to
        100 claims and 2 MiB of items; O(claims log n).
        """
        kind = "permanent" if permanent else "fail"
        return await self._give_back(claims, kind, error=error, detail=detail, delay=_milliseconds(delay))

    async def drop(self, claims: Claims, error: str) -> list[Outcome]:
        """This attempt failed and there is no other: removes the items. Counts a failure, and in ``dropped``.

        The log of removed items (:meth:`claimq.ReliableQueue.removed_items`) has them with the beginning of ``error``.
        Verdicts DROPPED, LOST. Errors and cost as :meth:`fail`.
        """
        return await self._give_back(claims, "drop", error=error)

    async def requeue(
        self, claims: Claims, *, delay: Duration | None = None, error: str = "", detail: str = ""
    ) -> list[Outcome]:
        """Not now: the items go to the tail of main, or to delayed for ``delay`` seconds. Counts towards the requeue
        limit.

        ``error`` and ``detail``: why, kept with the item as those of :meth:`fail`; without them it keeps its last
        error. Verdicts REQUEUED, DELAYED, FAILED (at the limit), LOST. Errors and cost as :meth:`fail`.
        """
        return await self._give_back(
            claims, "requeue", error=error, detail=detail, delay=_milliseconds(delay)
        )

    async def later(
        self,
        claims: Claims,
        delay: Duration,
        *,
        close: Closing | str | None = None,
        error: str = "",
        detail: str = "",
    ) -> list[Outcome]:
        """Not now, for a reason that is not the items': delays them for ``delay`` seconds (0: to the tail of main), at
        most until their deadlines. No attempt, failure or crash is counted, only ``postponed_count``.

        ``close="queue"`` closes the queue for ``delay`` (at most a day), in the same step: nothing is claimed until
        then, ``error`` is the reason, and :meth:`resume` ends it. Of several closings and a pause the latest end holds.
        ``"client"`` and ``"key"`` close those of the items; one without, or with a hundred others paused, closes
        nothing. Lost claims close nothing.

        ``error`` and ``detail`` as for :meth:`requeue`. Verdicts DELAYED, REQUEUED, FAILED (after ``max_postponed``
        times, or where the item is late), LOST. Errors and cost as :meth:`fail`.
        """
        kind = "postpone" if close is None else f"postpone {choice('close', close, Closing)}"
        return await self._give_back(
            claims, kind, error=error, detail=detail, delay=_milliseconds(seconds("delay", delay))
        )

    async def unclaim(self, claims: Claims, *, why: str = "") -> list[Outcome]:
        """The work never began, or was interrupted: the items go to the head of main in the order of arrival, also
        among items that other calls gave back. Does not count towards the limit.

        ``why``: what interrupted work that had begun; it becomes a line of the item's history. Verdicts UNCLAIMED,
        LOST; FAILED for an item at its limit whose interruption was found to be a crash. Errors and cost as
        :meth:`fail`.
        """
        return await self._give_back(claims, "interrupt", error=text("why", why))

    async def crash(self, claims: Claims, error: str) -> list[Outcome]:
        """The holder died: counts a crash; the items go to the tail of main, or to failed at the limit.

        Verdicts REQUEUED, DELAYED, FAILED, LOST. Errors and cost as :meth:`fail`.
        """
        return await self._give_back(claims, "crash", error=error)

    async def renew(self, claims: Claims) -> list[Outcome]:
        """Moves the ends of leases to one busy expiry from now; RENEWED with ``lease_until``, or LOST: stop working on
        that item.

        Raises StoreUnavailable, StoreMisused. One round trip for up to 1,000 claims, O(claims log busy).
        """
        outcomes: list[Outcome] = []
        for groups in TokenGroups.batches(claims):
            reply = await self._connection.run("renew", [self._keys.main], groups.words, use="renewals")
            lease_end, *verdicts = reply[1].decode().split()
            outcomes += outcomes_of(groups, verdicts, lease_until=int(lease_end) / 1000)
        return outcomes

    async def _give_back(
        self, claims: Claims, kind: str, *, error: str = "", detail: str = "", delay: int | str = ""
    ) -> list[Outcome]:
        words: list[Arg] = [kind, kept_error(error), kept_detail(detail), delay]
        every = listed(claims)
        if len(every) <= MOVES:
            return await self._settle("give_back", every, words)
        TokenGroups.of(every)  # raises for invalid tokens before the first call
        # In the order of claiming; to the head newest first, so that each call puts its items before those of the last.
        order = sorted(range(len(every)), key=lambda i: _number(every[i]), reverse=kind == "interrupt")
        outcomes: dict[int, Outcome] = {}
        for start in range(0, len(order), MOVES):
            part = order[start : start + MOVES]
            outcomes.update(
                zip(part, await self._settle("give_back", [every[i] for i in part], words), strict=True)
            )
        return [outcomes[i] for i in range(len(every))]

    async def _settle(self, name: str, claims: Claims, words: list[Arg]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        missing = ""
        every = list(TokenGroups.batches(claims))
        with self._reading(name, keeps=False) as read:
            for groups in every:
                verdicts: dict[str, str] = {}
                part = groups
                while True:
                    with self._connection.lanes.new_call() as call:
                        args = [*call, *words, *part.words]
                        reply, unconfirmed = await read.reply(
                            run_durably(self._connection, name, [self._keys.main], args, use="verdicts")
                        )
                    missing = missing or unconfirmed
                    replied = _verdicts(reply)
                    verdicts |= zip(part.sent, replied, strict=True)
                    part = part.later(replied)
                    if not part.sent:
                        break
                outcomes += outcomes_of(groups, [verdicts[token] for token in groups.sent])
        return _confirmed(outcomes, missing)


def _milliseconds(delay: Duration | None) -> int | str:
    """A delay as the scripts read it."""
    pause = optional_seconds("delay", delay)
    return "" if pause is None else round(pause * 1000)


def _token(claim: Claim | str) -> str:
    return claim if isinstance(claim, str) else claim.token


def _number(claim: Claim | str) -> int:
    return number_of(_token(claim))


def _verdicts(reply: list[bytes]) -> list[str]:
    """The verdicts in a reply, without the note on durability behind them."""
    return reply[1].decode().partition("|")[0].split()


def _confirmed(outcomes: list[Outcome], missing: str) -> list[Outcome]:
    if missing:
        raise NotReplicated(missing, outcomes)
    return outcomes


def _by_queue(followers: Followers, queue: str) -> Mapping[str, Iterable[object]]:
    if isinstance(followers, Mapping):
        return cast("Mapping[str, Iterable[object]]", followers)
    return {queue: followers}


_VERDICTS = {verdict.value: verdict for verdict in Verdict}


def outcomes_of(groups: TokenGroups, verdicts: list[str], lease_until: float | None = None) -> list[Outcome]:
    """An outcome for each token in the order given. A token that was not sent, or that comes twice, is lost."""
    if groups.tokens != groups.sent:
        by_token = dict(zip(groups.sent, verdicts, strict=True))
        verdicts = [by_token.pop(token, "lost") for token in groups.tokens]
    by_word = {word: _read_verdict(word, lease_until) for word in set(verdicts)}  # few words, and many claims
    id_of = groups.ids.get
    return [
        construct(Outcome, (token, verdict, id_of(token), delay, renewed, None))
        for token, (verdict, delay, renewed) in zip(
            groups.tokens, map(by_word.__getitem__, verdicts), strict=True
        )
    ]


def _read_verdict(text: str, lease_until: float | None) -> tuple[Verdict, float | None, float | None]:
    """A verdict, its delay in seconds if it has one, and the end of a renewed lease."""
    word, _, delay = text.partition(":")
    verdict = _VERDICTS[word]
    return verdict, int(delay) / 1000 if delay else None, lease_until if verdict is Verdict.RENEWED else None
