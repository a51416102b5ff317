"""A verdict that closes something takes back what the app has not begun."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import pytest

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.endings import Ending
from claimq.consuming.engine.slots import Slots
from claimq.handler_verdicts import Closing
from claimq.model import Outcome, Verdict
from claimq.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import VerdictRequest
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_sidecar.store import Store

T = TypeVar("T")


class Delaying(Store):
    """A server that delays each item."""

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        del what
        return cast("T", [Outcome("worker/1", Verdict.DELAYED)])


@pytest.mark.parametrize(("close", "times"), [(None, 0), (Closing.QUEUE, 1)])
def test_what_is_not_begun_goes_back_after_a_verdict_that_closes(close: Closing | None, times: int) -> None:
    taken_back: list[str] = []

    async def run() -> None:
        metrics = Metrics()
        store = Delaying(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        verdicts = Verdicts(store, ClaimsInFlight(Slots(2)), metrics, lambda: taken_back.append("all"))
        ending: Ending[str] = Ending(("worker/1",), delay=60.0, close=close)
        await verdicts.answer("later", VerdictRequest(("worker/1",), (ending,)))
        await store.close()

    asyncio.run(run())
    assert len(taken_back) == times
