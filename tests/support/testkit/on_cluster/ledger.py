"""What workers in pods did, written down on the server by themselves: who began and ended which item, and when.

The clock is that of the workers' nodes, which on a cluster of this machine is one for all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

WORKER = """
import os, socket, sys, time, uuid
import redis, claimq.worker

ledger, seconds = os.environ["LEDGER"], float(os.environ.get("WORK_SECONDS", "0.05"))
server = redis.Redis.from_url(os.environ["LEDGER_URL"], socket_timeout=5, socket_connect_timeout=5, retry=None)

def note(what, item):
    row = {"at": repr(time.time()), "pod": socket.gethostname(), "what": what, "item": item.id, "text": item.text,
           "version": os.environ.get("VERSION", ""), "line": uuid.uuid4().hex}
    for _ in range(1200):
        try:
            return server.xadd(ledger, row)
        except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
            time.sleep(0.1)
    sys.exit("the ledger is out of reach")

with claimq.worker.connect() as worker:
    for item in worker.items(chunk=int(os.environ.get("CHUNK", "1"))):
        with item:
            note("began", item)
            work = getattr(sys.modules["__main__"], "work", None)
            if work:
                work(item)
            time.sleep(seconds)
            note("ended", item)
            outcome = item.done()
            note(outcome.verdict, item)
"""
"""A worker for `python -c` in the sidecar's image. Each item: began, then work(item) if the program defines it and
WORK_SECONDS of sleep, ended, and what its verdict did (done, lost, ...). LEDGER and LEDGER_URL say where to write.
CHUNK items are claimed at once. A line whose writing was not answered is written again, under the same `line`."""

GATED = (
    """
import time

def work(item):
    for _ in range(6000):
        try:
            if any(server.smismember(ledger + ":gate", [item.text, item.text.rpartition("-")[0]])):
                return
        except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
            pass
        time.sleep(0.05)
    sys.exit("the gate stays closed")
"""
    + WORKER
)
"""The same, but an item stays in progress until its text, or what that begins with (`item` of `item-3`), is in the set
`gate(queue)`."""


@dataclass(frozen=True)
class Entry:
    """One line of a worker's. `at` in Unix seconds by its node's clock."""

    at: float
    pod: str
    what: str
    item: str
    text: str
    version: str = ""


@dataclass(frozen=True)
class Ledger:
    """All lines so far, in the order in which the server took them."""

    entries: tuple[Entry, ...]

    def of(self, what: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.what == what]

    def times(self, what: str) -> Counter[str]:
        """How often each item has such a line."""
        return Counter(entry.item for entry in self.of(what))

    def not_once(self, items: Iterable[str]) -> dict[str, list[Entry]]:
        """Each of the items that was not begun once and done once, and each item beside them: with all its lines."""
        began, done = self.times("began"), self.times("done")
        wrong = {item for item in {*items, *began, *done} if (began[item], done[item]) != (1, 1)}
        wrong |= (began.keys() | done.keys()) - set(items)
        return {item: [entry for entry in self.entries if entry.item == item] for item in sorted(wrong)}

    def pods_of(self, what: str) -> dict[str, set[str]]:
        """Item to the pods that wrote such a line for it."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for entry in self.of(what):
            found[entry.item].add(entry.pod)
        return dict(found)


def key(queue: str) -> str:
    return f"ledger:{queue}"


def gate(queue: str) -> str:
    return f"{key(queue)}:gate"


def reached(url: str) -> redis.Redis:
    """The server, asked for a minute and longer while it is out of reach: what is sent may be sent twice."""
    patience = Retry(ConstantBackoff(0.5), 120)
    return redis.Redis.from_url(url, decode_responses=True, retry=patience, socket_timeout=5)


def read(url: str, queue: str) -> Ledger:
    """What has been written for a queue; redis' own errors when the server stays out of reach."""
    with reached(url) as server:
        rows = cast("list[tuple[str, dict[str, Any]]]", server.xrange(key(queue)))
    lines: dict[str, dict[str, Any]] = {}
    for number, row in rows:
        # A server that was frozen or killed may have taken a line without saying so: then it is there again.
        lines.setdefault(row.pop("line", number), row)
    return Ledger(tuple(Entry(at=float(row.pop("at")), **row) for row in lines.values()))
