"""Attempts to find out what became of a claim: they come and go, and leave nothing behind."""

import asyncio
from typing import Any

from claimq.redis_store.lost_claims import Doubts


def test_an_attempt_that_was_ended_before_it_began_leaves_nothing_behind() -> None:
    defects: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, defect: defects.append(defect))
        doubts = Doubts()

        async def attempt() -> None:
            async with doubts.turn("q"):
                await asyncio.Event().wait()

        for begun in (True, False):
            doubts.add("q", asyncio.ensure_future(attempt()))
            if begun:
                await asyncio.sleep(0)
            await doubts.leave()
            await doubts.settled("q")
        assert doubts.has_room("q")

    asyncio.run(run())
    assert defects == []
