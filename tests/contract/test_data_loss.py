"""The data goes back or is gone, with claims under way: what an old token, call or memory can do to the new data."""

import pytest

import claimq
from claimq import Claim, Policy, ReliableQueue, State, StoreUnavailable, Verdict
from claimq.internals.operations import internals
from testkit.plugin import FLAVOURS, ServerFactory
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually

HOUR_MS = 3_600_000
STATS = "cq:{q}:stats"
VERBS = ["done", "done with followers", "fail", "requeue", "unclaim", "crash", "renew"]


def now_ms(server: Server) -> int:
    time = server.call("TIME")
    assert isinstance(time, list)
    seconds, micro = (int(str(part, "ascii")) for part in time if isinstance(part, bytes))
    return seconds * 1000 + micro // 1000


async def judge(queue: ReliableQueue, verb: str, claim: Claim) -> Verdict:
    calls = {
        "done": lambda: queue.done(claim),
        "done with followers": lambda: queue.done(claim, enqueue=["follower"]),
        "fail": lambda: queue.fail(claim, "broken", permanent=True),
        "requeue": lambda: queue.requeue(claim),
        "unclaim": lambda: queue.unclaim(claim),
        "crash": lambda: queue.crash(claim, "killed"),
        "renew": lambda: queue.renew(claim),
    }
    (outcome,) = await calls[verb]()
    return outcome.verdict


async def lose_all(server: Server, queue: ReliableQueue, how: str) -> None:
    """The queue's data is gone; with `behind` and `ahead` the new data's clock is an hour off the old one's."""
    if how == "deleted and recreated":
        await queue.flush()
        await queue.delete()
        return
    server.call("FLUSHALL")
    if how != "flushed":
        server.call("HSET", STATS, "clock_offset", str(HOUR_MS if how == "ahead" else -HOUR_MS))


@pytest.mark.parametrize("how", ["flushed", "deleted and recreated", "behind", "ahead"])
async def test_a_token_from_before_the_loss_never_ends_a_claim_after_it(
    server: Server, queue: ReliableQueue, how: str
) -> None:
    await queue.set_policy(Policy(busy_expiry=20))
    await queue.enqueue_many(["old"] * 3)
    old = await queue.claim(3, wait=0)
    await lose_all(server, queue, how)
    await queue.enqueue_many(["new"] * 3)
    new = await queue.claim(3, wait=0)
    assert {claim.token for claim in old}.isdisjoint(claim.token for claim in new)
    before = (await queue.items(State.BUSY))[0].lease_until
    for verb in VERBS:
        assert [await judge(queue, verb, claim) for claim in old] == [Verdict.LOST] * 3
    assert [await judge(queue, "renew", claim) for claim in new] == [Verdict.RENEWED] * 3
    assert before is not None
    assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 3, State.DELAYED: 0, State.FAILED: 0}
    assert [outcome.verdict for outcome in await queue.done(new)] == [Verdict.DONE] * 3


