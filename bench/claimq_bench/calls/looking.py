"""What looking at queues costs: round trips, bytes and time of the server, for each screen, page and command.

The queues have what makes looking expensive: many clients of whom one has most items, many claims and failed items,
and items of 1 MiB; and a server has many queues. Commands run as a user runs them; pages are read as the web page
reads them. The shortest of three runs counts, since the first one loads scripts.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

import claimq
from claimq import NewItem, Policy, ReliableQueue
from claimq.redis_store.keys import Keys
from claimq.redis_store.scripts import script
from claimq_admin.reads.queue_reads import workers_of
from claimq_admin.server_choice import choose
from claimq_bench.counting_proxy import CountingProxy
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, must
from claimq_bench.plan import Plan
from claimq_cli.commands.options.sources import Source
from claimq_cli.commands.reading.top import MOST_QUEUES, read_once
from claimq_cli.top.view import View
from claimq_web.curves.samples import Samples
from claimq_web.queues.queue_pages import READ
from claimq_web.queues.queues import ServerQueues
from claimq_web.queues.sampler import Sampler

MOST_CALLS, MOST_BYTES, MOST_MS = 10, 1_000_000, 5.0
_CLIENTS, _LARGE = 1_001, 40
_RUNS, _TOO_MANY = 3, 1000
_WORKING = 1_000
_WHERE_CALLS, _WHERE_ROUNDS, _MOST_WHERE_US = 200, 10, 40.0
_PAGE = 100
_IDLE_SECONDS = 5.0
_POLICY = Policy(busy_expiry=36_000.0, max_payload=2**21)


@dataclass(frozen=True)
class Sizes:
    """`waiting`: small items in main, of 1,001 clients, of whom one has all but one each. `queues`: on the server."""

    waiting: int
    busy: int
    failed: int
    queues: int


FULL = Sizes(waiting=1_000_000, busy=20_000, failed=100_000, queues=10_000)
LARGE = Sizes(waiting=5_000_000, busy=20_000, failed=100_000, queues=10_000)
QUICK = Sizes(waiting=10_000, busy=20_000, failed=100_000, queues=1_000)


@dataclass(frozen=True)
class Cost:
    """Of one look."""

    calls: int
    bytes: int
    server_ms: float


Look = Callable[[str], Awaitable[object]]
"""Looks at the server of a URL."""


def _command(*words: str) -> Look:
    async def run(url: str) -> None:
        program = [sys.executable, "-m", "claimq_cli", "--redis", url, *words]
        ended = await asyncio.to_thread(
            subprocess.run, program, capture_output=True, check=False, timeout=300
        )
        must(ended.returncode in (0, 1), f"claimq {words}: {ended.stderr.decode()[-500:]}")

    return run


def _read(name: str, read: Callable[[ReliableQueue], Awaitable[object]]) -> Look:
    async def run(url: str) -> None:
        async with claimq.connect(url) as server:
            await read(server.queue(name))

    return run


def _page(name: str, state: str, **query: str) -> Look:
    return _read(name, lambda queue: READ[state](queue, query))


async def _list_of_queues(url: str) -> None:
    async with claimq.connect(url) as server:
        await Sampler(ServerQueues(server, (), dict), Samples()).sample_all()


def _top(opened: str) -> Look:
    async def run(url: str) -> None:
        async with claimq.connect(url) as server:
            await read_once(View(opened=opened), [Source(choose(url, None, None), server, is_cluster=False)])

    return run


def looks_of_queue(sizes: Sizes) -> dict[str, Look]:
    """The looks at one queue: at `small` with many items, and at `large` with items of 1 MiB."""
    looks: dict[str, Look] = {
        "page waiting 161 (at 8,000)": _page("small", "waiting", page="161"),
        "items main --offset 8000": _command("items", "small", "main", "--limit", "100", "--offset", "8000"),
        "items main, near the end": _command(
            "items", "small", "main", "--limit", "100", "--offset", str(sizes.waiting - 100)
        ),
        "page waiting of a client": _page("small", "waiting", client="client-0", page="161"),
        "item show, unknown id": _command("item", "show", "small", "unknown"),
        "item show, waiting near the end": _command("item", "show", "small", f"id-{sizes.waiting - 1}"),
        "item show, busy": _command("item", "show", "small", "busy-19000"),
        "clients": _command("clients", "small"),
        "workers": _read("small", workers_of),
        "status NAME": _command("status", "small"),
        "item show, failed": _command("item", "show", "small", "failed-5"),
    }
    for name in ("small", "large"):
        looks |= {
            f"page waiting, {name}": _page(name, "waiting"),
            f"page busy, {name}": _page(name, "busy"),
            f"page delayed, {name}": _page(name, "delayed"),
            f"page failed, {name}": _page(name, "failed"),
            f"top NAME, {name}": _top(name),
            f"items busy, {name}": _command("items", name, "busy", "--limit", "100"),
            f"items busy --offset 0, {name}": _command(
                "items", name, "busy", "--limit", "100", "--offset", "0"
            ),
            f"items delayed, {name}": _command("items", name, "delayed", "--limit", "100"),
            f"items failed, {name}": _command("items", name, "failed", "--limit", "100"),
            f"items main, {name}": _command("items", name, "main", "--limit", "100"),
        }
    return looks


LOOKS_AT_SERVER: dict[str, Look] = {
    "queues": _command("queues"),
    "queues -o name": _command("queues", "-o", "name"),
    "status": _command("status"),
    "status of a typo": _command("status", "smal"),
    "top": _top(""),
    "page list of queues": _list_of_queues,
}
"""For these, round trips and bytes count for each 1,000 queues shown, and the server's time for each 100."""
MOST_ROWS = {"top": MOST_QUEUES}
"""Looks at the server that do not show all of its queues."""
LOOKS_AT_WORKING_QUEUES: dict[str, Look] = {
    "status, working": _command("status"),
    "top, working": _top(""),
    "page list of queues, working": _list_of_queues,
}
"""Likewise. Each queue has an item that waits, and a worker with another one."""


