"""The client of tests whose clock stands still."""

import redis
import redis.asyncio

import claimq
from claimq.redis_store.scripts import script
from testkit.queues.frozen_clock import BEGIN_MS, FrozenClock
from testkit.servers.server import Server

READ_AT_ONCE = 16 * 1024
"""Bytes that a server reads of a client before it turns to the others."""


async def test_no_other_call_comes_between_the_clock_and_a_long_script(server: Server) -> None:
    """The first call of a script sends its text, which can be longer than what a server reads at once."""
    assert len(script("requeue_failed").text) > READ_AT_ONCE
    server.call("SCRIPT", "FLUSH")
    async with redis.asyncio.Redis(unix_socket_path=str(server.unix_path)) as client:
        queue = claimq.connect(client=FrozenClock(client, q=BEGIN_MS)).queue("q")
        assert await queue.requeue_failed() == 0
    with redis.Redis.from_url(server.url) as reader:
        called = reader.info("commandstats").keys()
    assert {"cmdstat_evalsha", "cmdstat_script|load"} <= called
    assert "cmdstat_eval" not in called
