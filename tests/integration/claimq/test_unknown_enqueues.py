"""An enqueue that raises StoreUnavailable was stored or not; the same again with an id is queued once."""

import asyncio

import pytest

import claimq
from claimq import ReliableQueue, StoreUnavailable
from testkit.plugin import ProxyFactory
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import eventually


@pytest.mark.parametrize(("direction", "stored"), [("requests", 0), ("replies", 1)])
async def test_an_enqueue_of_unknown_outcome_made_again_with_its_id_is_queued_once(
    queue: ReliableQueue, valkey: Server, start_proxy: ProxyFactory, direction: str, stored: int
) -> None:
    proxy = start_proxy(valkey)
    settings = patient(proxy.url, retry_for=0.5)
    async with claimq.connect(settings=settings) as far:
        await far.queue("warm").enqueue("the server knows the script")
        proxy.black_hole("requests" if direction == "requests" else "replies")
        enqueuing = asyncio.ensure_future(far.queue("q").enqueue("a", id="mine"))

        async def has_arrived() -> bool:
            return await queue.length() == stored

        await eventually(has_arrived)
        proxy.refuse()
        with pytest.raises(StoreUnavailable):
            await enqueuing
    assert await queue.length() == stored
    again = await queue.enqueue("a", id="mine")
    assert again.length == 1
    assert await queue.length() == 1
