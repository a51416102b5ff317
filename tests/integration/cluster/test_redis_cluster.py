"""The operations on a three-node Redis Cluster: each queue in one slot, several queues where they share one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import partial

import pytest

import claimq
from claimq import State, Verdict
from claimq.errors import CrossSlot, StoreMisused, StoreUnavailable
from claimq.internals.several_queues import snapshots_of
from claimq.internals.work_watch import WorkWatch
from claimq.model import Reason
from testkit.plugin import started
from testkit.queues.looking import texts
from testkit.queues.retries import retrying_at_once
from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_queue, open_server, patient
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

Move = Callable[[RedisCluster, str, Server], None]


@pytest.fixture
async def store(redis_cluster: RedisCluster) -> AsyncIterator[claimq.Server]:
    async with open_server(redis_cluster.url) as server:
        yield server


def names_on(cluster: RedisCluster, node: Server, count: int) -> list[str]:
    """Queues that live on a node."""
    names = (f"queue-{number}" for number in range(200))
    return [name for name in names if cluster.owner(f"cq:{{{name}}}:main") is node][:count]


async def test_every_verb_works_on_whichever_node_has_the_queue(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    for node in redis_cluster.nodes:
        (name,) = names_on(redis_cluster, node, 1)
        queue = store.queue(name, worker="w")
        await queue.set_policy(retrying_at_once(requeue_limit=1))
        await queue.enqueue_many(
            [b"%d" % k for k in range(9)] + [claimq.NewItem(b"later", delay=100.0, client="c")]
        )
        claims = await queue.claim(8)
        assert [claim.item.payload for claim in claims] == [b"%d" % k for k in range(8)]
        assert [one.verdict for one in await queue.renew(claims[0])] == [Verdict.RENEWED]
        assert [one.verdict for one in await queue.done(claims[0], enqueue=[b"next"])] == [Verdict.DONE]
        assert [one.verdict for one in await queue.fail(claims[1], "no")] == [Verdict.REQUEUED]
        assert [one.verdict for one in await queue.fail(claims[2], "never", permanent=True)] == [
            Verdict.FAILED
        ]
        assert [one.verdict for one in await queue.requeue(claims[3], delay=50.0)] == [Verdict.DELAYED]
        assert [one.verdict for one in await queue.unclaim(claims[4])] == [Verdict.UNCLAIMED]
        assert [one.verdict for one in await queue.crash(claims[5], "it died")] == [Verdict.REQUEUED]
        assert (await queue.release_worker("w", Reason.INTERRUPTED)).unclaimed == 2
        assert (await queue.reap()).expired == ()
        assert [item.payload for item in await queue.peek(3)] == [b"4", b"6", b"7"]
        assert await queue.lengths() == {State.MAIN: 7, State.BUSY: 0, State.DELAYED: 2, State.FAILED: 1}
        located = await queue.find((await queue.items("failed"))[0].item.id)
        assert located is not None
        assert located.item.last_error == "never"
        assert await queue.requeue_failed() == 1
        assert (await queue.memory_usage()).queue_bytes > 0
        assert [info.worker for info in await queue.workers()] == ["w"]
        assert node.call("EXISTS", f"cq:{{{name}}}:stats") == 1
        assert await queue.flush() == {State.MAIN: 8, State.BUSY: 0, State.DELAYED: 2, State.FAILED: 0}


async def test_a_blocked_claim_wakes_at_an_enqueue(store: claimq.Server) -> None:
    queue = store.queue("woken")
    waiting = asyncio.create_task(queue.claim(wait=20))
    await eventually(lambda: len(asyncio.all_tasks()) > 1)
    await queue.enqueue(b"x")
    async with asyncio.timeout(PATIENCE):
        claims = await waiting
    assert [claim.item.payload for claim in claims] == [b"x"]


async def test_a_process_that_consumes_is_present_on_the_node_of_its_queue(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    for node in redis_cluster.nodes:
        (name,) = names_on(redis_cluster, node, 1)
        queue, present = store.queue(name), f"cq:{{{name}}}:present"

        async def waits(_: claimq.Item, node: Server = node, present: str = present) -> None:
            await eventually(lambda: node.call("ZCARD", present) == 1)

        await queue.enqueue("x")
        assert (await queue.consume(waits, max_items=1)).done == 1
        await eventually(lambda node=node, present=present: node.call("EXISTS", present) == 0)  # type: ignore[misc]  # mypy does not infer a lambda with defaults


async def test_queues_of_one_slot_are_filled_in_one_step(store: claimq.Server) -> None:
    done = await store.enqueue({"same": [b"1", b"2"]})
    assert done["same"].length == 2


async def test_queues_of_different_slots_are_refused_and_nothing_is_stored(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    one, other = (names_on(redis_cluster, node, 1)[0] for node in redis_cluster.nodes[:2])
    with pytest.raises(CrossSlot, match="one call per queue"):
        await store.enqueue({one: [b"x"], other: [b"y"]})
    assert [await store.queue(name).length() for name in (one, other)] == [0, 0]


async def test_also_queues_of_different_slots_on_one_node_are_refused(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    one, other = names_on(redis_cluster, redis_cluster.nodes[0], 2)
    with pytest.raises(CrossSlot, match="one call per queue"):
        await store.enqueue({one: [b"x"], other: [b"y"]})


async def test_followers_for_another_slot_are_refused_and_the_claim_stays_held(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    one, other = (names_on(redis_cluster, node, 1)[0] for node in redis_cluster.nodes[:2])
    queue = store.queue(one)
    await queue.enqueue(b"x")
    (claim,) = await queue.claim()
    with pytest.raises(CrossSlot):
        await queue.done(claim, enqueue={other: [b"y"]})
    assert await queue.length("busy") == 1
    assert [outcome.verdict for outcome in await queue.done(claim)] == [Verdict.DONE]


MOVES = pytest.mark.parametrize(
    "move", [RedisCluster.move_slot, RedisCluster.migrate_slot], ids=["by keys", "whole"]
)


@MOVES
async def test_a_slot_that_moves_takes_its_queue_along(
    redis_cluster: RedisCluster, store: claimq.Server, move: Move
) -> None:
    queue = store.queue("moved", worker="w")
    await queue.enqueue_many([b"1", b"2", b"3"])
    (first,) = await queue.claim()
    key = "cq:{moved}:main"
    new = next(node for node in redis_cluster.nodes if node is not redis_cluster.owner(key))
    await asyncio.to_thread(move, redis_cluster, key, new)
    assert [outcome.verdict for outcome in await queue.done(first)] == [Verdict.DONE]
    assert [claim.item.payload for claim in await queue.claim(5)] == [b"2", b"3"]
    assert new.call("EXISTS", "cq:{moved}:stats") == 1


@MOVES
async def test_work_goes_on_while_slots_move_and_every_item_is_done_once(
    redis_cluster: RedisCluster, store: claimq.Server, move: Move
) -> None:
    queue = store.queue("moving", worker="w")
    await queue.enqueue_many([b"%d" % k for k in range(200)])
    done: list[bytes] = []

    async def work() -> None:
        while claims := await queue.claim(5, wait=0):
            outcomes = await queue.done(claims)
            done.extend(
                c.item.payload for c, one in zip(claims, outcomes, strict=True) if one.verdict == "done"
            )

    working = asyncio.create_task(work())
    for node in (*redis_cluster.nodes, redis_cluster.nodes[0]):
        if redis_cluster.owner("cq:{moving}:main") is not node:
            await asyncio.to_thread(move, redis_cluster, "cq:{moving}:main", node)
    await working
    assert sorted(done, key=int) == [b"%d" % k for k in range(200)]


async def test_nothing_runs_on_half_a_queue_while_its_keys_move_one_by_one(
    redis_cluster: RedisCluster,
) -> None:
    key = "cq:{halved}:main"
    old, slot = redis_cluster.owner(key), redis_cluster.slot(key)
    new = next(node for node in redis_cluster.nodes if node is not old)
    settings = patient(redis_cluster.url, retry_for=0.3)
    async with claimq.connect(settings=settings) as impatient:
        queue = impatient.queue("halved", worker="w")
        await queue.enqueue_many([b"1", b"2"])
        (held,) = await queue.claim()
        new.call("CLUSTER", "SETSLOT", slot, "IMPORTING", _id(old))
        old.call("CLUSTER", "SETSLOT", slot, "MIGRATING", _id(new))
        old.call(
            "MIGRATE", "127.0.0.1", new.port, "", 0, 60_000, "KEYS", "cq:{halved}:stats", "cq:{halved}:leases"
        )
        for call in (lambda: queue.enqueue(b"3"), lambda: queue.claim(wait=0), lambda: queue.done(held)):
            with pytest.raises(StoreUnavailable):
                await call()
        old.call("MIGRATE", "127.0.0.1", new.port, "", 0, 60_000, "KEYS", key)
        with pytest.raises(StoreUnavailable):
            await queue.claim(wait=0)
        redis_cluster.move_slot(key, new)
        assert await queue.lengths() == {State.MAIN: 1, State.BUSY: 1, State.DELAYED: 0, State.FAILED: 0}
        (claim,) = await queue.claim()
        assert (claim.number > held.number, claim.item.payload) == (True, b"2")
        assert [one.verdict for one in await queue.done([held, claim])] == [Verdict.DONE, Verdict.DONE]


async def is_stored(queue: claimq.ReliableQueue) -> bool:
    """Whether an enqueue has an answer. A busy machine may need longer than short timeouts."""
    try:
        await queue.enqueue(b"x")
    except StoreUnavailable:
        return False
    return True


async def test_a_close_after_an_error_leaves_no_connection(redis_cluster: RedisCluster) -> None:
    def connections() -> int:
        listed = [node.call("CLIENT", "LIST") for node in redis_cluster.nodes]
        return sum(one.count(b"name=claimq") for one in listed if isinstance(one, bytes))

    await eventually(lambda: connections() == 0)
    settings = claimq.RedisSettings(redis_cluster.url, retry_for=0.5, reply_timeout=0.5)
    store = claimq.connect(settings=settings)
    silent, *_ = redis_cluster.nodes
    for node in redis_cluster.nodes:
        (name,) = names_on(redis_cluster, node, 1)
        await eventually(partial(is_stored, store.queue(name)))
    (name,) = names_on(redis_cluster, silent, 1)
    silent.sigstop()
    try:
        with pytest.raises(StoreUnavailable):
            await store.queue(name).enqueue(b"y")
        await store.close()
    finally:
        silent.sigcont()
    await eventually(lambda: connections() == 0)


async def test_a_dead_node_takes_down_its_own_queues_alone(redis_cluster: RedisCluster) -> None:
    for node in redis_cluster.nodes:
        node.call("CONFIG", "SET", "cluster-require-full-coverage", "no")
    dead, alive = redis_cluster.nodes[:2]
    (lost,), (served,) = (names_on(redis_cluster, node, 1) for node in (dead, alive))
    settings = claimq.RedisSettings(redis_cluster.url, retry_for=1.0, connect_timeout=1.0, reply_timeout=1.0)
    async with claimq.connect(settings=settings) as store:
        await eventually(lambda: is_stored(store.queue(lost)))
        dead.kill9()
        with pytest.raises(StoreUnavailable):
            await store.queue(lost).enqueue(b"y")
        await eventually(lambda: is_stored(store.queue(served)))
    redis_cluster.start()
    for node in redis_cluster.nodes:
        node.call("CONFIG", "SET", "cluster-require-full-coverage", "yes")


def _id(node: Server) -> bytes:
    own = node.call("CLUSTER", "MYID")
    assert isinstance(own, bytes)
    return own


async def test_queues_of_all_nodes_are_watched_for_their_first_items(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    names = [names_on(redis_cluster, node, 1)[0] for node in redis_cluster.nodes]
    work, noticed = WorkWatch(store.connection), {name: asyncio.Event() for name in names}
    with ExitStack() as watches:
        for name, event in noticed.items():
            watches.enter_context(work.watch(store.queue(name), event.set))
        for name in names:
            assert not noticed[name].is_set()
            await store.queue(name).enqueue("a")
            async with asyncio.timeout(PATIENCE):
                await noticed[name].wait()
    await work.close()


async def test_the_password_goes_to_the_nodes_that_a_node_reports() -> None:
    cluster = started(RedisCluster)
    try:
        (name,) = names_on(cluster, cluster.nodes[2], 1)
        for node in cluster.nodes:
            node.call("CONFIG", "SET", "requirepass", "s3cret-of-a-test")
        url = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
        settings = patient(url, password="s3cret-of-a-test")
        async with claimq.connect(settings=settings) as server:
            await server.queue(name).enqueue("a")
            assert texts(await server.queue(name).peek()) == ["a"]
        async with open_queue(url, name) as queue:
            with pytest.raises(claimq.StoreMisused, match="password"):
                await queue.length()
    finally:
        cluster.close()


async def test_the_report_of_a_cluster_has_the_value_of_appendfsync(
    redis_cluster: RedisCluster, store: claimq.Server
) -> None:
    report = await store.report()
    assert (report.mode, report.appendfsync) == ("cluster", "everysec")
    messages = {one.code: one.message for one in report.warnings}
    assert messages["FsyncNotAlways"].startswith("appendfsync is everysec: ")
    assert "ClusterNotDeclared" not in messages


async def test_the_address_of_one_node_alone_is_refused_with_the_field(redis_cluster: RedisCluster) -> None:
    node = redis_cluster.nodes[0]
    async with open_server(f"redis://127.0.0.1:{node.port}") as single:
        assert (
            "spec.redis.cluster: true"
            in {one.code: one.message for one in (await single.report()).warnings}["ClusterNotDeclared"]
        )
        (other,) = names_on(redis_cluster, redis_cluster.nodes[1], 1)
        with pytest.raises(
            StoreMisused, match=r"redis\+cluster://host:port, or set spec.redis.cluster: true"
        ):
            await single.queue(other).enqueue("x")


async def test_queues_of_a_node_whose_address_names_no_cluster_are_looked_at(
    redis_cluster: RedisCluster,
) -> None:
    node = redis_cluster.nodes[0]
    names = names_on(redis_cluster, node, 7)
    async with open_server(f"redis://127.0.0.1:{node.port}") as single:
        for name in names:
            await single.queue(name).enqueue("x")
        snapshots = await snapshots_of(single.connection, names)
    assert [snapshot.lengths[State.MAIN] for snapshot in snapshots] == [1] * 7
