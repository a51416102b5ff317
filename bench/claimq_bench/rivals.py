"""Three ways through a queue, each at its best: the raw list pattern, a stream with a consumer group, claimq.

All do the same work: `enqueue` in batches, then `work_off` what is there in batches: take a batch, end it. Each returns
the payloads that it took, in order. The raw ones run on the synchronous client, which is the faster one for them.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import redis

import claimq
from claimq.model import Verdict
from claimq_bench.meter import Bed, must


class Rival(Protocol):
    """One way through a queue."""

    name: str

    async def enqueue(self, payloads: Sequence[bytes], batch: int) -> None: ...

    async def work_off(self, items: int, batch: int) -> list[bytes]: ...

    async def left(self) -> int:
        """How many items are still anywhere in the queue."""
        ...


class Lists:
    """LPUSH, RPOPLPUSH to a list of what is in progress, LREM from there. Keeps items; nothing gives them back."""

    def __init__(self, client: "redis.Redis", *, one_push: bool = False) -> None:
        self.name = "lists, one LPUSH a batch" if one_push else "lists"
        self._client: Any = client
        self._main, self._busy, self._one_push = f"raw:{self.name}", f"raw:{self.name}:busy", one_push

    async def enqueue(self, payloads: Sequence[bytes], batch: int) -> None:
        for at in range(0, len(payloads), batch):
            chunk = payloads[at : at + batch]
            if len(chunk) == 1 or self._one_push:
                self._client.lpush(self._main, *chunk)
                continue
            pipeline = self._client.pipeline(transaction=False)
            for payload in chunk:
                pipeline.lpush(self._main, payload)
            pipeline.execute()

    async def work_off(self, items: int, batch: int) -> list[bytes]:
        took: list[bytes] = []
        for _ in range(0, items, batch):
            if batch == 1:
                payload: Any = self._client.rpoplpush(self._main, self._busy)
                self._client.lrem(self._busy, -1, payload)
                took.append(payload)
                continue
            taking = self._client.pipeline(transaction=False)
            for _ in range(batch):
                taking.rpoplpush(self._main, self._busy)
            payloads = taking.execute()
            ending = self._client.pipeline(transaction=False)
            for payload in payloads:
                ending.lrem(self._busy, -1, payload)  # the oldest is at the right: found at once
            ending.execute()
            took += payloads
        return took

    async def left(self) -> int:
        lengths: list[Any] = [self._client.llen(self._main), self._client.llen(self._busy)]
        return sum(lengths)


class Streams:
    """XADD, XREADGROUP, XACK and XDEL: a consumer group that also frees what is done."""

    def __init__(self, bed: Bed) -> None:
        self.name = "streams"
        self._client = bed.client()
        self._key = "raw:stream"
        if not self._client.exists(self._key):
            self._client.xgroup_create(self._key, "workers", id="0", mkstream=True)

    async def enqueue(self, payloads: Sequence[bytes], batch: int) -> None:
        for at in range(0, len(payloads), batch):
            if batch == 1:
                self._client.xadd(self._key, {"p": payloads[at]})
                continue
            pipeline = self._client.pipeline(transaction=False)
            for payload in payloads[at : at + batch]:
                pipeline.xadd(self._key, {"p": payload})
            pipeline.execute()

    async def work_off(self, items: int, batch: int) -> list[bytes]:
        took: list[bytes] = []
        for _ in range(0, items, batch):
            reply: Any = self._client.xreadgroup("workers", "one", {self._key: ">"}, count=batch)
            entries = reply[0][1]
            ids = [entry[0] for entry in entries]
            pipeline = self._client.pipeline(transaction=False)
            pipeline.xack(self._key, "workers", *ids)
            pipeline.xdel(self._key, *ids)
            pipeline.execute()
            took += [entry[1][b"p"] for entry in entries]
        return took

    async def left(self) -> int:
        length: Any = self._client.xlen(self._key)
        return int(length)


class Library:
    """claimq, as a program uses it."""

    def __init__(self, queue: claimq.ReliableQueue) -> None:
        self.name = "claimq"
        self._queue = queue

    async def enqueue(self, payloads: Sequence[bytes], batch: int) -> None:
        for at in range(0, len(payloads), batch):
            if batch == 1:
                await self._queue.enqueue(payloads[at])
            else:
                await self._queue.enqueue_many(payloads[at : at + batch])

    async def work_off(self, items: int, batch: int) -> list[bytes]:
        took: list[bytes] = []
        # One call claims at most 2 MiB of items, so a batch of large ones takes several.
        while len(took) < items and (claims := await self._queue.claim(batch, wait=0)):
            outcomes = await self._queue.done(claims)
            must(all_done(outcomes), "claimq: a claim of this process was lost")
            took += [claim.item.payload for claim in claims]
        return took

    async def left(self) -> int:
        return sum((await self._queue.lengths()).values())


def all_done(outcomes: Sequence[claimq.Outcome]) -> bool:
    """Whether each claim was held and is done."""
    return all(outcome.verdict is Verdict.DONE for outcome in outcomes)


_numbers = itertools.count()


def new_payloads(count: int, size: int) -> list[bytes]:
    """Payloads of that many bytes, all different."""
    filling = b"x" * (size - 12)
    return [b"%012d" % next(_numbers) + filling for _ in range(count)]
