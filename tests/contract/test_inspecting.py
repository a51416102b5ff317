"""Looking: lengths, ages, peek, items, find, workers, memory. None of it changes anything."""

import asyncio

import pytest

import claimq
from claimq import COUNTERS, InvalidName, NewItem, Policy, ReliableQueue, State
from testkit.queues.clock import Near, move_clock
from testkit.queues.looking import Lengths, lengths, texts, waiting
from testkit.servers.contents import changes, contents
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def in_every_state(queue: ReliableQueue) -> str:
    """Items m (main), b (busy), d (delayed), f (failed), each with its letter as its id. Returns the token of b."""
    await queue.enqueue_many([NewItem("f", id="f"), NewItem("b", id="b")])
    f, b = await queue.claim(2, wait=0)
    await queue.fail(f, "broken", permanent=True)
    await queue.enqueue("m", id="m")
    await queue.enqueue("d", id="d", delay=60)
    return b.token


async def test_an_empty_queue_has_no_items_and_no_ages(queue: ReliableQueue) -> None:
    snapshot = await queue.snapshot()
    assert snapshot.lengths == dict.fromkeys(State, 0)
    assert snapshot.ages == dict.fromkeys(State, None)
    assert (snapshot.seq, snapshot.next_due_in, snapshot.paused) == (0, None, False)
    assert snapshot.counters == dict.fromkeys(COUNTERS, 0)
    assert await queue.peek(9) == []
    assert await queue.workers() == []


async def test_lengths_count_what_is_in_each_state(queue: ReliableQueue) -> None:
    await in_every_state(queue)
    assert await lengths(queue) == Lengths(1, 1, 1, 1)
    assert [await queue.length(state) for state in State] == [1, 1, 1, 1]
    assert await queue.length("main") == await queue.length() == 1


async def test_lengths_of_clients_and_priorities_are_those_of_a_snapshot(queue: ReliableQueue) -> None:
    await in_every_state(queue)
    await queue.enqueue_many(
        [
            NewItem("x", client=client, priority=priority)
            for client in (None, "ann")
            for priority in ("high", "normal", "low")
        ]
    )
    assert await queue.lengths() == (await queue.snapshot()).lengths
    assert await lengths(queue) == Lengths(7, 1, 1, 1)


async def test_main_counts_items_with_and_without_a_client(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["a", NewItem("b", client="ann"), NewItem("c", client="bob"), "d"])
    assert await queue.length() == 4
    await queue.claim(3, wait=0)
    assert await queue.length() == 1


async def test_an_unknown_state_is_refused(queue: ReliableQueue) -> None:
    for call in (queue.length("pending"), queue.age("pending"), queue.items("pending")):
        with pytest.raises(ValueError, match="pending"):
            await call


async def test_ages_are_those_of_the_oldest(queue: ReliableQueue, near: Near) -> None:
    await queue.enqueue_many([NewItem("f", id="f"), "b"])
    f, _ = await queue.claim(2, wait=0)
    await move_clock(queue, 10)
    await queue.fail(f, "broken", permanent=True)
    await queue.enqueue("m1")
    await move_clock(queue, 5)
    await queue.enqueue("m2", client="ann")
    ages = (await queue.snapshot()).ages
    assert ages[State.BUSY] == near(15)
    assert ages[State.FAILED] == near(5)
    assert ages[State.MAIN] == near(5)
    assert await queue.age() == near(5)
    assert await queue.age(State.DELAYED) is None


async def test_the_age_of_main_is_the_oldest_of_all_clients(queue: ReliableQueue, near: Near) -> None:
    for client in ("ann", "bob", None):
        await queue.enqueue("x", client=client)
        await move_clock(queue, 10)
    assert await queue.age() == near(30)
    assert texts(await queue.claim(wait=0)) == ["x"]
    assert await queue.age() == near(20)


async def test_renewing_keeps_the_age_of_busy_and_a_new_claim_of_the_item_restarts_it(
    queue: ReliableQueue, near: Near
) -> None:
    await queue.enqueue("a")
    (claim,) = await queue.claim(wait=0)
    await move_clock(queue, 20)
    await queue.renew(claim)
    await move_clock(queue, 20)
    assert await queue.age(State.BUSY) == near(40)
    await queue.unclaim(claim)
    await queue.claim(wait=0)
    assert await queue.age(State.BUSY) == near(0)


