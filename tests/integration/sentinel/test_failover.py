"""Behind Sentinel: a failover under load costs a pause, never an item's attempt, and no process is restarted.

Replication is asynchronous, so a primary that dies may take along what it had acknowledged last (docs/guarantees.md).
These tests wait for the replicas before each kill, and show apart what `min-replicas-to-write` bounds.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

import claimq
from claimq import Verdict
from claimq.errors import StoreUnavailable
from testkit.plugin import started
from testkit.programs.ports import free_port
from testkit.queues.looking import texts
from testkit.servers.patient import open_queue, open_server, patient
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually, eventually_sync

ITEMS = 300


@pytest.fixture
async def store(sentinel: Sentinel) -> AsyncIterator[claimq.Server]:
    async with connected(sentinel) as server:
        yield server


def connected(sentinel: Sentinel) -> claimq.Server:
    return open_server(sentinel.url)


def is_replicated(sentinel: Sentinel) -> bool:
    """Whether all replicas have all that the primary wrote."""
    text = sentinel.primary().call("INFO", "replication")
    assert isinstance(text, bytes)
    lines = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    followers = [value for name, value in lines.items() if name.startswith("slave") and "offset=" in value]
    return len(followers) >= 1 and all(
        f"offset={lines['master_repl_offset']}," in value for value in followers
    )


async def work(queue: claimq.ReliableQueue, done: list[str], stop: asyncio.Event) -> list[claimq.Claim]:
    """Claims and ends claims until asked to stop; what a failover threw away of our claims is reported lost."""
    seen: list[claimq.Claim] = []
    while not stop.is_set():
        claims = await queue.claim(3, wait=0.2)
        seen += claims
        outcomes = await queue.done(claims)
        done += [c.item.text for c, one in zip(claims, outcomes, strict=True) if one.verdict is Verdict.DONE]
    return seen


async def run_under_load(store: claimq.Server, sentinel: Sentinel, change: object) -> list[claimq.Claim]:
    """Enqueues and works while the primary changes; returns all claims that were given."""
    queue = store.queue("load", worker="w")
    await queue.set_policy(
        claimq.Policy(busy_expiry=600)
    )  # a slow machine's failover may last longer than a lease
    items = [f"i{k}" for k in range(ITEMS)]
    await queue.enqueue_many([claimq.NewItem(item, id=item) for item in items])
    await eventually(lambda: is_replicated(sentinel), why="the replicas have the items")
    done: list[str] = []
    stop = asyncio.Event()
    working = asyncio.create_task(work(queue, done, stop))
    await eventually(lambda: len(done) > 20)
    assert callable(change)
    await asyncio.to_thread(change)
    before = len(done)
    more = [f"n{k}" for k in range(50)]

    async def all_are_done() -> bool:
        # A second failover, which sentinels add on a busy machine, loses what was just enqueued. Ids may be repeated.
        await queue.enqueue_many([claimq.NewItem(item, id=item) for item in more if item not in done])
        return set(items) | set(more) <= set(done)

    await eventually(all_are_done, why="every item is done")
    assert len(done) > before
    stop.set()
    return await working


async def test_after_the_primary_is_killed_claims_resume_and_nothing_counts_as_a_failure(
    sentinel: Sentinel, store: claimq.Server
) -> None:
    claims = await run_under_load(store, sentinel, sentinel.fail_over)
    assert {(claim.item.fail_count, claim.item.interrupted_count) for claim in claims} == {(0, 0)}
    assert (await store.queue("load").stats())["fails"] == 0
    assert await store.queue("load").length("failed") == 0


async def test_a_demoted_primary_says_readonly_and_no_item_pays_for_it(
    sentinel: Sentinel, store: claimq.Server
) -> None:
    claims = await run_under_load(store, sentinel, sentinel.hand_over)
    assert {(claim.item.fail_count, claim.item.crash_count) for claim in claims} == {(0, 0)}
    assert await store.queue("load").length("failed") == 0


async def test_a_blocked_claim_outlives_a_failover(sentinel: Sentinel, store: claimq.Server) -> None:
    queue = store.queue("blocked", worker="w")
    waiting = asyncio.create_task(queue.claim(wait=PATIENCE))
    await eventually(lambda: len(asyncio.all_tasks()) > 1)
    await asyncio.sleep(0)
    await asyncio.to_thread(sentinel.fail_over)
    for _ in range(200):  # a second failover, which sentinels sometimes add, may lose what was just enqueued
        await queue.enqueue(b"x")
        if (await asyncio.wait({waiting}, timeout=1))[0]:
            break
    (claim,) = waiting.result()
    assert claim.item.payload == b"x"


async def test_a_process_that_consumes_is_present_again_after_a_failover(
    sentinel: Sentinel, store: claimq.Server
) -> None:
    def is_present() -> bool:
        primary = sentinel.primary()
        channels = primary.call("PUBSUB", "CHANNELS", "cq:*")
        assert isinstance(channels, list)
        return len(channels) == 1 and primary.call("ZCARD", "cq:{q}:present") == 1

    async def outlives_a_failover(_: claimq.Item) -> None:
        await eventually(is_present)
        await asyncio.to_thread(sentinel.fail_over)
        await eventually(is_present, why="it has announced itself to the new primary")

    queue = store.queue("q")
    await queue.set_policy(claimq.Policy(busy_expiry=600))
    await queue.enqueue("x")
    await eventually(lambda: is_replicated(sentinel))
    assert (await queue.consume(outlives_a_failover, max_items=1)).stopped_by == "max_items"


async def test_tokens_keep_growing_over_a_failover(sentinel: Sentinel, store: claimq.Server) -> None:
    queue = store.queue("tokens", worker="w")
    await queue.set_policy(claimq.Policy(busy_expiry=600))
    await queue.enqueue_many([b"1", b"2"])
    (old,) = await queue.claim()
    await eventually(lambda: is_replicated(sentinel))
    await asyncio.to_thread(sentinel.fail_over)
    (new,) = await queue.claim(wait=PATIENCE)
    assert new.number > old.number
    assert [one.verdict for one in await queue.done([old, new])] == [Verdict.DONE, Verdict.DONE]


async def test_with_min_replicas_a_primary_alone_refuses_instead_of_promising(sentinel: Sentinel) -> None:
    primary = sentinel.primary()
    primary.call("CONFIG", "SET", "min-replicas-to-write", "1")
    primary.call("CONFIG", "SET", "min-replicas-max-lag", "1")
    hasty = patient(sentinel.url, retry_for=0.5)
    async with claimq.connect(settings=hasty) as short, connected(sentinel) as store:
        queue = store.queue("careful")
        await queue.enqueue(b"kept")
        for replica in sentinel.servers:
            if replica is not primary:
                replica.sigstop()
        await eventually(lambda: _refuses(primary), why="the primary knows that it is alone")
        with pytest.raises(StoreUnavailable, match="min-replicas-to-write"):
            await short.queue("careful").enqueue(b"refused")
        for replica in sentinel.servers:
            replica.sigcont()
        await eventually(lambda: not _refuses(primary))
        assert (await queue.enqueue(b"kept too")).length == 2


def _refuses(primary: Server) -> bool:
    text = primary.call("INFO", "replication")
    assert isinstance(text, bytes)
    return b"min_slaves_good_slaves:0" in text


def test_the_sentinels_themselves_may_die_but_one() -> None:
    made = started(Sentinel)
    try:
        for watcher in made.sentinels[:2]:
            watcher.kill9()
        settings = claimq.RedisSettings(made.url, retry_for=60.0, connect_timeout=5.0)

        async def enqueue() -> int:
            async with claimq.connect(settings=settings) as store:
                return (await store.queue("q").enqueue(b"x")).length

        assert asyncio.run(enqueue()) == 1
        eventually_sync(lambda: made.sentinels[2].is_running)
    finally:
        made.close()


async def test_readonly_is_waited_out_on_an_open_connection_and_counted_on_no_item(server: Server) -> None:
    async with open_queue(server.url, worker="w") as queue:
        await queue.enqueue_many([b"1", b"2"])
        claims = await queue.claim(1)
        await queue.renew(claims)
        server.call(
            "REPLICAOF", "127.0.0.1", free_port()
        )  # of a port without a server: it keeps its data and refuses writes
        ending = asyncio.create_task(queue.done(claims))
        claiming = asyncio.create_task(queue.claim(1))
        enqueueing = asyncio.create_task(queue.enqueue(b"3"))
        await eventually(lambda: b"errorstat_READONLY" in _errors(server), why="a call was refused")
        assert not any(call.done() for call in (ending, claiming, enqueueing))
        server.call("REPLICAOF", "NO", "ONE")
        async with asyncio.timeout(PATIENCE):
            assert [one.verdict for one in await ending] == [Verdict.DONE]
            # Which of the two comes first is open: an item that waits is claimed either way.
            assert [(one.item.payload, one.item.requeue_count) for one in await claiming] == [(b"2", 0)]
            await enqueueing
        assert await queue.length() == 1
        assert (await queue.stats())["fails"] == 0


def _errors(server: Server) -> bytes:
    text = server.call("INFO", "errorstats")
    assert isinstance(text, bytes)
    return text


async def test_the_password_goes_to_the_servers_that_a_sentinel_reports(sentinel: Sentinel) -> None:
    secret = "s3cret-of-a-test"
    for server in sentinel.servers:
        server.call("CONFIG", "SET", "masterauth", secret, "requirepass", secret)
    settings = patient(sentinel.url, password=secret)
    async with claimq.connect(settings=settings) as store:
        await store.queue("q").enqueue("a")
        assert texts(await store.queue("q").peek()) == ["a"]
