"""Turns of large reads: one in a namespace, two in the process, and none for a read that waits too long."""

import asyncio

import pytest

from claimq.errors import ReadTooLarge, StoreUnavailable
from claimq.redis_store.bounded_read import BoundedRead, ReadBounds, largest_reply
from claimq_control.large_reads import LargeReads, in_turn
from testkit.waiting import eventually

SMALL = ReadBounds(size=1000)


def large_reads(longest_wait: float = 45.0) -> LargeReads:
    return LargeReads(SMALL, ReadBounds(size=9000), 5000, longest_wait)


class Readers:
    """Tasks that take turns and keep them until they are ended."""

    def __init__(self, reads: LargeReads) -> None:
        self._reads = reads
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.inside: list[str] = []

    def start(self, *names: str) -> None:
        """A name is NAMESPACE/QUEUE."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._read(name)))

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await eventually(lambda: name not in self.inside)

    async def close(self) -> None:
        for one in self._tasks:
            one.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, name: str) -> None:
        async with self._reads.turn(name.partition("/")[0]):
            self.inside.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.inside.remove(name)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_two_large_reads_run_at_a_time_and_one_of_a_namespace() -> None:
    readers = Readers(large_reads())
    readers.start("a/1", "a/2", "b/1", "c/1")
    await settled()
    assert readers.inside == ["a/1", "b/1"]
    await readers.end("b/1")
    await settled()
    assert readers.inside == ["a/1", "c/1"]
    await readers.end("a/1")
    await settled()
    assert readers.inside == ["c/1", "a/2"]
    await readers.close()


async def test_a_cancelled_wait_takes_no_turn() -> None:
    readers, others = Readers(reads := large_reads()), Readers(reads)
    readers.start("a/1", "b/1")
    await settled()
    others.start("a/2", "c/1")
    await settled()
    await others.close()
    await readers.close()
    readers = Readers(reads)
    readers.start("a/3", "c/2")
    await settled()
    assert readers.inside == ["a/3", "c/2"]
    await readers.close()


async def test_a_read_whose_turn_does_not_come_says_so() -> None:
    readers = Readers(reads := large_reads(longest_wait=0.01))
    readers.start("a/1")
    await settled()
    with pytest.raises(ReadTooLarge, match=r"the turn of this one has not come for 0\.01 s"):
        async with reads.turn("a"):
            pass
    assert readers.inside == ["a/1"]  # the limit is of the wait, not of the read
    await readers.close()


async def test_the_error_of_a_read_in_its_turn_is_its_own() -> None:
    with pytest.raises(TimeoutError, match="own"):
        async with large_reads().turn("a"):
            raise TimeoutError("own")


async def test_only_reads_in_a_turn_may_be_large() -> None:
    def fits() -> bool:
        read = BoundedRead("workers", SMALL)
        try:
            read.add([b"x" * SMALL.size], 0.0)
        except ReadTooLarge:
            return False
        return True

    assert (fits(), largest_reply(1000)) == (False, 1000)
    async with large_reads().turn("a"):
        assert (fits(), largest_reply(1000)) == (True, 5000)
    assert (fits(), largest_reply(1000)) == (False, 1000)


async def test_a_read_that_is_too_large_is_repeated_in_a_turn() -> None:
    sizes: list[int] = []

    async def read() -> str:
        sizes.append(largest_reply(1000))
        if sizes[-1] == 1000:
            raise ReadTooLarge("more than 1,000 bytes")
        return "read"

    assert await in_turn(lambda: large_reads().turn("a"), read) == "read"
    assert sizes == [1000, 5000]
    with pytest.raises(ReadTooLarge, match="more than 1,000"):
        await in_turn(None, read)


async def test_a_read_that_fails_otherwise_is_not_repeated() -> None:
    async def read() -> None:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable, match="away"):
        await in_turn(pytest.fail, read)
