"""Lines of streams that other lines leave no memory for, in simulated time."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

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

    async def change(self, *_: object) -> list[Claim]:
        item = Item("id", b"payload", enqueued_at=0.0, first_enqueued_at=0.0)
        return [Claim("worker/1", item, "worker", claimed_at=0.0, lease_until=30.0)]

    def give_back_unread(self, tokens: Sequence[str]) -> None:
        self.given_back += tokens


def test_a_stream_whose_client_is_gone_does_not_wait_for_memory() -> None:
    async def run() -> None:
        connection, sidecar, unread = Connection(), Claiming(), Budget(1000)
        assert await unread.take(1000, 0.0)
        exchange = cast("Any", type("Exchange", (), {"connection": connection}))
        changes = Changes(cast("Sidecar", sidecar), cast("Any", None), exchange, "auto", unread)
        assert await changes.next(1.0) is None
        assert sidecar.given_back == ["worker/1"]
        connection.gone.set()
        await changes.end()
        assert asyncio.get_running_loop().time() == 1.0

    run_skipping(run())
