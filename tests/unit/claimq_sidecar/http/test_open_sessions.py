"""The lines of a stream that are claimed ahead, and lines that others leave no memory for, in simulated time."""

import asyncio
from collections.abc import Sequence
from typing import Any, Self, cast

import pytest

from claimq.model import Claim, Item
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.item_stream import MOST_IN_LINE
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.open_sessions import Changes
from claimq_sidecar.memory import Budget
from testkit.skipping_loop import run_skipping


def claims(count: int, line: int = 1) -> list[Claim]:
    item = Item("id", b"payload", enqueued_at=0.0, first_enqueued_at=0.0)
    return [
        Claim(f"worker/{line * 1000 + number}", item, "worker", claimed_at=0.0, lease_until=30.0)
        for number in range(count)
    ]


class Claiming:
    """What a stream asks of the sidecar: there is always one item."""

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.draining = asyncio.Event()
        self.leaving = asyncio.Event()

    async def change(self, *_: object, waits: bool) -> list[Claim]:
        del waits
        return claims(1)

    @property
    def give_backs(self) -> Self:
        return self

    def unread(self, tokens: Sequence[str]) -> None:
        self.given_back += tokens


class PendingClaims(Claiming):
    """Records whether each claim waits; the test sets the results."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[bool] = []
        self.results: list[asyncio.Future[list[Claim]]] = []

    async def change(self, *_: object, waits: bool) -> list[Claim]:
        self.waits.append(waits)
        self.results.append(asyncio.get_running_loop().create_future())
        return await self.results[-1]


def changes_of(sidecar: Claiming, connection: Connection, unread: Budget) -> Changes:
    exchange = cast("Any", type("Exchange", (), {"connection": connection}))
    return Changes(cast("Sidecar", sidecar), cast("Any", None), exchange, "auto", unread)


async def after_a_line(count: int) -> tuple[PendingClaims, Changes]:
    """A stream whose first line had so many items and has just been taken to be sent."""
    sidecar = PendingClaims()
    changes = changes_of(sidecar, Connection(), Budget(10**9))
    assert await changes.next(0.0) is None
    sidecar.results[0].set_result(claims(count))
    line = await changes.next(1.0)
    assert line is not None
    assert len(line.tokens) == count
    await asyncio.sleep(0)
    return sidecar, changes


@pytest.mark.parametrize(("count", "waits"), [(MOST_IN_LINE, [True, True, False]), (249, [True, True])])
def test_after_a_full_line_the_next_two_are_claimed(count: int, waits: list[bool]) -> None:
    async def run() -> None:
        sidecar, _ = await after_a_line(count)
        assert sidecar.waits == waits

    run_skipping(run())


def test_a_line_that_is_ready_does_not_wait_for_the_one_before_it() -> None:
    async def run() -> None:
        sidecar, changes = await after_a_line(MOST_IN_LINE)
        sidecar.results[2].set_result(claims(1, line=3))
        line = await changes.next(1.0)
        assert line is not None
        assert (line.tokens, asyncio.get_running_loop().time()) == (("worker/3000",), 0.0)
        sidecar.results[1].set_result(claims(1, line=2))
        line = await changes.next(1.0)
        assert line is not None
        assert line.tokens == ("worker/2000",)
        await asyncio.sleep(0)
        assert sidecar.waits == [True, True, False, True]

    run_skipping(run())


def test_all_lines_that_are_ready_are_taken_back() -> None:
    async def run() -> None:
        sidecar, changes = await after_a_line(MOST_IN_LINE)
        for line in (2, 3):
            sidecar.results[line - 1].set_result(claims(2, line))
        await asyncio.sleep(0.1)
        tokens = ("worker/2000", "worker/2001", "worker/3000", "worker/3001")
        assert changes.take_back_ready() == tokens
        assert (tuple(sidecar.given_back), changes.take_back_ready()) == (tokens, ())

    run_skipping(run())


def test_claims_that_are_in_progress_when_the_client_is_gone_go_back() -> None:
    async def run() -> None:
        sidecar = PendingClaims()
        connection = Connection()
        changes = changes_of(sidecar, connection, Budget(10**9))
        assert await changes.next(0.0) is None
        sidecar.results[0].set_result(claims(MOST_IN_LINE))
        assert await changes.next(1.0) is not None
        await asyncio.sleep(0)
        connection.gone.set()
        for line in (2, 3):
            asyncio.get_running_loop().call_later(line, sidecar.results[line - 1].set_result, claims(1, line))
        await changes.end()
        assert sidecar.given_back == ["worker/2000", "worker/3000"]
        assert asyncio.get_running_loop().time() == 3.0

    run_skipping(run())


def test_a_stream_that_the_sidecar_ends_waits_for_no_items() -> None:
    async def run() -> None:
        sidecar, changes = await after_a_line(MOST_IN_LINE)
        await changes.end()
        assert [result.cancelled() for result in sidecar.results] == [False, True, True]
        assert asyncio.get_running_loop().time() == 0.0

    run_skipping(run())


async def without_memory(sidecar: Claiming, connection: Connection) -> Changes:
    """The changes of a stream that has claimed an item for which there is no memory, a second ago."""
    unread = Budget(1000)
    assert await unread.take(1000, 0.0)
    changes = changes_of(sidecar, connection, unread)
    assert await changes.next(1.0) is None
    assert sidecar.given_back == ["worker/1000"]
    return changes


def test_a_stream_whose_client_is_gone_does_not_wait_for_memory() -> None:
    async def run() -> None:
        connection = Connection()
        changes = await without_memory(Claiming(), connection)
        connection.gone.set()
        await changes.end()
        assert asyncio.get_running_loop().time() == 1.0

    run_skipping(run())


@pytest.mark.parametrize("event", ["draining", "leaving"])
def test_a_wait_for_memory_delays_no_drain(event: str) -> None:
    async def run() -> None:
        sidecar = Claiming()
        changes = await without_memory(sidecar, Connection())
        getattr(sidecar, event).set()
        assert await changes.next(60.0) is None
        assert asyncio.get_running_loop().time() == 1.0

    run_skipping(run())