async def fill(queue: ReliableQueue, sizes: Sizes, payload: bytes) -> None:
    """Fills all states of a queue. The last items enter main when all others have left it."""
    await queue.set_policy(_POLICY)
    chunk = 1000 if len(payload) < 1000 else 2
    for state, count in (("failed", sizes.failed), ("busy", sizes.busy), ("delayed", _LARGE)):
        for start in range(0, count, chunk):
            ids = [f"{state}-{number}" for number in range(start, min(start + chunk, count))]
            delay = 36_000.0 if state == "delayed" else 0.0
            await queue.enqueue_many([NewItem(payload, id=item_id, delay=delay) for item_id in ids])
            if state != "delayed":
                claims = await queue.claim(len(ids), wait=0)
                must(len(claims) == len(ids), "not all items were claimed")
                if state == "failed":
                    await queue.fail(claims, "broken", permanent=True)
    for start in range(0, sizes.waiting, chunk):
        numbers = range(start, min(start + chunk, sizes.waiting))
        await queue.enqueue_many(
            [
                NewItem(payload, id=f"id-{number}", client=f"client-{number if number < _CLIENTS else 0}")
                for number in numbers
            ]
        )


async def report(to: Report, bed: Bed, plan: Plan, sizes: Sizes | None = None) -> None:
    """A table of all looks, and the worst of each kind as a figure. Without the log, which would be gigabytes."""
    sizes = sizes or (QUICK if plan.is_quick else FULL)
    bed.control.config_set("appendonly", "no")
    costs: dict[str, Cost] = {}
    to.heading(
        f"Looking at {sizes.waiting:,} waiting items of {_CLIENTS:,} clients, {sizes.busy:,} busy and "
        f"{sizes.failed:,} failed ones, at {_LARGE} of 1 MiB in each state, and at {sizes.queues:,} queues"
    )
    to.note(f"{'':<30}{'round trips':>12}{'bytes':>14}{'server ms':>11}")
    with tempfile.TemporaryDirectory() as directory, CountingProxy(Path(bed.path), Path(directory)) as proxy:
        async with claimq.connect(bed.url) as server:
            await fill(server.queue("small", worker="filler"), sizes, b"x" * 100)
            large = Sizes(waiting=_LARGE, busy=_LARGE, failed=_LARGE, queues=0)
            await fill(server.queue("large", worker="filler"), large, b"x" * 2**20)
            costs |= await _measure(to, bed, proxy, looks_of_queue(sizes))
            for number in range(sizes.queues):
                queue = server.queue(f"queue-{number}")
                await queue.enqueue("x")
                await queue.add_to_index()
        costs |= await _measure(to, bed, proxy, LOOKS_AT_SERVER, rows=sizes.queues + 2)
        bed.empty()
        await _fill_working(bed)
        costs |= await _measure(to, bed, proxy, LOOKS_AT_WORKING_QUEUES, rows=_WORKING)
        costs |= await _measure(to, bed, proxy, {"top NAME, working": _top("queue-5")})
    bed.empty()
    bed.control.config_set("appendonly", "yes")
    for name, unit, most, value_of in _FIGURES:
        worst = max(costs, key=lambda look: value_of(costs[look]))
        to.add(Figure(name, f"most: {worst}", value_of(costs[worst]), unit, most=most, limit=worst))


