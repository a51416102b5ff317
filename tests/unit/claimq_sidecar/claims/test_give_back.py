"""The claims of a dead app while the server does not respond, in simulated time."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.endings import Ending
from claimq.consuming.engine.slots import Slots
from claimq.errors import StoreUnavailable
from claimq.model import Outcome, Verdict
from claimq.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import VerdictRequest
from claimq_sidecar.claims.give_backs import GiveBacks
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_sidecar.store import VERDICT_SECONDS, Store
from testkit.skipping_loop import run_skipping

T = TypeVar("T")


class Away(Store):
    """A server that does not respond."""

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        del what
        await asyncio.sleep(VERDICT_SECONDS)
        raise StoreUnavailable("away")


def test_a_dead_apps_claims_are_not_renewed_while_its_verdict_is_retried() -> None:
    concurrency, metrics = Slots(2), Metrics()
    claims = ClaimsInFlight(concurrency)
    for token in ("worker/1", "worker/2"):
        claims.adopt(token, "session", 0.0, 30.0)

    async def run() -> None:
        store = Away(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        verdicts = Verdicts(store, claims, metrics)
        request = VerdictRequest(("worker/1",), (Ending(("worker/1",)),))
        asking = asyncio.ensure_future(verdicts.answer("done", request))
        await asyncio.sleep(1)
        give_backs = GiveBacks(verdicts, claims, metrics)
        await give_backs.begin(["worker/1", "worker/2"], cause="crashed", crash="gone")
        await asyncio.gather(asking, return_exceptions=True)
        assert claims.to_renew(0.0) == []
        assert not claims
        assert concurrency.in_use == 0
        await store.close()

    run_skipping(run())


def test_an_attempt_that_fails_after_its_caller_is_gone_is_no_defect() -> None:
    reported: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        concurrency, metrics = Slots(2), Metrics()
        store = Away(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        verdicts = Verdicts(store, ClaimsInFlight(concurrency), metrics)
        request = VerdictRequest(("worker/1",), (Ending(("worker/1",)),))
        asking = asyncio.ensure_future(verdicts.answer("done", request))
        await asyncio.sleep(1)
        asking.cancel()
        await asyncio.sleep(2 * VERDICT_SECONDS)
        assert not verdicts.has_attempt("worker/1")
        gc.collect()
        await store.close()

    run_skipping(run())
    assert reported == []


class Halting(Store):
    """A server that answers renewals: all claims are lost."""

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        return await what(cast("ReliableQueue", self))

    async def renew(self, tokens: Sequence[str]) -> list[Outcome]:
        return [Outcome(token, Verdict.LOST) for token in tokens]

    async def done(self, _: object) -> list[Outcome]:
        await asyncio.sleep(VERDICT_SECONDS)
        raise StoreUnavailable("away")


def test_a_lost_claim_has_its_slot_until_the_verdict_on_it_has_ended() -> None:
    concurrency, metrics = Slots(2), Metrics()
    claims = ClaimsInFlight(concurrency)
    tokens = ["worker/1", "worker/2"]
    for token in tokens:
        claims.adopt(token, "session", 0.0, 30.0)

    async def run() -> None:
        store = Halting(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        verdicts = Verdicts(store, claims, metrics)
        asking = asyncio.ensure_future(
            verdicts.answer("done", VerdictRequest(("worker/1",), (Ending(("worker/1",)),)))
        )
        await asyncio.sleep(1)
        await verdicts.renewer.renew(tokens)
        assert (claims.all(), concurrency.in_use) == (["worker/1"], 1)
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.sleep(VERDICT_SECONDS)
        await verdicts.renewer.renew(tokens)
        assert (claims.all(), concurrency.in_use) == ([], 0)
        await store.close()

    run_skipping(run())
