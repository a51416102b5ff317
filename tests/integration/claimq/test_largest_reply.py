"""A server that others control cannot fill the memory of a program with its replies."""

import asyncio
import time
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import claimq
from claimq import RedisSettings, StoreMisused
from testkit.faults.foreign_port import foreign_port
from testkit.plugin import ServerFactory
from testkit.servers.patient import open_queue
from testkit.waiting import PATIENCE

LARGEST = 1_000_000
ENDLESS = {
    "a text": (b"$300000000\r\n", b"x" * 50_000),
    "small elements": (b"*300000000\r\n", b"*0\r\n" * 10_000),
    "an error": (b"-", b"x" * 50_000),
    "an announced list": (b"*4294967295\r\n", b""),
    "announced lists within lists": (b"*1000000000\r\n" * 9, b""),
    "many announced lists": (b"*8\r\n" + b"*200000\r\n" * 8, b""),
    "a list that is announced after a text": (b"*2\r\n$9\r\n*1\r\n*2\r\nx\r\n*300000000\r\n", b""),
}


@asynccontextmanager
async def endless_server(begin: bytes, more: bytes) -> AsyncGenerator[tuple[str, list[int]]]:
    """A server whose replies do not end, and the bytes that it sent on each connection."""
    sent: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(sent)
        sent.append(0)
        await reader.read(4096)
        writer.write(begin)
        await writer.drain()
        while more and not reader.at_eof():
            writer.write(more)
            await writer.drain()
            sent[number] += len(more)

    async with foreign_port(serve) as address:
        yield address, sent


@pytest.mark.parametrize("reply", ENDLESS)
@pytest.mark.parametrize("mode", ["redis", "redis+sentinel", "redis+cluster"])
async def test_a_reply_without_an_end_is_ended(mode: str, reply: str) -> None:
    async with endless_server(*ENDLESS[reply]) as (address, sent):
        url = f"{mode}://{address}" + ("/primary" if mode == "redis+sentinel" else "")
        settings = RedisSettings(
            url, retry_for=0.1, reply_timeout=PATIENCE, connect_timeout=PATIENCE, largest_reply=LARGEST
        )
        async with claimq.connect(settings=settings) as store:
            began = time.process_time()
            with pytest.raises(claimq.ClaimqError) as raised:
                await store.queue("q").snapshot()
            used = time.process_time() - began
            if mode == "redis":
                assert isinstance(raised.value, StoreMisused)
                assert "a reply exceeds 1,000,000 bytes, the most that this program reads" in str(
                    raised.value
                )
    assert used < 5  # the parser takes 9 s for an empty list of 2,000,000,000
    # What the kernel holds for the two ends of a connection comes on top.
    assert max(sent) < 20 * LARGEST


SMALL = {
    "lists": b"*0\r\n",
    "lists of a list": b"*1\r\n*0\r\n",
    "errors": b"-\r\n",
    "texts": b"$2\r\nab\r\n",
    "integers": b":999999\r\n",
    "words": b"+ab\r\n",
}


@pytest.mark.parametrize("kind", SMALL)
async def test_many_small_objects_of_a_reply_take_no_more_memory_than_its_limit(kind: str) -> None:
    """Fewer bytes of a reply than the limit, but 100 times as many bytes of memory."""
    count = LARGEST // 10
    async with endless_server(b"*%d\r\n" % count, SMALL[kind] * (count // 10)) as (address, _):
        url = f"redis://{address}"
        settings = RedisSettings(url, retry_for=0.1, reply_timeout=PATIENCE, largest_reply=LARGEST)
        async with claimq.connect(settings=settings) as store:
            tracemalloc.start()
            try:
                with pytest.raises(StoreMisused, match="a reply exceeds 1,000,000 bytes"):
                    await store.queue("q").snapshot()
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert peak < 2.5 * LARGEST


async def test_each_reply_is_counted_by_itself(start_server: ServerFactory) -> None:
    server = start_server("valkey")
    async with open_queue(server.url, largest_reply=50_000) as queue:
        for _ in range(10):
            await queue.enqueue("x" * 40_000)
            assert await queue.length() == 1
            (claim,) = await queue.claim(wait=0)
            await queue.done(claim)


async def test_a_call_after_a_reply_that_was_too_large_works(start_server: ServerFactory) -> None:
    server = start_server("valkey")
    async with open_queue(server.url, largest_reply=50_000) as queue:
        await queue.enqueue("x" * 100_000, id="large")
        with pytest.raises(StoreMisused, match="a reply exceeds 50,000 bytes"):
            await queue.find("large")
        assert await queue.length() == 1


async def test_a_reply_that_comes_with_the_one_before_is_counted(start_server: ServerFactory) -> None:
    """A read is sent together with a write that a replica would refuse."""
    server = start_server("valkey", tcp=True)
    members: list[Any] = [word for number in range(500) for word in (number, f"{number:080d}")]
    server.call("ZADD", "cq:{q}:workers", *members)
    async with open_queue(server.tcp_url, largest_reply=100_000) as queue:
        for _ in range(3):  # the first call sends the script again
            with pytest.raises(StoreMisused, match="a reply exceeds 100,000 bytes"):
                await queue.workers()
