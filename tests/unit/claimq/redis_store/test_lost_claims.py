"""Recovery of claims whose reply was lost: recoveries begin and end, and leave nothing behind."""

import asyncio
from typing import Any

import pytest

from claimq import RedisSettings, StoreUnavailable
from claimq.redis_store import lost_claims
from claimq.redis_store.connection import Connection
from claimq.redis_store.lost_claims import LostClaim, LostClaims


class Silent(Connection):
    """A connection whose server answers no call."""

    def __init__(self) -> None:
        super().__init__(RedisSettings())
        self.asked = 0

    async def run(self, *_: object, **__: object) -> Any:
        self.asked += 1
        await asyncio.Event().wait()


def lost(connection: Connection) -> LostClaim:
    return LostClaim(connection.lanes.take(), "cq:{q}:main", "w", "AAAAAAAA")


def test_a_recovery_that_is_cancelled_before_it_began_leaves_nothing_behind() -> None:
    defects: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, defect: defects.append(defect))
        connection = Silent()
        claims = LostClaims(connection)
        for begun in (True, False):
            claims.recover(lost(connection), in_outage=True)
            if begun:
                await asyncio.sleep(0)
            await claims.close()
            await claims.recovered("cq:{q}:main")
        assert connection.asked == 1

    asyncio.run(run())
    assert defects == []


@pytest.mark.parametrize(
    ("in_outage", "limit"), [(True, lost_claims.LIMIT_UNAVAILABLE), (False, lost_claims.LIMIT_CANCELLED)]
)
async def test_recoveries_of_a_queue_run_one_after_another_and_are_bounded(
    in_outage: bool, limit: int
) -> None:
    connection = Silent()
    claims = LostClaims(connection)
    for _ in range(limit + 5):
        claims.recover(lost(connection), in_outage=in_outage)
    for _ in range(5):
        await asyncio.sleep(0)
    assert connection.asked == 1
    assert len({connection.lanes.take()[1] for _ in range(5)}) == 5, (
        "the lanes beyond the limit are free again"
    )
    assert connection.lanes.take()[1] == limit + 5, "all others are held"
    await claims.close()


async def test_after_closing_a_claim_lost_in_an_outage_is_left_to_its_lease() -> None:
    connection = Silent()
    await connection.close()
    claims = LostClaims(connection)
    claims.recover(lost(connection), in_outage=True)
    await claims.recovered("cq:{q}:main")
    assert connection.asked == 0


async def test_a_recovery_that_fails_frees_its_lane() -> None:
    class Away(Silent):
        async def run(self, *_: object, **__: object) -> Any:
            raise StoreUnavailable("away")

    connection = Away()
    claims = LostClaims(connection)
    claims.recover(lost(connection), in_outage=True)
    await claims.recovered("cq:{q}:main")
    assert connection.lanes.take()[1] == 0
