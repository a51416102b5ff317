"""Memory: of the queue's keys, of the server, and the share of the server's limit."""

import pytest

from claimq import NewItem, ReliableQueue
from testkit.servers.server import Server


async def test_memory_usage_counts_the_queues_bytes_and_the_servers_share(
    server: Server, queue: ReliableQueue
) -> None:
    empty = await queue.memory_usage()
    assert (empty.queue_bytes, empty.limit_bytes, empty.share) == (0, 0, None)
    assert await queue.memory_share() is None
    await queue.enqueue_many(
        [NewItem("x" * 1000, client=client) for client in ("ann", "bob") for _ in range(200)]
    )
    await queue.claim(100, wait=0)
    usage = await queue.memory_usage()
    assert 400_000 < usage.queue_bytes < 1_000_000
    assert usage.used_bytes > usage.queue_bytes
    server.call("CONFIG", "SET", "maxmemory", str(usage.used_bytes * 2))
    limited = await queue.memory_usage()
    assert limited.limit_bytes == usage.used_bytes * 2
    assert limited.share == pytest.approx(0.5, abs=0.1)
    assert await queue.memory_share() == pytest.approx(0.5, abs=0.1)
