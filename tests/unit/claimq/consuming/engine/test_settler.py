"""When verdicts are repeated and claims go back, in simulated time."""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from claimq.concurrency.background_work import spawn
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.settler import Settler
from claimq.consuming.engine.slots import Slots
from claimq.errors import ClaimqError, NotReplicated, StoreMisused, StoreUnavailable
from testkit.skipping_loop import run_skipping

AWAY, MISUSED = StoreUnavailable("away"), StoreMisused("no right")


class Server:
    """Replies to each call with the next of ``replies``, after ``seconds``."""

    def __init__(self, *replies: str | Exception, seconds: float = 0.0) -> None:
        self.replies = list(replies)
        self.seconds = seconds
        self.calls: list[list[str]] = []

    async def end(self, tokens: Sequence[str] = ()) -> str:
        self.calls.append(list(tokens))
        await asyncio.sleep(self.seconds)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def return_claims(self, tokens: list[str]) -> None:
        await self.end(tokens)


def settler_of(slots: Slots, *tokens: str, end_timeout: float = 10.0) -> tuple[Settler, ClaimsInFlight]:
    in_flight = ClaimsInFlight(slots)
    for token in tokens:
        in_flight.adopt(token, "session", 0.0, 30.0)
    return Settler(in_flight, partial(spawn, name="test"), end_timeout=end_timeout), in_flight


def test_a_verdict_is_repeated_until_the_server_answers() -> None:
    async def run() -> None:
        server = Server(AWAY, AWAY, "done")
        settler, _ = settler_of(Slots(None))
        assert await settler.until_answered(server.end) == "done"
        assert (asyncio.get_running_loop().time(), len(server.calls)) == (2.0, 3)

    run_skipping(run())


def test_a_refused_verdict_is_repeated_only_where_that_is_asked_for() -> None:
    async def run() -> None:
        server = Server(MISUSED, MISUSED, "done")
        settler, _ = settler_of(Slots(None))
        with pytest.raises(StoreMisused):
            await settler.until_answered(server.end)
        assert await settler.until_answered(server.end, repeated=ClaimqError) == "done"

    run_skipping(run())


def test_an_unconfirmed_verdict_is_stored_and_not_repeated() -> None:
    async def run() -> None:
        server = Server(NotReplicated("no replica", "done"))
        settler, _ = settler_of(Slots(None))
        assert await settler.until_answered(server.end) == "done"

    run_skipping(run())


def test_an_end_in_an_outage_ends_the_repetition() -> None:
    async def run() -> None:
        server = Server(AWAY, AWAY)
        settler, _ = settler_of(Slots(None))
        asyncio.get_running_loop().call_later(0.5, settler.end)
        with pytest.raises(StoreUnavailable, match="away"):
            await settler.until_answered(server.end)
        assert (asyncio.get_running_loop().time(), len(server.calls)) == (0.5, 2)

    run_skipping(run())


def test_calls_after_the_end_share_a_deadline_that_an_answer_starts_again() -> None:
    async def run() -> None:
        settler, _ = settler_of(Slots(None), end_timeout=10.0)
        settler.end()
        await settler.until_answered(Server("done", seconds=9.0).end)
        loop = asyncio.get_running_loop()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="the run has ended"):
                await settler.until_answered(Server("done", seconds=60.0).end)
            assert loop.time() == 19.0

    run_skipping(run())


def test_a_claim_goes_back_after_its_verdict_and_has_its_slot_until_then() -> None:
    async def run() -> None:
        server, slots = Server("back", seconds=5.0), Slots(3)
        settler, in_flight = settler_of(slots, "worker/1", "worker/2")
        settler.begin(["worker/1"])
        settler.give_back(["worker/1", "worker/2"], server.return_claims)
        await asyncio.sleep(3.0)
        assert (server.calls, slots.in_use) == ([], 2)
        in_flight.remove(["worker/1"])
        settler.finish(["worker/1"])
        await asyncio.sleep(3.0)
        assert (server.calls, in_flight.all(), slots.in_use) == ([["worker/2"]], [], 1)
        await settler.given_back()
        assert (asyncio.get_running_loop().time(), slots.in_use) == (8.0, 0)

    run_skipping(run())


def test_a_claim_whose_verdict_is_stuck_is_left_to_its_lease() -> None:
    async def run() -> None:
        server, slots = Server("back"), Slots(2)
        settler, in_flight = settler_of(slots, "worker/1", "worker/2")
        settler.begin(["worker/1"])
        settler.give_back(["worker/1", "worker/2"], server.return_claims, within=15.0)
        await settler.given_back()
        assert (server.calls, in_flight.all(), slots.in_use) == ([["worker/2"]], [], 0)
        assert asyncio.get_running_loop().time() == 15.0

    run_skipping(run())


def test_a_wait_for_verdicts_ignores_those_that_begin_later() -> None:
    async def run() -> None:
        settler, _ = settler_of(Slots(None))
        settler.begin(["worker/1"])
        waiting = asyncio.ensure_future(settler.settled(settler.in_progress))
        await asyncio.sleep(1.0)
        settler.begin(["worker/2"])
        settler.finish(["worker/1"])
        assert await waiting
        assert not await settler.settled(["worker/2"], 1.0)

    run_skipping(run())
