"""The load of a case: `python -m claimq_faults.load producer|worker URL LOG NAME`. SIGTERM ends it in good order.

A line is written in one piece, so that SIGKILL leaves no half of one that counts.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import claimq
from claimq import StoreUnavailable
from claimq.model import Claim, Outcome
from claimq_faults.account import Line
from testkit.programs.processes import whole_lines

QUEUE = "q"
LEASE = 6.0
RETRY_FOR = 60.0
_CHAINS = 3
"""Sequences of items in one producer: the items of one follow each other, those of several share calls."""
_CONCURRENCY = 5
_SHORT, _LONG, _SHARE_LONG = 0.06, 1.0, 0.02


class Log:
    """What one process writes down."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        self._process = process

    def write(self, what: str, item: str, token: str = "", *, is_first: bool = False) -> None:
        row = [self._process, time.monotonic(), what, item, token, is_first]
        os.write(self._file, json.dumps(row).encode() + b"\n")


def read_log(path: Path) -> list[Line]:
    return [Line(*json.loads(text)) for text in whole_lines(path)]


class Noted:
    """The observer of ``consume``."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.tokens: dict[str, str] = {}
        """Item -> its latest claim here."""
        self._items: dict[str, str] = {}

    def claimed(self, _queue: str, claims: Sequence[Claim], /) -> None:
        for claim in claims:
            item = claim.item
            is_first = not (item.requeue_count or item.crash_count or item.interrupted_count)
            self.tokens[item.id], self._items[claim.token] = claim.token, item.id
            self._log.write("claimed", item.id, claim.token, is_first=is_first)

    def settled(self, _queue: str, outcomes: Sequence[Outcome], /) -> None:
        for outcome in outcomes:
            if outcome.verdict == "done":
                self._log.write("done", self._items[outcome.token], outcome.token)

    def given_back(self, *_: object) -> None:
        """The item comes back with another claim."""

    def call_failed(self, *_: object) -> None:
        """The library has tried for long enough."""


async def produce(queue: claimq.ReliableQueue, log: Log, name: str, stop: asyncio.Event) -> None:
    """Enqueues items one after the other; each until it is confirmed."""
    count = 0
    while not stop.is_set():
        item, count = f"{name}-{count}", count + 1
        while True:
            try:
                await queue.enqueue(item, id=item)
                break
            except (StoreUnavailable, claimq.StoreFull):
                if stop.is_set():
                    return
                await asyncio.sleep(0.05)
        log.write("stored", item)
        await asyncio.sleep(random.random() * 0.01)


async def work(queue: claimq.ReliableQueue, log: Log, stop: asyncio.Event) -> None:
    """Handles items until it is stopped."""
    noted = Noted(log)

    async def handle(item: claimq.Item) -> None:
        token = noted.tokens[item.id]
        log.write("began", item.id, token)
        await asyncio.sleep(_LONG if random.random() < _SHARE_LONG else random.random() * _SHORT)
        log.write("ended", item.id, token)

    await queue.consume(handle, concurrency=_CONCURRENCY, stop=stop, observer=noted, handle_signals=False)


async def run(kind: str, url: str, path: Path, name: str) -> None:
    stop, log = asyncio.Event(), Log(path, name)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with claimq.connect(settings=claimq.RedisSettings(url, retry_for=RETRY_FOR)) as server:
        queue = server.queue(QUEUE, worker=name)
        if kind == "producer":
            chains = (produce(queue, log, f"{name}.{number}", stop) for number in range(_CHAINS))
            await asyncio.gather(*chains)
        else:
            await work(queue, log, stop)


def main(words: list[str]) -> None:
    kind, url, path, name = words
    asyncio.run(run(kind, url, Path(path), name))


if __name__ == "__main__":
    main(sys.argv[1:])
