"""The server loses its last writes while all kinds of workers hold items: all recover, at no cost to the items."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import claimq
import claimq.worker
from claimq import NewItem, Policy, ReliableQueue, State, Verdict
from testkit.plugin import ServerFactory, started
from testkit.queues.looking import texts
from testkit.servers.cluster import RedisCluster
from testkit.servers.data_losses import (
    FailedOver,
    Flushed,
    Loss,
    OlderAof,
    Promoted,
    Recreated,
    Restarted,
    TakenOver,
)
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import DURABLE
from testkit.waiting import PATIENCE, eventually
from testkit.workers.sidecars import Sidecar, StartSidecar

HOUR_MS = 3_600_000
KINDS = ("library", "session", "async session", "no session")
POLICY = Policy(busy_expiry=9, requeue_limit=0, claim_wait_timeout=0.2)
"""With a requeue limit of 0 an item that pays for the loss is in failed."""


@dataclass
class Ledger:
    """What the workers do. Each works on its first item until `first_gate` opens, and on its second until `second`."""

    first_gate: threading.Event = field(default_factory=threading.Event)
    second_gate: threading.Event = field(default_factory=threading.Event)
    begun: Counter[str] = field(default_factory=Counter[str])
    finished: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    charged: list[str] = field(default_factory=list[str])
    in_flight: dict[str, str] = field(default_factory=dict[str, str])

    def gate(self, kind: str, text: str, counts: tuple[int, ...]) -> threading.Event | None:
        """Notes the beginning of a piece of work; returns what it waits for."""
        self.begun[kind] += 1
        self.in_flight[kind] = text
        if any(counts):
            self.charged.append(text)
        return {1: self.first_gate, 2: self.second_gate}.get(self.begun[kind])

    def finish(self, kind: str, text: str) -> None:
        """Notes its end."""
        self.in_flight.pop(kind, None)
        self.finished.append((kind, text))


@dataclass
class Workers:
    """One worker of each kind, and how they end."""

    ledger: Ledger
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[object]] = field(default_factory=list[asyncio.Task[object]])
    clients: list[claimq.worker.Worker] = field(default_factory=list[claimq.worker.Worker])

    async def consume(self, queue: ReliableQueue) -> None:
        async def handle(item: claimq.Item) -> None:
            gate = self.ledger.gate(
                "library", item.text, (item.requeue_count, item.crash_count, item.fail_count)
            )
            if gate is not None:
                await eventually(gate.is_set)
            self.ledger.finish("library", item.text)

        await queue.consume(handle, handle_signals=False, stop=self.stop)

    def in_thread(self, kind: str, client: claimq.worker.Worker) -> None:
        for item in client.items(wait=0.2, handle_signals=False):
            with item:
                gate = self.ledger.gate(
                    kind, item.text, (item.requeue_count, item.crash_count, item.fail_count)
                )
                if gate is not None:
                    gate.wait(PATIENCE)
                self.ledger.finish(kind, item.text)

    async def async_session(self, socket: str) -> None:
        async with claimq.worker.connect_async(socket) as client:
            async for item in client.items(wait=0.2, handle_signals=False):
                async with item:
                    counts = (item.requeue_count, item.crash_count, item.fail_count)
                    gate = self.ledger.gate("async session", item.text, counts)
                    if gate is not None:
                        await eventually(gate.is_set)
                    self.ledger.finish("async session", item.text)
                if self.stop.is_set():
                    return

    def start(self, queue: ReliableQueue, sidecars: dict[str, Sidecar]) -> None:
        self.tasks.append(asyncio.create_task(self.consume(queue)))
        self.tasks.append(asyncio.create_task(self.async_session(str(sidecars["async session"].socket))))
        for kind in ("session", "no session"):
            client = claimq.worker.connect(sidecars[kind].socket, session=kind == "session")
            self.clients.append(client)
            self.tasks.append(asyncio.create_task(asyncio.to_thread(self.in_thread, kind, client)))

    async def end(self) -> None:
        self.ledger.first_gate.set()
        self.ledger.second_gate.set()
        self.stop.set()
        for client in self.clients:
            client.stop()
        self.tasks[1].cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for client in self.clients:
            await asyncio.to_thread(client.close)


def flushed(start_server: ServerFactory) -> Loss:
    return Flushed(start_server())


def restarted(start_server: ServerFactory) -> Loss:
    return Restarted(start_server())


def recreated(start_server: ServerFactory) -> Loss:
    return Recreated(start_server())


def older_aof(start_server: ServerFactory) -> Loss:
    return OlderAof(start_server("valkey", DURABLE))


def promoted(start_server: ServerFactory) -> Loss:
    primary = start_server("valkey", {"repl-diskless-sync-delay": "0"}, tcp=True)
    return Promoted(primary, start_server("valkey", {"replicaof": f"127.0.0.1 {primary.port}"}, tcp=True))


ALONE: dict[str, tuple[Callable[[ServerFactory], Loss], int]] = {
    "FLUSHALL": (flushed, 0),
    "FLUSHALL, clock behind": (flushed, -HOUR_MS),
    "restart without persistence": (restarted, 0),
    "deleted and recreated": (recreated, 0),
    "older AOF": (older_aof, 0),
    "promoted": (promoted, 0),
    "promoted, clock behind": (promoted, -HOUR_MS),
    "promoted, clock ahead": (promoted, HOUR_MS),
}
EMPTIED = {"FLUSHALL", "FLUSHALL, clock behind", "restart without persistence", "deleted and recreated"}


async def every_worker_recovers(
    loss: Loss, start_sidecar: StartSidecar, clock_ms: int, emptied: bool
) -> None:
    ledger = Ledger()
    settings = claimq.RedisSettings(loss.url, retry_for=60.0)
    async with claimq.connect(settings=settings) as store:
        queue = store.queue("q", worker="library")
        await queue.set_policy(POLICY)
        before = [f"before-{number}" for number in range(12)]
        await queue.enqueue_many([NewItem(text, id=text) for text in before])
        names = ("session", "async session", "no session")
        sidecars = {
            kind: await asyncio.to_thread(start_sidecar, loss.url, worker=kind.replace(" ", "-"))
            for kind in names
        }
        workers = Workers(ledger)
        workers.start(queue, sidecars)
        try:
            await eventually(
                lambda: len(ledger.in_flight) == len(KINDS), why="each worker has an item in progress"
            )
            await asyncio.to_thread(loss.mark)
            ledger.first_gate.set()
            await eventually(lambda: set(ledger.begun.values()) == {2}, why="each has another one")
            await asyncio.to_thread(loss.lose)
            await lose_time(queue, clock_ms)
            await queue.set_policy(POLICY)
            after = [f"after-{number}" for number in range(12)]
            await queue.enqueue_many([NewItem(text, id=text) for text in after])
            ledger.second_gate.set()
            await all_work_again(queue, ledger, {*after, *(() if emptied else before)})
        finally:
            await workers.end()
        assert ledger.charged == []
        stats = await queue.stats()
        assert (stats["crashes"], stats["fails"], stats["failed"], stats["requeued"]) == (0, 0, 0, 0)
        left = (await queue.snapshot()).lengths
        gone = stats["done"] + stats["dropped"] + stats["failed_removed"] + stats["flushed"]
        assert stats["enqueued"] == gone + sum(left.values())


async def lose_time(queue: ReliableQueue, milliseconds: int) -> None:
    """The clock of the new primary is so far from the old one's."""
    await queue._connection.command("HINCRBYFLOAT", queue._keys.stats, "clock_offset", milliseconds)


