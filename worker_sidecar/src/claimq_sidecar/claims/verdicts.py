"""Verdicts of the app: tried through outages, each with one effect, answered truthfully."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

from claimq.errors import NotReplicated, StoreUnavailable
from claimq.model import Outcome, Verdict
from claimq.queue.claiming import Done
from claimq.queue.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import Ending, VerdictRequest
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.notify import Notifier
from claimq_sidecar.claims.recent_verdicts import RecentVerdicts
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.store import Store

ANSWER_SECONDS = 15.0
"""After so long the app is told that a verdict is still being tried; it asks again and joins that attempt."""

Work = Callable[[ReliableQueue], Awaitable[list[Outcome]]]


class Verdicts:
    """Ends claims and renews them. One attempt per claim at a time: a second request for it waits for the first."""

    def __init__(self, store: Store, in_flight: InFlight, metrics: Metrics, changed: Notifier) -> None:
        self._store = store
        self._in_flight = in_flight
        self._metrics = metrics
        self._changed = changed
        self._settled = RecentVerdicts()
        self._trying: dict[str, asyncio.Task[list[Outcome]]] = {}
        self.returning = 0
        """Claims that the app will not settle and that are not known to be back yet."""

    async def answer(self, verb: str, request: VerdictRequest) -> list[tuple[Outcome, str | None]]:
        """The outcomes in the order of the request. Raises what the library raises.

        Beside a lost claim: the verdict with which the same verb ended it before, None if it did not.
        """
        await self.ended(request.tokens)
        outcomes: dict[str, tuple[Outcome, str | None]] = {}
        all_at_once = verb == "done"
        for endings in [request.endings] if all_at_once else [(ending,) for ending in request.endings]:
            if tokens := [token for ending in endings for token in ending.tokens]:
                said = await self._in_time(self._attempt(verb, tokens, self._work(verb, tokens, endings)))
                known = self._repeated(verb, said)
                outcomes |= {outcome.token: (outcome, known.get(outcome.token)) for outcome in said}
        return [outcomes[token] for token in request.tokens]

    def _repeated(self, verb: str, outcomes: Iterable[Outcome]) -> dict[str, str]:
        """The claims that are lost since the same verb ended them before, each with its verdict.

        The store is asked first: after a failover a claim that was settled may be held again, and is settled again.
        """
        lost = [outcome.token for outcome in outcomes if outcome.verdict is Verdict.LOST]
        return self._settled.repeated(verb, lost)

    @staticmethod
    def _work(verb: str, tokens: list[str], endings: Sequence[Ending]) -> Work:
        ending = endings[0]
        if verb == "fail":
            return lambda queue: queue.fail(
                tokens, ending.error, permanent=ending.permanent, detail=ending.detail
            )
        if verb == "requeue":
            return lambda queue: queue.requeue(tokens, delay=ending.delay)
        if verb == "unclaim":
            return lambda queue: queue.unclaim(tokens)
        if not any(one.enqueue for one in endings):
            return lambda queue: queue.done(tokens)
        pairs = [Done(token, one.enqueue) for one in endings for token in one.tokens]
        return lambda queue: queue.done(pairs)

    async def give_back(
        self, tokens: Sequence[str], *, cause: str, crash: str | None = None, why: str = ""
    ) -> None:
        """Gives back what the app will not settle: a crash with its error, or an interruption, uncounted and in order,
        with what interrupted the work if that had begun.

        Verdicts under way come first. What cannot be given back is left to its lease, and renewed no more.
        """
        try:
            await self.ended(tokens)
        except StoreUnavailable:
            # Nobody else would let go of them: they would be renewed for ever, and keep their places.
            self._in_flight.let_go([token for token in tokens if token in self._trying])
            await self._give_back_rest(tokens, cause=cause, crash=crash, why=why)
            raise
        await self._give_back_rest(tokens, cause=cause, crash=crash, why=why)

    async def _give_back_rest(
        self, tokens: Sequence[str], *, cause: str, crash: str | None, why: str
    ) -> None:
        """Gives back those that are in hand; no verdict on any of them is under way."""
        rest = [token for token in tokens if token in self._in_flight]
        if not rest:
            return
        self._in_flight.let_go(rest)
        work: Work = (
            (lambda queue: queue.unclaim(rest, why=why))
            if crash is None
            else (lambda queue: queue.crash(rest, crash))
        )
        self._metrics.given_back.labels(cause).inc(len(rest))
        self.returning += len(rest)
        try:
            await self._attempt("unclaim" if crash is None else "crash", rest, work, remember=False)
        finally:
            self.returning -= len(rest)

    def _attempt(
        self, verb: str, tokens: list[str], work: Work, *, remember: bool = True
    ) -> asyncio.Task[list[Outcome]]:
        """Starts it; it goes on when nobody waits for it any more."""
        task = asyncio.ensure_future(self._settle(verb, tokens, work, remember=remember))
        for token in tokens:
            self._trying[token] = task
        task.add_done_callback(lambda _: self._tried(tokens))
        return task

    def _tried(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            self._trying.pop(token, None)
        self._changed.fire()

    async def _settle(self, verb: str, tokens: list[str], work: Work, *, remember: bool) -> list[Outcome]:
        missing: NotReplicated | None = None
        try:
            outcomes = await self._store.call(work, verdict=True)
        except NotReplicated as error:
            missing, outcomes = error, cast("list[Outcome]", error.result)
        self._in_flight.let_go(tokens)
        known = self._repeated(verb, outcomes) if remember else {}
        for outcome in outcomes:
            label = "already_done" if outcome.token in known else outcome.verdict.value
            self._metrics.verdicts.labels(label).inc()
            if remember and outcome.verdict is not Verdict.LOST:
                self._settled.note(outcome.token, verb, outcome.verdict.value)
        if missing is not None:  # the claims have ended; the app asks again, and is told so
            raise missing
        return outcomes

    async def _in_time(self, task: asyncio.Task[list[Outcome]]) -> list[Outcome]:
        done, _ = await asyncio.wait({task}, timeout=ANSWER_SECONDS)
        if not done:
            task.add_done_callback(_forget)
            raise StoreUnavailable(
                "the store does not answer; the verdict is still being tried, repeat it to learn its outcome"
            )
        return task.result()

    async def ended(self, tokens: Iterable[str] | None = None, *, within: float | None = None) -> None:
        """Waits until no attempt on these claims (None: on any) is under way."""
        wanted = self._trying if tokens is None else tokens
        under_way = {task for token in wanted if (task := self._trying.get(token)) is not None}
        if under_way:
            await asyncio.wait(under_way, timeout=ANSWER_SECONDS if within is None else within)
        if tokens is not None and any(token in self._trying for token in tokens):
            raise StoreUnavailable(
                "another verdict on the same claim is still being tried; repeat this one later"
            )

    async def renew(self, tokens: Sequence[str]) -> list[Outcome]:
        """Renews leases now; who is lost is not in hand any more."""
        asked = asyncio.get_running_loop().time()
        outcomes = await self._store.call(lambda queue: queue.renew(tokens))
        self._in_flight.lost([outcome.token for outcome in outcomes if outcome.verdict is Verdict.LOST])
        renewed = [outcome for outcome in outcomes if outcome.verdict is Verdict.RENEWED]
        if renewed:
            lease = self._store.lease(renewed[0].lease_until, asked)
            self._in_flight.renewed([outcome.token for outcome in renewed], asked, lease)
        for verdict, count in ((Verdict.RENEWED, len(renewed)), (Verdict.LOST, len(outcomes) - len(renewed))):
            self._metrics.verdicts.labels(verdict.value).inc(count)
        self._changed.fire()
        return outcomes


def _forget(task: asyncio.Task[list[Outcome]]) -> None:
    """Nobody waits any more: an error has been noted by the store, and the lease decides."""
    if not task.cancelled():
        task.exception()
