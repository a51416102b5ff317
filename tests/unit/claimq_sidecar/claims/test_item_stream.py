"""How many items the next line of a stream may have."""

import asyncio

import pytest

from claimq.model import Claim
from claimq_sidecar.claims.calls import ClaimRequest
from claimq_sidecar.claims.concurrency import Concurrency
from claimq_sidecar.claims.item_stream import ItemStream
from claimq_sidecar.memory import Share


@pytest.mark.parametrize(("window", "most"), [(10, 10), (250, 250), (1000, 250)])
async def test_a_large_window_has_room_for_several_lines(window: int, most: int) -> None:
    asked: list[int] = []

    async def claim(request: ClaimRequest, share: Share, resized: asyncio.Event) -> list[Claim]:
        del share, resized
        asked.append(request.most)
        return []

    await ItemStream("s", Concurrency(window), claim).next(Share())
    assert asked == [most]
