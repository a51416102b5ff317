"""Verdicts on claims: retries through outages, applies each verdict once, and recognizes repeated requests."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from claimq.concurrency.background_work import spawn
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.renewer import Renewer
from claimq.consuming.engine.settler import Settler
from claimq.consuming.engine.verdict_calls import Work, call_of
from claimq.errors import NotReplicated, StoreUnavailable
from claimq.model import Outcome, Verdict
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.calls import VerdictRequest
from claimq_sidecar.claims.recent_verdicts import RecentVerdicts
from claimq_sidecar.memory import Share
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.store import Store

ANSWER_SECONDS = 15.0
"""The app gets an error after so long, while the verdict is still retried. A repeated request joins that attempt."""

_log = logging.getLogger("claimq_sidecar.renewer")


class Verdicts:
    """Ends claims and renews them. Each claim has one attempt at a time: a second request for it waits."""

    def __init__(
        self,
        store: Store,
        in_flight: ClaimsInFlight,
        metrics: Metrics,
        take_back: Callable[[], None] = lambda: None,
    ) -> None:
        """``take_back`` is called after a verdict that closes something."""
        self._store = store
        self._in_flight = in_flight
        self._metrics = metrics
        self._take_back = take_back
        self.settler = Settler(in_flight, partial(spawn, name="give back claims"))
        self.renewer = Renewer(in_flight, self._renew, lease=store.lease, lost=self._note_lost)
        self._recent = RecentVerdicts()

    async def answer(
        self, verb: str, request: VerdictRequest, share: Share | None = None, work: Work | None = None
    ) -> list[Outcome]:
        """Applies verdicts; returns the outcomes in the order of the request. Raises what the library raises.

        ``share``: the memory of the request; an attempt that continues after the request keeps it reserved. ``work``:
        the call to make instead of the library's ``done``.
        """
        self._in_flight.taken.answered(request.tokens)
        answers: dict[str, Outcome] = {}
        all_at_once = verb == "done"
        for endings in [request.endings] if all_at_once else [(ending,) for ending in request.endings]:
            if tokens := [token for ending in endings for token in ending.claims]:
                await self.wait_for_attempts(tokens)
                call = work or call_of(verb, *endings)
                answers |= await self._in_time(self.attempt(verb, tokens, call), share)
                if any(ending.close for ending in endings):
                    self._take_back()
        return [answers[token] for token in request.tokens]

    async def answer_all(self, requests: Mapping[str, VerdictRequest], share: Share) -> list[Outcome]:
        """Applies verdicts of several kinds, by verb; returns the outcomes verb by verb.

        If a call fails, this raises after all have ended: those that have succeeded are recognized when the request is
        repeated.
        """
        calls = [self.answer(verb, request, share) for verb, request in requests.items()]
        replies = await asyncio.gather(*calls, return_exceptions=True)
        answers: list[Outcome] = []
        while replies:
            reply = replies.pop(0)
            if isinstance(reply, BaseException):
                try:
                    raise reply
                finally:
                    del reply  # see _in_time
            answers += reply
        return answers

    def attempt(
        self, verb: str, tokens: list[str], work: Work, *, remember: bool = True
    ) -> asyncio.Task[dict[str, Outcome]]:
        """Starts an attempt, whose result are the outcomes by token. It continues when its caller is cancelled or has
        stopped waiting."""
        task = asyncio.ensure_future(self._apply(verb, tokens, work, remember=remember))
        self.settler.begin(tokens)
        task.add_done_callback(partial(self._end_attempt, tokens))
        return task

    def _end_attempt(self, tokens: Sequence[str], task: asyncio.Task[dict[str, Outcome]]) -> None:
        self.settler.finish(tokens)
        if not task.cancelled():
            task.exception()  # retrieved, since its caller may be gone; the store has logged it

    async def _apply(self, verb: str, tokens: list[str], work: Work, *, remember: bool) -> dict[str, Outcome]:
        not_replicated: NotReplicated | None = None
        try:
            outcomes = await self._store.call(work)
        except NotReplicated as error:
            not_replicated, outcomes = error, cast("list[Outcome]", error.result)
        self._in_flight.remove(tokens)
        no_end = Verdict.LOST  # looked up once: there are many outcomes
        ended = {token: verdict for token, verdict, _, _, _, _ in outcomes if verdict is not no_end}
        earlier: dict[str, Verdict] = {}
        if remember:
            # The server was asked first: a failover can restore a claim that was ended, and then the verdict applies.
            lost = [token for token in tokens if token not in ended]
            earlier = self._recent.repeated(verb, lost)
            self._metrics.observe_processing(self._store.clock.seconds_since_claims(ended))
            self._recent.note(verb, ended)
        counted: Counter[str] = Counter(ended.values())
        counted[Verdict.ALREADY_DONE] = len(earlier)
        counted[Verdict.LOST] = len(outcomes) - len(ended) - len(earlier)
        for verdict, count in (+counted).items():
            self._metrics.count_verdict(verdict, count)
        if not_replicated is not None:  # the claims have ended; a repeated request gets the outcomes
            try:
                raise not_replicated
            finally:
                del not_replicated  # see _in_time
        answers = {outcome.token: outcome for outcome in outcomes}
        for token, verdict in earlier.items():
            answers[token] = Outcome(token, Verdict.ALREADY_DONE, earlier=verdict)
        return answers

    async def _in_time(
        self, task: asyncio.Task[dict[str, Outcome]], share: Share | None
    ) -> dict[str, Outcome]:
        done, _ = await asyncio.wait({task}, timeout=ANSWER_SECONDS)
        if not done:
            if share is not None:
                share.keep_for(task)
            raise StoreUnavailable(
                "the server does not respond; the verdict is still being retried, repeat the request to get its outcome"
            )
        try:
            return task.result()
        finally:
            # The traceback of an error has this frame. If the frame had the task, which has the error, the request (up
            # to 16 MiB of items) would stay in memory until a garbage collection.
            del task, done

    def has_attempt(self, token: str) -> bool:
        """Whether a verdict on this claim is in progress."""
        return token in self.settler.in_progress

    async def wait_for_attempts(self, tokens: Sequence[str]) -> None:
        """Waits until none of these claims has an attempt in progress. Raises StoreUnavailable after 15 s."""
        if not await self.settler.settled(tokens, ANSWER_SECONDS):
            raise StoreUnavailable(
                "an earlier verdict on the same claim is still being retried; repeat this one later"
            )

    async def renew_for_app(self, tokens: Sequence[str]) -> list[Outcome]:
        """Renews leases for an app that reads the outcomes: it may forget what is lost. Raises what the library
        raises."""
        outcomes = await self.renewer.renew(tokens)
        self._in_flight.taken.answered(tokens)
        return outcomes

    async def _renew(self, tokens: Sequence[str]) -> list[Outcome]:
        outcomes = await self._store.call(lambda queue: queue.renew(tokens))
        for verdict, count in Counter(outcome.verdict for outcome in outcomes).items():
            self._metrics.count_verdict(verdict.value, count)
        return outcomes

    def _note_lost(self, tokens: list[str]) -> None:
        """Lost claims are not in flight any more, unless a verdict on them is in progress."""
        now = asyncio.get_running_loop().time()
        lost = self._in_flight.lost([token for token in tokens if not self.has_attempt(token)], now)
        if lost:
            _log.warning(LogEvent("claims_lost", claims=lost))
