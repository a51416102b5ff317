"""What a stream claims for its next line."""

import asyncio

import pytest

from claimq.consuming.engine.slots import Slots
from claimq.model import Claim
from claimq_sidecar.claims.calls import ClaimRequest
from claimq_sidecar.claims.item_stream import ItemStream
from claimq_sidecar.memory import Share


@pytest.mark.parametrize(("window", "most"), [(10, 10), (250, 250), (1000, 250)])
async def test_a_large_window_has_room_for_several_lines(window: int, most: int) -> None:
    asked: list[int] = []

    async def claim(request: ClaimRequest, share: Share, resized: asyncio.Event) -> list[Claim]:
        del share, resized
        asked.append(request.most)
        return []

    await ItemStream("s", Slots(window), claim).next(Share(), waits=True)
    assert asked == [most]


@pytest.mark.parametrize(("waits", "wait"), [(True, 10.0), (False, 0.0)])
async def test_a_claim_waits_for_items_only_if_asked_to(waits: bool, wait: float) -> None:
    asked: list[float | None] = []

    async def claim(request: ClaimRequest, share: Share, resized: asyncio.Event) -> list[Claim]:
        del share, resized
        asked.append(request.wait)
        return []

    await ItemStream("s", Slots(1), claim).next(Share(), waits=waits)
    assert asked == [wait]