async def all_work_again(queue: ReliableQueue, ledger: Ledger, wanted: set[str]) -> None:
    """Waits until each worker has begun another item than the two before the loss, and all items are done."""

    async def is_so() -> bool:
        idle = [kind for kind in KINDS if ledger.begun[kind] <= 2]
        if idle:
            await queue.enqueue_many(["more"] * len(KINDS))
        assert idle == []
        assert wanted - {text for _, text in ledger.finished} == set()
        return await queue.lengths() == dict.fromkeys(State, 0)

    await eventually(is_so, why="each worker works, and all items are done")


@pytest.mark.parametrize("how", ALONE)
async def test_every_worker_recovers_and_no_item_is_charged(
    start_server: ServerFactory, start_sidecar: StartSidecar, how: str
) -> None:
    make, clock_ms = ALONE[how]
    await every_worker_recovers(make(start_server), start_sidecar, clock_ms, how in EMPTIED)


CLOCKS = pytest.mark.parametrize(
    "clock_ms", [0, -HOUR_MS, HOUR_MS], ids=["same clock", "clock behind", "clock ahead"]
)


@CLOCKS
async def test_every_worker_recovers_behind_sentinel(
    sentinel: Sentinel, start_sidecar: StartSidecar, clock_ms: int
) -> None:
    await every_worker_recovers(FailedOver(sentinel), start_sidecar, clock_ms, emptied=False)


@CLOCKS
async def test_every_worker_recovers_in_a_cluster(start_sidecar: StartSidecar, clock_ms: int) -> None:
    cluster = started(RedisCluster)
    try:
        await every_worker_recovers(TakenOver(cluster), start_sidecar, clock_ms, emptied=False)
    finally:
        cluster.close()


async def test_what_was_written_since_the_point_that_survives_is_lost(start_server: ServerFactory) -> None:
    loss = promoted(start_server)
    async with claimq.connect(settings=claimq.RedisSettings(loss.url, retry_for=60.0)) as store:
        queue = store.queue("q", worker="w")
        await queue.enqueue_many([NewItem(text, id=text) for text in ("ended", "claimed", "waiting")])
        (ended,) = await queue.claim(1, wait=0)
        await asyncio.to_thread(loss.mark)
        assert [one.verdict for one in await queue.done(ended)] == [Verdict.DONE]
        (claimed,) = await queue.claim(1, wait=0)
        await queue.enqueue("enqueued", id="enqueued")
        await asyncio.to_thread(loss.lose)
        assert await queue.find("enqueued") is None
        assert [one.verdict for one in await queue.done(claimed)] == [Verdict.LOST]
        assert texts(await queue.claim(9, wait=0)) == ["claimed", "waiting"]
        assert [one.verdict for one in await queue.done(ended)] == [Verdict.DONE]
