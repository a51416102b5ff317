"""`durability: replicated`: an enqueue returns when a replica has the items, and says so when none has."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import pytest
import redis
from prometheus_client import CollectorRegistry

import claimq
import claimq.blocking
from claimq import (
    Durability,
    Enqueued,
    EnqueuedItem,
    NewItem,
    NotReplicated,
    Policy,
    ReliableQueue,
    State,
    Verdict,
)
from claimq.metrics import ConsumerMetrics
from testkit.plugin import ServerFactory, started
from testkit.servers.cluster import RedisCluster
from testkit.servers.data_losses import cut_off, info
from testkit.servers.patient import open_blocking_queue, open_queue, open_server
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE, eventually, eventually_sync
from testkit.workers.sidecars import StartSidecar

REPLICATED = Policy(durability=Durability.REPLICATED)


@pytest.fixture
def pair(start_server: ServerFactory) -> tuple[Server, Server]:
    """A primary and its replica."""
    return make_pair(start_server, {})


def make_pair(start_server: ServerFactory, options: dict[str, str]) -> tuple[Server, Server]:
    primary = start_server("valkey", {"repl-diskless-sync-delay": "0", **options}, tcp=True)
    replica = start_server("valkey", {"replicaof": f"127.0.0.1 {primary.port}", **options}, tcp=True)
    return primary, replica


@pytest.fixture
async def store(pair: tuple[Server, Server]) -> AsyncIterator[claimq.Server]:
    async with open_server(pair[0].url) as made:
        yield made


async def enqueue_until_confirmed(queue: ReliableQueue, text: str) -> None:
    """With an id of its own, so that repeating it adds nothing."""

    async def is_confirmed() -> bool:
        try:
            await queue.enqueue(text, id=text)
        except NotReplicated:
            return False
        return True

    await eventually(is_confirmed, why="a replica confirms")


async def test_an_enqueue_returns_when_a_replica_has_the_item(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q")
    await queue.set_policy(REPLICATED)
    for number in range(20):
        await enqueue_until_confirmed(queue, f"item-{number}")
        assert pair[1].call("LLEN", "cq:{q}:main") == number + 1


async def test_an_enqueue_that_no_replica_confirms_is_not_known_and_may_be_repeated(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q")
    await queue.set_policy(REPLICATED)
    await enqueue_until_confirmed(queue, "first")
    pair[1].sigstop()
    for _ in range(2):
        with pytest.raises(NotReplicated, match="it is not confirmed in 2000 ms that a replica has it"):
            await queue.enqueue("mine", id="mine")
    with pytest.raises(NotReplicated):
        await store.enqueue({"q": [NewItem("other", id="other")]})
    assert await queue.length() == 3
    pair[1].sigcont()
    await enqueue_until_confirmed(queue, "mine")
    assert pair[1].call("LLEN", "cq:{q}:main") == 3
    assert await queue.length() == 3


async def test_a_replica_that_was_cut_off_confirms_nothing(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q")
    await queue.set_policy(REPLICATED)
    await enqueue_until_confirmed(queue, "first")
    await asyncio.to_thread(cut_off, pair[0], [pair[1]])
    with pytest.raises(NotReplicated) as one:
        await queue.enqueue("mine", id="mine")
    assert one.value.result == EnqueuedItem("mine", 2)
    with pytest.raises(NotReplicated) as many:
        await queue.enqueue_many(["a", "b"])
    assert len(cast("Enqueued", many.value.result).ids) == 2
    with pytest.raises(NotReplicated) as several:
        await store.enqueue({"q": [NewItem("c", id="c")]})
    assert several.value.result == {"q": Enqueued(("c",), 5)}


async def test_without_the_policy_nothing_waits(pair: tuple[Server, Server], store: claimq.Server) -> None:
    queue = store.queue("q")
    await queue.set_policy(REPLICATED)
    await enqueue_until_confirmed(queue, "first")
    pair[1].sigstop()
    await queue.update_policy(durability=Durability.PRIMARY)
    await queue.enqueue("second")
    (claim, _) = await queue.claim(2, wait=0)
    await queue.update_policy(durability=Durability.REPLICATED)
    assert (await queue.done(claim))[0].verdict is Verdict.DONE


async def test_a_stricter_policy_holds_for_the_next_call(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q")
    await queue.set_policy(REPLICATED)
    await enqueue_until_confirmed(queue, "first")
    await queue.update_policy(durability=Durability.FSYNCED, appendfsync_always=True)
    with pytest.raises(NotReplicated, match="needs appendonly yes"):
        await queue.enqueue("second")


async def test_a_done_waits_too_where_the_policy_says_so(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q", worker="w")
    await queue.set_policy(Policy(durability=Durability.REPLICATED, durable_done=True))
    for text in ("first", "second", "third"):
        await enqueue_until_confirmed(queue, text)
    first, second, third = await queue.claim(3, wait=0)
    pair[1].sigstop()
    for claim, followers in ((first, []), (second, ["follower"])):
        with pytest.raises(NotReplicated) as caught:
            await queue.done(claim, enqueue=followers)
        outcomes = cast("list[claimq.Outcome]", caught.value.result)
        assert [outcome.verdict for outcome in outcomes] == [Verdict.DONE]
    assert await queue.lengths() == {State.MAIN: 1, State.BUSY: 1, State.DELAYED: 0, State.FAILED: 0}
    pair[1].sigcont()
    await eventually(lambda: pair[1].call("LLEN", "cq:{q}:main") == 1)
    claims = [third]

    async def is_confirmed() -> bool:
        """Each try ends another claim: an item that waits is claimed before it."""
        claim = claims.pop() if claims else (await queue.claim(wait=0))[0]
        try:
            outcomes = await queue.done(claim, enqueue=["another"])
        except NotReplicated:
            return False
        return outcomes[0].verdict is Verdict.DONE

    await eventually(is_confirmed, why="a replica confirms")


async def test_consume_counts_a_done_that_no_replica_confirms_as_done(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    """It is stored. Another call would find the claim lost."""
    queue = store.queue("q", worker="w")
    await queue.set_policy(Policy(durability=Durability.REPLICATED, durable_done=True))
    await enqueue_until_confirmed(queue, "first")
    metrics = ConsumerMetrics(registry=(registry := CollectorRegistry()))
    consumed = await queue.consume(lambda _: pair[1].sigstop(), max_items=1, observer=metrics)
    pair[1].sigcont()
    assert (consumed.done, consumed.lost) == (1, 0)
    labels = {"queue": "q", "verdict": "done"}
    assert registry.get_sample_value("claimq_consumer_verdicts_total", labels) == 1
    labels = {"queue": "q", "kind": "unavailable"}
    assert registry.get_sample_value("claimq_consumer_store_errors_total", labels) == 1


async def test_verdicts_wait_for_no_replica_if_only_new_items_have_to(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    def waits() -> int:
        found = re.search(rb"cmdstat_wait:calls=(\d+)", cast("bytes", pair[0].call("INFO", "commandstats")))
        return int(found[1]) if found else 0

    queue = store.queue("q", worker="w")
    await queue.set_policy(REPLICATED)
    for text in ("first", "second", "third"):
        await enqueue_until_confirmed(queue, text)
    before = waits()
    assert before > 0
    first, second, third = await queue.claim(3, wait=0)
    await queue.done(first)
    await queue.fail(second, "no")
    assert waits() == before
    with suppress(NotReplicated):  # the replica may be late
        await queue.enqueue("fourth")
    assert waits() == before + 1, "the level of new items is still known, so they are sent once"
    with suppress(NotReplicated):
        await queue.done(third, enqueue=["follower"])
    assert waits() == before + 2


async def test_an_enqueue_waits_for_as_many_replicas_as_the_policy_says(
    pair: tuple[Server, Server], start_server: ServerFactory, store: claimq.Server
) -> None:
    other = start_server("valkey", {"replicaof": f"127.0.0.1 {pair[0].port}"})
    queue = store.queue("q")
    await queue.set_policy(Policy(durability=Durability.REPLICATED, durability_replicas=2))
    await enqueue_until_confirmed(queue, "first")
    assert [one.call("LLEN", "cq:{q}:main") for one in (pair[1], other)] == [1, 1]
    other.sigstop()
    with pytest.raises(NotReplicated, match="that 2 replicas have it"):
        await queue.enqueue("second")
    await queue.update_policy(durability_replicas=1)
    await enqueue_until_confirmed(queue, "third")


async def test_fsynced_waits_for_the_disks(start_server: ServerFactory) -> None:
    primary, replica = make_pair(start_server, dict(DURABLE))
    async with open_queue(primary.url) as queue:
        await queue.set_policy(Policy(durability=Durability.FSYNCED, appendfsync_always=True))
        await enqueue_until_confirmed(queue, "first")
        replica.call("CONFIG", "SET", "appendonly", "no")
        with pytest.raises(NotReplicated, match="on the disks of the primary and of a replica"):
            await queue.enqueue("second")


async def test_fsynced_on_a_server_without_appendonly_says_what_to_set(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q")
    await queue.set_policy(Policy(durability=Durability.FSYNCED, appendfsync_always=True))
    with pytest.raises(
        NotReplicated, match=r"refused WAITAOF: .* needs appendonly yes on the server; set it"
    ) as one:
        await queue.enqueue("first", id="first")
    assert one.value.result == EnqueuedItem("first", 1)
    assert "role:master" in info(pair[0])


async def test_items_are_stored_once_where_the_server_refuses_to_wait(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    """Enqueues at the same time share a call, and none is made again."""
    queue = store.queue("q")
    await queue.set_policy(Policy(durability=Durability.FSYNCED, appendfsync_always=True))
    errors = await asyncio.gather(*(queue.enqueue(str(n)) for n in range(20)), return_exceptions=True)
    stored = [error.result for error in errors if isinstance(error, NotReplicated)]
    ids = {one.id for one in stored if isinstance(one, EnqueuedItem)}
    assert len(ids) == 20
    assert {item.id for item in await queue.peek(99)} == ids
    assert await queue.length() == 20


async def test_a_done_is_stored_where_the_server_refuses_to_wait(
    pair: tuple[Server, Server], store: claimq.Server
) -> None:
    queue = store.queue("q", worker="w")
    await queue.enqueue("first")
    await queue.set_policy(Policy(durability=Durability.FSYNCED, appendfsync_always=True, durable_done=True))
    with pytest.raises(NotReplicated, match=r"^done: the primary has carried it out") as caught:
        await queue.done(await queue.claim())
    outcomes = cast("list[claimq.Outcome]", caught.value.result)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.DONE]
    assert await queue.length(State.BUSY) == 0


async def test_a_primary_without_replicas_confirms_nothing(start_server: ServerFactory) -> None:
    with open_blocking_queue(start_server("redis7").url) as queue:
        queue.set_policy(REPLICATED)
        with pytest.raises(NotReplicated):
            queue.enqueue("first")
        assert queue.length() == 1


def test_a_blocking_client_of_the_callers_own_waits_for_a_replica(pair: tuple[Server, Server]) -> None:
    client = redis.Redis.from_url(pair[0].url, socket_timeout=PATIENCE)
    with claimq.blocking.connect(client=client) as store:
        queue = store.queue("q")
        queue.set_policy(REPLICATED)

        def is_confirmed() -> bool:
            try:
                return queue.enqueue("first", id="first").length == 1
            except NotReplicated:
                return False

        eventually_sync(is_confirmed, why="a replica confirms")
        assert pair[1].call("LLEN", "cq:{q}:main") == 1
        cut_off(pair[0], [pair[1]])
        with pytest.raises(NotReplicated):
            queue.enqueue("second")
        assert queue.length() == 2
    client.close()


async def test_behind_sentinel(sentinel: Sentinel) -> None:
    async with open_queue(sentinel.url) as queue:
        await queue.set_policy(REPLICATED)
        await enqueue_until_confirmed(queue, "first")
        primary = sentinel.primary()
        replicas = [one for one in sentinel.servers if one is not primary]
        assert 1 in [one.call("LLEN", "cq:{q}:main") for one in replicas]
        await asyncio.to_thread(cut_off, primary, replicas)
        with pytest.raises(NotReplicated):
            await queue.enqueue("second")


async def test_in_a_cluster() -> None:
    cluster = started(RedisCluster)
    try:
        owner = cluster.owner("cq:{q}:main")
        replica = await asyncio.to_thread(cluster.add_replica, owner)
        async with open_queue(cluster.url) as queue:
            await queue.set_policy(REPLICATED)
            await enqueue_until_confirmed(queue, "first")
            replica.call("DEBUG", "SLEEP", "0")
            await asyncio.to_thread(cut_off, owner, [replica])
            with pytest.raises(NotReplicated):
                await queue.enqueue("second")
            assert await queue.length() == 2
            await queue.update_policy(durability=Durability.FSYNCED, appendfsync_always=True)
            with pytest.raises(NotReplicated, match="needs appendonly yes"):
                await queue.enqueue("third")
            assert await queue.length() == 3
    finally:
        cluster.close()


async def test_a_sidecar_answers_that_it_is_not_known(
    pair: tuple[Server, Server], store: claimq.Server, start_sidecar: StartSidecar
) -> None:
    queue = store.queue("q")
    await queue.set_policy(Policy(durability=Durability.REPLICATED, durable_done=True))
    await enqueue_until_confirmed(queue, "first")
    sidecar = await asyncio.to_thread(start_sidecar, pair[0].url)
    (claim,) = await asyncio.to_thread(sidecar.claim)
    pair[1].sigstop()
    body = {"items": [{"payload": "mine", "id": "mine"}]}
    answer = await asyncio.to_thread(sidecar.ask, "POST", "/v1/enqueue", body)
    assert (answer.status, "not confirmed" in answer.json["detail"]) == (503, True)
    ended = await asyncio.to_thread(sidecar.ask, "POST", "/v1/done", {"tokens": [claim["token"]]})
    assert ended.status == 503
    pair[1].sigcont()

    async def again() -> bool:
        done = await asyncio.to_thread(sidecar.ask, "POST", "/v1/done", {"tokens": [claim["token"]]})
        assert done.status == 200, done.body  # 503 while the replica is late
        return [one["outcome"] for one in done.json["outcomes"]] == ["already_done"]

    await eventually(again)
    assert sidecar.info["in_flight"] == 0
