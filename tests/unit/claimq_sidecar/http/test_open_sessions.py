"""Lines of streams that other lines leave no memory for, in simulated time."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from claimq.model import Claim, Item
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.open_sessions import Changes
from claimq_sidecar.memory import Budget
from testkit.skipping_loop import run_skipping


class Claiming:
    """What a stream asks of the sidecar: there is always one item."""

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.draining = asyncio.Event()
        self.leaving = asyncio.Event()

    async def change(self, *_: object) -> list[Claim]:
        item = Item("id", b"payload", enqueued_at=0.0, first_enqueued_at=0.0)
        return [Claim("worker/1", item, "worker", claimed_at=0.0, lease_until=30.0)]

    def give_back_unread(self, tokens: Sequence[str]) -> None:
        self.given_back += tokens


async def without_memory(sidecar: Claiming, connection: Connection) -> Changes:
    """The changes of a stream that has claimed an item for which there is no memory, a second ago."""
    unread = Budget(1000)
    assert await unread.take(1000, 0.0)
    exchange = cast("Any", type("Exchange", (), {"connection": connection}))
    changes = Changes(cast("Sidecar", sidecar), cast("Any", None), exchange, "auto", unread)
    assert await changes.next(1.0) is None
    assert sidecar.given_back == ["worker/1"]
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
