"""How long a place is kept for a claim of which nobody knows whether it ran, in a time of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from claimq.errors import StoreUnavailable
from claimq.model import Claim
from claimq.queue.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import ClaimRequest
from claimq_sidecar.claims.claimer import Claimer
from claimq_sidecar.claims.notify import Notifier
from claimq_sidecar.memory import Share
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_sidecar.store import Store
from testkit.skipping_loop import run_skipping

T = TypeVar("T")


class Away(ReliableQueue):
    """A queue whose server answers no claim, and tells never, or at last, what became of it."""

    def __init__(self) -> None:
        self.known = asyncio.Event()

    async def claim(self, count: int = 1, *, wait: object = None) -> list[Claim]:
        del count, wait
        raise StoreUnavailable("away")

    async def withdrawn(self) -> None:
        await self.known.wait()


class Moved(Store):
    """A store whose server is away, or has moved: the first connections never answer again, others do."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(RedisSource(url="redis://nowhere"), "queue", "worker", metrics)
        self.first = Away()
        self.answers = False

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]], *, verdict: bool = False) -> T:
        del verdict
        return await what(self.first)

    def has_given_up(self, generation: int) -> bool:
        return self.answers


async def _claim_in_vain(claimer: Claimer) -> None:
    with pytest.raises(StoreUnavailable):
        await claimer.claim(ClaimRequest(most=3, wait=0.0), Share())


def test_a_place_is_kept_as_long_as_nothing_is_known() -> None:
    async def run() -> None:
        store = Moved(metrics := Metrics())
        claimer = Claimer(store, metrics, changed := Notifier())
        await _claim_in_vain(claimer)
        assert not await changed.wait(3600.0)
        assert claimer.doubtful == 1  # no size is known yet: it asked for a single item
        store.first.known.set()
        assert await changed.wait(1.0)
        assert claimer.doubtful == 0
        await store.close()

    run_skipping(run())


def test_a_place_is_freed_when_other_connections_work_and_the_outcome_stays_unknown() -> None:
    async def run() -> None:
        store = Moved(metrics := Metrics())
        claimer = Claimer(store, metrics, changed := Notifier())
        await _claim_in_vain(claimer)
        store.answers = True
        assert await changed.wait(10.0)
        assert claimer.doubtful == 0
        await store.close()

    run_skipping(run())


class Silent(Store):
    """A store that looks without a network."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(RedisSource(url="redis://nowhere"), "queue", "worker", metrics)
        self.is_away = True

    async def look(self) -> None:
        async def answer(queue: ReliableQueue) -> None:
            del queue
            if self.is_away:
                raise StoreUnavailable("away")

        with suppress(StoreUnavailable):
            await self.call(answer)


def test_connections_are_given_up_when_later_ones_have_answered_for_a_while() -> None:
    async def run() -> None:
        store = Silent(Metrics())
        watching = asyncio.ensure_future(store.watch())
        await asyncio.sleep(60.0)
        assert store.generation > 0
        assert not store.has_given_up(0)
        store.is_away = False
        await asyncio.sleep(4.0)
        assert not store.has_given_up(0)
        await asyncio.sleep(6.0)
        assert store.has_given_up(0)
        assert not store.has_given_up(store.generation)
        watching.cancel()
        await store.close()

    run_skipping(run())
