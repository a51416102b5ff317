"""What becomes of a dead app's claims while the server does not answer, in a time of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from claimq.errors import StoreUnavailable
from claimq.queue.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import Ending, VerdictRequest
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.notify import Notifier
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_sidecar.store import VERDICT_SECONDS, Store
from testkit.skipping_loop import run_skipping

T = TypeVar("T")


class Away(Store):
    """A server that does not answer."""

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]], *, verdict: bool = False) -> T:
        del what, verdict
        await asyncio.sleep(VERDICT_SECONDS)
        raise StoreUnavailable("away")


def test_claims_of_a_dead_app_are_not_renewed_while_its_last_verdict_is_retried() -> None:
    hands, metrics = InFlight(), Metrics()
    for token in ("worker/1", "worker/2"):
        hands.hold(token, "session", 0.0, 30.0)

    async def run() -> None:
        store = Away(RedisSource(url="redis://nowhere"), "queue", "worker", metrics)
        verdicts = Verdicts(store, hands, metrics, Notifier())
        request = VerdictRequest(("worker/1",), (Ending(("worker/1",)),))
        asking = asyncio.ensure_future(verdicts.answer("done", request))
        await asyncio.sleep(1)
        with pytest.raises(StoreUnavailable):
            await verdicts.give_back(["worker/1", "worker/2"], cause="crashed", crash="gone")
        await asyncio.gather(asking, return_exceptions=True)
        assert hands.to_renew(0.0) == []
        assert not hands
        assert verdicts.returning == 0
        await store.close()

    run_skipping(run())