async def test_the_age_of_busy_is_right_also_while_one_of_a_batch_goes_on(
    queue: ReliableQueue, near: Near
) -> None:
    await queue.enqueue_many(list("abcdef"))
    first = await queue.claim(3, wait=0)
    await move_clock(queue, 10)
    second = await queue.claim(3, wait=0)
    await queue.done([first[0], first[2], second[0]])
    assert await queue.age(State.BUSY) == near(10)
    await queue.done(first[1])
    assert await queue.age(State.BUSY) == near(0)
    await queue.done(second)
    assert await queue.age(State.BUSY) is None


async def test_the_age_of_delayed_is_how_long_the_most_overdue_is_late(
    queue: ReliableQueue, near: Near
) -> None:
    await queue.enqueue_many([NewItem("a", delay=10), NewItem("b", delay=30)])
    snapshot = await queue.snapshot()
    assert snapshot.ages[State.DELAYED] == 0
    assert snapshot.next_due_in == near(10)
    await move_clock(queue, 25)
    snapshot = await queue.snapshot()
    assert snapshot.ages[State.DELAYED] == near(15)
    assert snapshot.next_due_in == 0


async def test_delayed_items_of_the_next_seconds_are_due_soon(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(str(seconds), delay=seconds) for seconds in (10, 12, 40)])
    assert (await queue.snapshot()).due_soon == 2
    await move_clock(queue, 11)
    assert (await queue.snapshot()).due_soon == 1  # one is due now, and one is far away
    await move_clock(queue, 20)
    assert (await queue.snapshot()).due_soon == 1


async def test_peek_shows_what_would_be_claimed_in_that_order_and_takes_nothing(queue: ReliableQueue) -> None:
    await queue.enqueue_many(
        [NewItem(f"{client}{n}", client=client) for client in ("ann", "bob") for n in range(3)]
    )
    await queue.enqueue_many(["x", "y"])
    shown = await waiting(queue)
    assert await waiting(queue) == shown
    assert texts(await queue.peek(2, offset=3)) == shown[3:5]
    assert texts(await queue.peek(99, offset=6)) == shown[6:]
    assert await queue.peek(0) == await queue.peek(-1) == []
    assert texts(await queue.claim(99, wait=0)) == shown


async def test_peek_at_one_client_shows_only_its_items_in_order(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(text, client=text[0]) for text in ("a1", "b1", "a2", "a3")])
    await queue.enqueue("without a client")
    assert texts(await queue.peek(9, client="a")) == ["a1", "a2", "a3"]
    assert texts(await queue.peek(1, offset=1, client="a")) == ["a2"]
    assert texts(await queue.peek(9, client="c")) == []
    with pytest.raises(InvalidName):
        await queue.peek(client="no such:name")


async def test_peek_of_bare_and_plain_items_without_clients(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("ab"))
    server.call("LPUSH", "cq:{q}:main", "bare")
    assert texts(await queue.peek(2, offset=1)) == ["b", "bare"]


async def test_items_of_each_state_are_listed_with_what_is_known(queue: ReliableQueue, near: Near) -> None:
    await queue.set_policy(Policy(busy_expiry=20))
    token = await in_every_state(queue)
    (main,) = await queue.items(State.MAIN)
    assert (main.item.text, main.state, main.worker) == ("m", State.MAIN, None)
    (busy,) = await queue.items("busy")
    assert (busy.item.text, busy.state, busy.worker, busy.name) == ("b", State.BUSY, "w1", token)
    assert busy.lease_until is not None
    assert busy.claimed_at is not None
    assert busy.lease_until - busy.claimed_at == pytest.approx(20)
    (delayed,) = await queue.items(State.DELAYED)
    assert delayed.item.text == "d"
    assert delayed.due_at == near((await queue.snapshot()).now + 60)
    (failed,) = await queue.items(State.FAILED)
    assert (failed.item.text, failed.item.last_error, failed.name) == ("f", "broken", "f")
    assert failed.failed_at is not None