async def test_claims_with_equal_numbers_are_distinguished_by_their_nonces(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("old")
    (old,) = await queue.claim(wait=0)
    copy = {key: server.call("DUMP", key) for key in (STATS, "cq:{q}:main")}
    assert copy[STATS]
    server.call("FLUSHALL")
    server.call("HSET", STATS, "number", str(old.number - 1), "clock_offset", str(-HOUR_MS))
    await queue.enqueue("new")
    (new,) = await queue.claim(wait=0)
    assert new.number == old.number
    assert await judge(queue, "done", old) is Verdict.LOST
    assert await judge(queue, "done", new) is Verdict.DONE


@pytest.mark.parametrize("how", ["flushed", "deleted and recreated", "ahead"])
async def test_numbers_go_on_growing_over_a_loss_of_all_data(
    server: Server, queue: ReliableQueue, how: str
) -> None:
    await queue.enqueue_many(["old"] * 1000)
    old = await queue.claim(1000, wait=0)
    last = max(claim.number for claim in old)
    await eventually(lambda: now_ms(server) * 1000 > last)
    await lose_all(server, queue, how)
    await queue.enqueue("new")
    (new,) = await queue.claim(wait=0)
    assert new.number > last


async def test_a_repeated_claim_call_finds_nothing_of_other_data(
    server: Server, store: claimq.Server, queue: ReliableQueue
) -> None:
    """The reply that the server kept names tokens, and those of a recreated queue are others."""
    connection = store._connection
    call = connection.lanes.take()
    await queue.enqueue("old")
    await queue.claim(wait=0)
    await queue.enqueue("old")
    words: list[str | int] = [*call, "w1", 1, "AAAAAAAA", connection.incarnations["cq:{q}:main"]]
    assert (await connection.run("claim", ["cq:{q}:main"], words))[0] == b"OK"
    await lose_all(server, queue, "deleted and recreated")
    await queue.enqueue("new")
    (new,) = await queue.claim(wait=0)
    again = await connection.run("claim", ["cq:{q}:main"], words)
    assert again[2:] == [None]
    assert await judge(queue, "done", new) is Verdict.DONE


@pytest.mark.parametrize("how", ["flushed", "deleted and recreated"])
@pytest.mark.parametrize("before", ["claimed", "found nothing", "first"])
async def test_a_withdrawn_claim_that_arrives_after_the_loss_claims_nothing(
    server: Server, store: claimq.Server, queue: ReliableQueue, how: str, before: str
) -> None:
    """The reply that was kept to make it stale is lost, too."""
    if before == "claimed":
        await queue.enqueue("old")
    if before != "first":
        await queue.claim(wait=0)
    connection = store._connection
    late = connection.lanes.take()
    known = connection.incarnations.get("cq:{q}:main", "")
    await connection.run("withdraw", ["cq:{q}:main"], [*connection.lanes.next_on(late), late[2]])
    await lose_all(server, queue, how)
    server.call("DEL", f"cq:{{q}}:calls:{connection.lanes.instance}")
    await store.queue("q", worker="another").enqueue("new")
    async with open_server(server.url) as another:
        claims = await another.queue("q", worker="w2").claim(wait=0)
        await another.queue("q", worker="w2").unclaim(claims)
    said = await connection.run("claim", ["cq:{q}:main"], [*late, "w1", 1, "AAAAAAAA", known])
    assert said[0] == b"LOST"
    assert (await queue.lengths())[State.MAIN] == 1
    assert texts(await queue.claim(wait=0)) == ["new"]


@pytest.mark.parametrize("others", ["claimed", "did nothing"])
async def test_a_first_claim_that_arrives_after_the_loss_claims_nothing(
    server: Server, store: claimq.Server, queue: ReliableQueue, others: str
) -> None:
    """Also where no claim has named the new data yet."""
    late = store._connection.lanes.take()
    await store._connection.run(
        "withdraw", ["cq:{q}:main"], [*store._connection.lanes.next_on(late), late[2]]
    )
    server.call("FLUSHALL")
    await queue.enqueue("new")
    if others == "claimed":
        async with open_server(server.url) as another:
            claims = await another.queue("q", worker="w2").claim(wait=0)
            await another.queue("q", worker="w2").unclaim(claims)
    said = await store._connection.run("claim", ["cq:{q}:main"], [*late, "w1", 1, "AAAAAAAA", ""])
    assert said[0] == b"LOST"
    assert (await queue.lengths())[State.BUSY] == 0
    assert texts(await queue.claim(wait=0)) == ["new"]


@pytest.mark.parametrize("pause", [0, 0.2])
async def test_a_worker_goes_on_after_a_loss_of_everything_without_an_error(
    server: Server, queue: ReliableQueue, pause: float
) -> None:
    await queue.enqueue("old")
    assert await queue.claim(wait=0)
    server.call("FLUSHALL")
    assert await queue.claim(wait=pause) == []
    await queue.enqueue("new")
    assert texts(await queue.claim(wait=pause)) == ["new"]


@pytest.fixture
def durable(request: pytest.FixtureRequest, start_server: ServerFactory) -> Server:
    return start_server(request.param, DURABLE)


@pytest.mark.parametrize("durable", FLAVOURS, indirect=True)
async def test_a_claim_sent_to_a_server_that_was_replaced_claims_nothing_of_the_new_one(
    durable: Server,
) -> None:
    """Its withdrawal may be among what the replacement lost: a failover, a restart, an older backup."""
    async with open_server(durable.url) as store:
        queue, connection = store.queue("q", worker="w1"), store._connection
        await queue.enqueue_many(["a", "b"])
        await queue.claim(wait=0)
        late, known = connection.lanes.take(), connection.incarnations["cq:{q}:main"]
        durable.kill9()
        durable.start()
        await queue.enqueue("c")
        said = await connection.run("claim", ["cq:{q}:main"], [*late, "w1", 1, "AAAAAAAA", known])
        assert said[0] == b"LOST"
        assert (await queue.lengths())[State.BUSY] == 1
        assert texts(await queue.claim(9, wait=0)) == ["b", "c"]


@pytest.mark.parametrize("durable", FLAVOURS, indirect=True)
async def test_a_lease_of_a_server_that_was_replaced_counts_nothing_when_it_ends(durable: Server) -> None:
    async with open_queue(durable.url, worker="w1") as queue:
        await queue.set_policy(Policy(busy_expiry=20, requeue_limit=0))
        await queue.enqueue_many(["forgotten", "renewed", "waiting"])
        forgotten, renewed = await queue.claim(2, wait=0)
        durable.kill9()
        durable.start()
        await internals(queue).wake()
        await move_clock(queue, 2)
        await queue.renew(renewed)
        await move_clock(queue, 60)
        first, second = await queue.reap(), await queue.reap()
        assert [(one.token, one.verdict) for one in first.expired] == [(forgotten.token, Verdict.UNCLAIMED)]
        assert first.more
        assert [(one.token, one.verdict) for one in second.expired] == [(renewed.token, Verdict.FAILED)]
        next_one, _ = await queue.claim(2, wait=0)
        item = next_one.item
        assert (item.text, item.crash_count, item.requeue_count, item.interrupted_count) == (
            "forgotten",
            0,
            0,
            1,
        )
        assert item.history[-1].error == "the lease of w1 ran out after the server was replaced"
        stats = await queue.stats()
        assert (stats["expired"], stats["crashes"]) == (1, 1)


@pytest.mark.parametrize("durable", FLAVOURS, indirect=True)
async def test_a_claim_of_the_present_server_counts_as_a_crash_when_it_ends(durable: Server) -> None:
    async with open_queue(durable.url, worker="w1") as queue:
        await queue.enqueue("a")
        durable.kill9()
        durable.start()
        await internals(queue).wake()
        await move_clock(queue, 2)
        await queue.claim(wait=0)
        await move_clock(queue, 60)
        (expired,) = (await queue.reap()).expired
        assert expired.verdict is Verdict.REQUEUED
        assert (await queue.peek())[0].crash_count == 1


@pytest.mark.parametrize("how", ["flushed", "deleted and recreated"])
async def test_a_loss_of_everything_takes_the_policy_and_a_pause_along(
    server: Server, queue: ReliableQueue, how: str
) -> None:
    await queue.set_policy(Policy(requeue_limit=1))
    await queue.pause()
    await queue.enqueue("old")
    await lose_all(server, queue, how)
    assert await queue.policy() == Policy()
    snapshot = await queue.snapshot()
    assert (snapshot.paused, snapshot.lengths[State.MAIN]) == (False, 0)


def copies_of_keys(server: Server) -> dict[str, bytes]:
    keys = server.call("KEYS", "cq:{q}:*")
    assert isinstance(keys, list)
    copies = {key.decode(): server.call("DUMP", key) for key in keys if isinstance(key, bytes)}
    return {key: copy for key, copy in copies.items() if isinstance(copy, bytes)}


def restore(server: Server, copies: dict[str, bytes]) -> None:
    server.call("FLUSHALL")
    for key, copy in copies.items():
        server.call("RESTORE", key, "0", copy)


async def test_a_lease_that_comes_back_with_older_keys_counts_as_expired(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(busy_expiry=20))
    await queue.enqueue("a")
    (claim,) = await queue.claim(wait=0)
    copies = copies_of_keys(server)
    assert await judge(queue, "done", claim) is Verdict.DONE
    restore(server, copies)
    await move_clock(queue, 21)
    await queue.reap()
    (item,) = await queue.peek()
    assert (item.text, item.crash_count, item.interrupted_count) == ("a", 1, 0)
    assert (await queue.stats())["expired"] == 1


async def test_a_withdrawn_claim_takes_items_of_restored_keys_until_its_lease_ends(
    server: Server, store: claimq.Server, queue: ReliableQueue
) -> None:
    """The data has its old name again, and has forgotten that the call was withdrawn."""
    await queue.set_policy(Policy(busy_expiry=20))
    await queue.enqueue("a")
    await queue.unclaim(await queue.claim(wait=0))
    connection, copies = store._connection, copies_of_keys(server)
    late = connection.lanes.take()
    await connection.run("withdraw", ["cq:{q}:main"], [*connection.lanes.next_on(late), late[2]])
    words: list[str | int] = [*late, "w1", 1, "AAAAAAAA", connection.incarnations["cq:{q}:main"]]
    with pytest.raises(StoreUnavailable, match="a later call on the same lane has run"):
        await connection.run("claim", ["cq:{q}:main"], words)
    restore(server, copies)
    assert (await connection.run("claim", ["cq:{q}:main"], words))[0] == b"OK"
    assert (await queue.lengths())[State.BUSY] == 1
    await move_clock(queue, 21)
    assert texts(await queue.claim(wait=0)) == ["a"]


def address_of_process(server: Server) -> str:
    """By which the scripts know the server's process again."""
    address = server.call("EVAL", "return tostring(redis)", "0")
    assert isinstance(address, bytes)
    return address.decode()


async def test_after_a_flush_of_scripts_a_crash_is_not_counted(server: Server, queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=20, requeue_limit=0))
    await queue.enqueue("a")
    await queue.claim(wait=0)
    before = address_of_process(server)
    for _ in range(100):
        server.call("SCRIPT", "FLUSH")
        if address_of_process(server) != before:
            break
    else:  # Redis 8.2 with jemalloc gives the scripts the same memory again
        server.call("HSET", STATS, "server", "another")
    await move_clock(queue, 21)
    assert [one.verdict for one in (await queue.reap()).expired] == [Verdict.UNCLAIMED]
    (item,) = await queue.peek()
    assert (item.crash_count, item.interrupted_count) == (0, 1)


@pytest.mark.parametrize("durable", FLAVOURS, indirect=True)
async def test_a_server_that_looks_like_the_last_one_counts_a_lost_verdict_as_a_crash(
    durable: Server,
) -> None:
    """As where memory addresses are not randomized. What is not stored here is the worker's verdict."""
    async with open_queue(durable.url, worker="w1") as queue:
        await queue.set_policy(Policy(busy_expiry=20))
        await queue.enqueue("a")
        await queue.claim(wait=0)
        durable.kill9()
        durable.start()
        durable.call("HSET", STATS, "server", address_of_process(durable))
        await move_clock(queue, 21)
        await queue.reap()
        (item,) = await queue.peek()
        assert (item.crash_count, item.interrupted_count) == (1, 0)