async def _fill_working(bed: Bed) -> None:
    async with claimq.connect(bed.url) as server:
        for number in range(_WORKING):
            queue = server.queue(f"queue-{number}", worker=f"worker-{number}")
            await queue.enqueue_many(["x", "x"])
            must(len(await queue.claim(1, wait=0)) == 1, "an item was not claimed")
            await queue.add_to_index()


async def report_where(to: Report, bed: Bed, plan: Plan) -> None:
    """What the answer costs where an item stands."""
    waiting = (QUICK if plan.is_quick else FULL).waiting
    to.heading(f"Where an item stands, among {waiting:,} waiting items of {_CLIENTS:,} clients")
    where = await where_us(bed, waiting)
    for place, microseconds in where.items():
        to.note(f"{place:<50}{microseconds:>8.0f} us")
    place = max(where, key=where.__getitem__)
    says = "server time above an empty script, most"
    to.add(Figure("where_server_us", says, where[place], "us", most=_MOST_WHERE_US, limit=place))


async def where_us(bed: Bed, waiting: int) -> dict[str, float]:
    """Microseconds of the server for an answer, beside an empty script, by the item's place."""
    ids = {
        "client with one item": (1, 1),
        "1 % from the end of the longest list": (waiting - waiting // 100, 0),
        "middle of the longest list": (waiting // 2, 0),
    }
    microseconds: dict[str, float] = {}
    async with claimq.connect(bed.url) as server:
        queue = server.queue("small", worker="filler")
        await fill(queue, Sizes(waiting, busy=0, failed=0, queues=0), b"x" * 100)
        client, where = bed.client(), script("where")
        nothing = client.script_load("return 0")
        for place, (number, of_client) in ids.items():
            words = (Keys("small").main, f"id-{number}", "main", f"client-{of_client}", "", "")
            must(client.eval(where.text, 1, *words)[0] == b"OK", "an item that waits was not found")
            costs = [
                [_call_us(bed, client, sha, words) for sha in (nothing, where.sha)]
                for _ in range(_WHERE_ROUNDS)
            ]
            empty, full = map(min, zip(*costs, strict=True))
            microseconds[place] = full - empty
        client.close()
    bed.empty()
    return microseconds


def _call_us(bed: Bed, client: redis.Redis, sha: str, words: Sequence[str]) -> float:
    with bed.measured(_WHERE_CALLS) as cost:
        for _ in range(_WHERE_CALLS):
            client.evalsha(sha, 1, *words)
    return cost.server_main_us


async def _measure(
    to: Report, bed: Bed, proxy: CountingProxy, looks: dict[str, Look], *, rows: int = _PAGE
) -> dict[str, Cost]:
    costs: dict[str, Cost] = {}
    idle = await _idle_share(bed)
    for name, look in looks.items():
        shown = min(rows, MOST_ROWS.get(name, rows))
        pages = -(-shown // 1000)
        runs = [await _cost(bed, proxy, look, idle)]
        while len(runs) < _RUNS and runs[0].calls < _TOO_MANY:
            runs.append(await _cost(bed, proxy, look, idle))
        cost = Cost(runs[-1].calls, runs[-1].bytes, min(run.server_ms for run in runs))
        counted = Cost(-(-cost.calls // pages), cost.bytes // pages, cost.server_ms * _PAGE / shown)
        over = "" if _is_within(counted) else "  over the bar"
        to.note(f"{name:<30}{cost.calls:>12,}{cost.bytes:>14,}{cost.server_ms:>11.2f}{over}")
        costs[name] = counted
    return costs


async def _cost(bed: Bed, proxy: CountingProxy, look: Look, idle: float) -> Cost:
    proxy.traffic.round_trips = proxy.traffic.bytes = 0
    with bed.measured(1) as cost:
        await look(proxy.url)
    server_ms = 1000 * max(cost.server_main - idle * cost.wall, 0.0)
    return Cost(proxy.traffic.round_trips, proxy.traffic.bytes, server_ms)


async def _idle_share(bed: Bed) -> float:
    """The share of a core that the server uses by itself: a command of a user takes seconds to start on a busy
    machine, in which the server scans its clients and keys ten times a second."""
    with bed.measured(1) as cost:
        await asyncio.sleep(_IDLE_SECONDS)
    return cost.server_main / cost.wall


def _is_within(cost: Cost) -> bool:
    return cost.calls <= MOST_CALLS and cost.bytes <= MOST_BYTES and cost.server_ms <= MOST_MS


_FIGURES: Sequence[tuple[str, str, float, Callable[[Cost], float]]] = (
    ("look_calls_max", "", MOST_CALLS, lambda cost: cost.calls),
    ("look_bytes_max", "", MOST_BYTES, lambda cost: cost.bytes),
    ("look_server_ms_max", "ms", MOST_MS, lambda cost: cost.server_ms),
)
