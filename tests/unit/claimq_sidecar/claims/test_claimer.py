"""How long a claim with an unknown outcome keeps its slot, in simulated time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast

import pytest

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.slots import Slots
from claimq.errors import StoreUnavailable
from claimq.model import Claim, Item, Outcome, Verdict
from claimq.queue.claiming import Claimed
from claimq.redis_store.connection import Connection
from claimq.redis_store.lost_claims import LostClaims
from claimq.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import ClaimRequest
from claimq_sidecar.claims.claimer import Claimer
from claimq_sidecar.claims.give_backs import GiveBacks
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_sidecar.memory import Share
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_sidecar.store import VERDICT_SECONDS, Store
from testkit.skipping_loop import run_skipping

T = TypeVar("T")


class Silence(Connection):
    """A connection to a server that does not respond."""

    async def run(self, *words: object, **options: object) -> object:
        del words, options
        raise StoreUnavailable("away")


class Away(ReliableQueue):
    """A queue whose server does not respond to claims, and settles them when `known` is set."""

    def __init__(self) -> None:
        connection = Silence()
        connection.lost_claims = cast("LostClaims", self)
        super().__init__(connection, "queue", "worker")
        self.known = asyncio.Event()

    def recover(self, lost: object, *, in_outage: bool) -> None:
        del lost, in_outage

    async def recovered(self, main_key: str) -> None:
        del main_key
        await self.known.wait()


class Moved(Store):
    """A store whose first connection never responds again. `responds`: whether later ones do."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        self.queue = self.first = Away()
        self.responds = False

    def has_replaced(self, generation: int) -> bool:
        return self.responds


def claimer_of(store: Store, metrics: Metrics, concurrency: Slots) -> Claimer:
    in_flight = ClaimsInFlight(concurrency)
    return Claimer(store, GiveBacks(Verdicts(store, in_flight, metrics), in_flight, metrics), concurrency)


async def _claim_in_vain(claimer: Claimer) -> None:
    with pytest.raises(StoreUnavailable):
        await claimer.claim(ClaimRequest(most=3, wait=0.0), Share())


def test_a_slot_is_in_use_until_the_outcome_of_the_claim_is_known() -> None:
    async def run() -> None:
        store = Moved(metrics := Metrics())
        claimer = claimer_of(store, metrics, concurrency := Slots(3))
        await _claim_in_vain(claimer)
        waiting = concurrency.request(3)
        assert waiting.slots == 2  # no size is known yet, so the claim was for a single item
        concurrency.finish(waiting)
        await asyncio.sleep(3600.0)
        assert (concurrency.in_use, claimer.has_unknown_claims) == (1, True)
        store.first.known.set()
        await claimer.settled(1.0)
        await asyncio.sleep(0)
        assert (concurrency.in_use, claimer.has_unknown_claims) == (0, False)
        await store.close()

    run_skipping(run())


def test_a_slot_is_free_after_a_new_connection_has_worked_for_a_while() -> None:
    async def run() -> None:
        store = Moved(metrics := Metrics())
        claimer = claimer_of(store, metrics, concurrency := Slots(3))
        await _claim_in_vain(claimer)
        store.responds = True
        await claimer.settled(10.0)
        await asyncio.sleep(0)
        assert (concurrency.in_use, claimer.has_unknown_claims) == (0, False)
        await store.close()

    run_skipping(run())


class Silent(Store):
    """A store that checks its server without a network."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        self.is_away = True

    async def check(self) -> None:
        async def answer(queue: ReliableQueue) -> None:
            del queue
            if self.is_away:
                raise StoreUnavailable("away")

        with suppress(StoreUnavailable):
            await self.call(answer)


def test_a_connection_is_replaced_for_good_when_a_newer_one_has_worked_for_a_while() -> None:
    async def run() -> None:
        store = Silent(Metrics())
        watching = asyncio.ensure_future(store.watch())
        await asyncio.sleep(60.0)
        assert store.generation > 0
        assert not store.has_replaced(0)
        store.is_away = False
        await asyncio.sleep(4.0)
        assert not store.has_replaced(0)
        await asyncio.sleep(6.0)
        assert store.has_replaced(0)
        assert not store.has_replaced(store.generation)
        watching.cancel()
        await store.close()

    run_skipping(run())


class Answering(Store):
    """A store whose queue is empty at first; the next claim gets one item, and ``unclaim`` takes it back."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics)
        self.replies: list[list[Claim]] = [[], claims_of(b"x")]
        self.last_reply = asyncio.Event()
        self.unclaimed: list[str] = []

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        if not self.replies:
            return await what(cast("ReliableQueue", self))
        reply = self.replies.pop(0)
        if not self.replies:
            await asyncio.sleep(5.0)
            self.last_reply.set()
        return cast("T", Claimed(reply))

    async def unclaim(self, tokens: list[str], **_: object) -> list[Outcome]:
        self.unclaimed += tokens
        return [Outcome(token, Verdict.UNCLAIMED) for token in tokens]


def claims_of(payload: bytes) -> list[Claim]:
    item = Item("id", payload, enqueued_at=0.0, first_enqueued_at=0.0)
    return [Claim("worker/1", item, "worker", claimed_at=0.0, lease_until=30.0)]


def test_a_claim_whose_caller_is_cancelled_as_it_ends_goes_back() -> None:
    async def run() -> None:
        store = Answering(metrics := Metrics())
        claimer = claimer_of(store, metrics, concurrency := Slots(1))
        claiming = asyncio.ensure_future(claimer.claim(ClaimRequest(wait=5.0), Share(), asyncio.Event()))
        await store.last_reply.wait()
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        await asyncio.sleep(1.0)
        assert (store.unclaimed, concurrency.in_use) == (["worker/1"], 0)
        await store.close()

    run_skipping(run())


class Payload(bytes):
    """A payload that reports when its memory is free."""

    freed = 0

    def __del__(self) -> None:
        Payload.freed += 1


class Stuck(Store):
    """A store without answers."""

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        await asyncio.sleep(VERDICT_SECONDS)
        raise StoreUnavailable(f"away, for {what}")


def test_claims_on_their_way_back_keep_no_payloads() -> None:
    async def run() -> None:
        store = Stuck(
            RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", metrics := Metrics()
        )
        claimer = claimer_of(store, metrics, concurrency := Slots(3))
        claimer.give_back(claims_of(Payload(b"x")), cause="stopped")
        await asyncio.sleep(1.0)
        assert (concurrency.in_use, Payload.freed) == (1, 1)
        await asyncio.sleep(2 * VERDICT_SECONDS)
        assert concurrency.in_use == 0
        await store.close()

    run_skipping(run())
