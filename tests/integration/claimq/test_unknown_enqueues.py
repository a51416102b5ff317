"""An enqueue that raises StoreUnavailable was stored or not; the same again with an id is queued once."""

import pytest

import claimq
from claimq import RedisSettings, ReliableQueue, StoreUnavailable
from testkit.plugin import ProxyFactory
from testkit.server import Server


@pytest.mark.parametrize(("direction", "stored"), [("requests", 0), ("replies", 1)])
async def test_an_enqueue_of_unknown_outcome_made_again_with_its_id_is_queued_once(
    queue: ReliableQueue, valkey: Server, start_proxy: ProxyFactory, direction: str, stored: int
) -> None:
    proxy = start_proxy(valkey)
    settings = RedisSettings(url=proxy.url, retry_for=0.5, reply_timeout=5.0)
    async with claimq.connect(settings=settings) as far:
        await far.queue("warm").enqueue("the server knows the script")
        proxy.black_hole("requests" if direction == "requests" else "replies")
        with pytest.raises(StoreUnavailable):
            await far.queue("q").enqueue("a", id="mine")
    assert await queue.length() == stored
    again = await queue.enqueue("a", id="mine")
    assert again.length == 1
    assert await queue.length() == 1