async def test_busy_items_know_since_when_each_is_held_by_any_worker(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcdef"))
    claims = await queue.claim(2, wait=0)
    await move_clock(queue, 10)
    claims += await other_worker.claim(3, wait=0)
    await move_clock(queue, 10)
    claims += await queue.claim(1, wait=0)
    shown = {located.name: located for located in await queue.items(State.BUSY)}
    for claim in claims:
        assert shown[claim.token].claimed_at == pytest.approx(claim.claimed_at, abs=0.002)
        assert shown[claim.token].worker == claim.worker


@pytest.mark.parametrize("state", [State.BUSY, State.DELAYED, State.FAILED, State.MAIN])
async def test_pages_cover_a_state_without_gap_or_overlap(queue: ReliableQueue, state: State) -> None:
    await queue.enqueue_many(
        [NewItem(str(n), delay=n + 1 if state is State.DELAYED else None) for n in range(25)]
    )
    if state in (State.BUSY, State.FAILED):
        claims = await queue.claim(25, wait=0)
        if state is State.FAILED:
            await queue.fail(claims, "no", permanent=True)
    pages = [await queue.items(state, 7, offset=offset) for offset in range(0, 28, 7)]
    shown = [located.item.text for page in pages for located in page]
    assert len(shown) == len(set(shown)) == 25
    if state in (State.MAIN, State.DELAYED):
        assert shown == [str(number) for number in range(25)]
    assert await queue.items(state, 0) == []


async def test_find_returns_where_an_item_is_in_every_state(queue: ReliableQueue) -> None:
    token = await in_every_state(queue)
    for item_id, state in (("m", State.MAIN), ("b", State.BUSY), ("d", State.DELAYED), ("f", State.FAILED)):
        located = await queue.find(item_id)
        assert located is not None, item_id
        assert (located.item.text, located.state) == (item_id, state)
    busy = await queue.find("b")
    assert busy is not None
    assert (busy.worker, busy.name) == ("w1", token)
    assert busy.claimed_at is not None
    failed = await queue.find("f")
    assert failed is not None
    assert failed.item.history[0].error == "broken"


@pytest.mark.parametrize("wanted", ["never", "", "m m", "-", "cq1", "m\n"])
async def test_find_of_what_is_not_there_is_none(queue: ReliableQueue, wanted: str) -> None:
    await in_every_state(queue)
    assert await queue.find(wanted) is None


async def test_find_does_not_take_a_payload_or_the_beginning_of_an_id_for_an_id(queue: ReliableQueue) -> None:
    await queue.enqueue_many(
        [NewItem("wanted", id="other"), NewItem("x", id="wanted2"), NewItem("cq1 wanted 1 - -\n", id="y")]
    )
    assert await queue.find("wanted") is None
    assert await queue.find("wanted2") is not None


async def test_find_looks_through_clients_and_long_lists(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 6000)
    await queue.enqueue("y", id="deep")
    await queue.enqueue("z", id="client's", client="ann")
    deep, clients = await queue.find("deep"), await queue.find("client's")
    assert deep is not None
    assert clients is not None
    assert (deep.item.text, clients.item.text, clients.item.client) == ("y", "z", "ann")


async def test_find_of_an_item_that_has_crashed_a_worker(queue: ReliableQueue) -> None:
    await queue.enqueue("a", id="mine")
    await queue.crash(await queue.claim(wait=0), "killed")
    located = await queue.find("mine")
    assert located is not None
    assert located.item.crash_count == 1


async def test_an_item_that_moves_on_is_found_wherever_it_goes(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    """It circles through all states while it is looked for; it is in the queue at every instant."""
    await queue.set_policy(Policy(requeue_limit=10**6))
    await queue.enqueue("a", id="moving")
    stop = asyncio.Event()

    async def circle() -> None:
        while not stop.is_set():
            (claim,) = await queue.claim(wait=1)
            await queue.unclaim(claim)
            (claim,) = await queue.claim(wait=1)
            await queue.fail(claim, "no", permanent=True)
            await queue.requeue_failed_item("moving")
            await asyncio.sleep(0.02)

    circling = asyncio.ensure_future(circle())
    looks = [await store.queue("q").find("moving") for _ in range(50)]
    stop.set()
    await circling
    assert any(looks)
    assert await store.queue("q").find("moving")


async def test_workers_are_listed_with_what_they_hold_and_when_they_were_seen(
    queue: ReliableQueue, other_worker: ReliableQueue, near: Near
) -> None:
    await queue.set_policy(Policy(busy_expiry=1000))
    await queue.enqueue_many(list("abc"))
    await queue.claim(1, wait=0)
    await move_clock(queue, 100)
    claims = await other_worker.claim(2, wait=0)
    many, one = await queue.workers()
    assert (many.worker, many.busy, one.worker, one.busy) == ("w2", 2, "w1", 1)
    assert many.last_seen_at - one.last_seen_at == near(100)
    await other_worker.done(claims)
    assert [(worker.worker, worker.busy) for worker in await queue.workers()] == [("w1", 1), ("w2", 0)]


async def test_a_worker_that_only_asks_is_seen_too(queue: ReliableQueue) -> None:
    await queue.claim(wait=0)
    assert [(worker.worker, worker.busy) for worker in await queue.workers()] == [("w1", 0)]


async def test_counters_add_up(queue: ReliableQueue) -> None:
    await in_every_state(queue)
    await queue.done(await queue.claim(wait=0))
    stats = await queue.stats()
    now = await lengths(queue)
    assert stats["enqueued"] == sum(now) + stats["done"]
    assert {name: total for name, total in stats.items() if total} == {
        "enqueued": 4, "claimed": 3, "done": 1, "fails": 1, "failed": 1,
    }  # fmt: skip
    assert tuple(stats) == COUNTERS


@pytest.mark.frozen_clock(False)
async def test_looking_changes_nothing(server: Server, queue: ReliableQueue) -> None:
    await in_every_state(queue)
    before = contents(server)
    await queue.snapshot()
    await queue.peek(9)
    for state in State:
        await queue.items(state)
        await queue.age(state)
    for item_id in ("m", "b", "d", "f", "never"):
        await queue.find(item_id)
    await queue.workers()
    await queue.clients()
    await queue.memory_usage()
    await queue.longest_claims()
    await queue.failed_item("f")
    await queue.policy()
    assert changes(before, contents(server)) == {}


async def test_the_report_says_what_is_unsafe_and_what_to_set(server: Server, store: claimq.Server) -> None:
    report = await store.report()
    assert (report.flavour, report.mode) == (
        "valkey" if server.flavour.startswith("valkey") else "redis",
        "standalone",
    )
    assert tuple(int(part) for part in report.version.split(".")) == server.version
    messages = {warning.code: warning.message for warning in report.warnings}
    assert "appendonly yes" in messages["NoAppendOnly"]
    assert "set it to always" in messages["FsyncNotAlways"]
    assert "SIGKILL of the server too" in messages["FsyncNotAlways"]
    server.call("CONFIG", "SET", "appendfsync", "no")
    messages = {warning.code: warning.message for warning in (await store.report()).warnings}
    assert messages["FsyncNotAlways"].startswith(
        "appendfsync is no: a power loss can lose the last second or more;"
    )
    server.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    server.call("CONFIG", "SET", "appendonly", "yes")
    server.call("CONFIG", "SET", "appendfsync", "always")
    server.call("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes")
    messages = {warning.code: warning.message for warning in (await store.report()).warnings}
    assert "set it to noeviction" in messages["EvictionPolicy"]
    assert "FsyncNotAlways" not in messages
    assert "NoAppendOnly" not in messages
    assert "set it to no" in messages["FsyncPauses"]
    server.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    server.call("CONFIG", "SET", "no-appendfsync-on-rewrite", "no")
    assert (await store.report()).warnings == ()


async def test_the_report_says_that_the_server_is_full_and_what_helps(
    server: Server, store: claimq.Server
) -> None:
    assert "Full" not in [warning.code for warning in (await store.report()).warnings]
    server.call("CONFIG", "SET", "maxmemory", "1")
    messages = {warning.code: warning.message for warning in (await store.report()).warnings}
    assert "give it more memory" in messages["Full"]
    server.call("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    assert "Full" not in [warning.code for warning in (await store.report()).warnings]


@pytest.mark.parametrize(("score", "due_in"), [("inf", None), ("-inf", 0)])
async def test_a_delayed_item_of_another_redis_client_may_have_an_infinite_score(
    server: Server, queue: ReliableQueue, score: str, due_in: float | None
) -> None:
    await queue.pause()
    server.call("ZADD", "cq:{q}:delayed", score, "foreign")
    snapshot = await queue.snapshot()
    assert (snapshot.lengths[State.DELAYED], snapshot.next_due_in) == (1, due_in)
    assert snapshot.ages[State.DELAYED] == (0 if due_in is None else snapshot.now)
    assert (await queue._claim_once(1, None)).next_due_in == due_in
    assert await queue.claim(wait=0) == []
