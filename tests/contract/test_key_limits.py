"""Limits per key: how many items of each key start in a time, or are in progress at once."""

import random
from datetime import timedelta

import pytest

from claimq import Done, Limit, NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from claimq.waiting.reasons import WaitReason
from testkit.checkers.starts import RandomClaims, fullest
from testkit.queues.clock import move_clock
from testkit.queues.looking import lengths, texts
from testkit.queues.script_calls import claim_once
from testkit.servers.server import Server
from testkit.workers.ends import ENDS, End

pytestmark = pytest.mark.frozen_clock(True)
RATE = Limit("api", rate="1/s", burst=2, per="key")
SLOW = Limit("api", rate="1/h", burst=2, per="key")
WIDE = Limit("slots", busy=9, per="key")
DAY = timedelta(days=1)


async def filled(queue: ReliableQueue, *limits: Limit, keys: str = "aaaa", client: str | None = None) -> None:
    """Items with the texts and ids a0, a1, ..., whose keys are their first letters."""
    await queue.update_policy(limits=limits, busy_expiry=DAY)
    names = [(f"{key}{number}", key) for number, key in enumerate(keys)]
    await queue.enqueue_many(NewItem(name, id=name, key=key, client=client) for name, key in names)


async def claimed(queue: ReliableQueue, count: int = 10) -> str:
    return " ".join(texts(await queue.claim(count, wait=0)))


async def started(queue: ReliableQueue, calls: int = 6) -> str:
    """What several claims start; each lets the next item of a key go."""
    return " ".join(filter(None, [await claimed(queue) for _ in range(calls)]))


async def test_as_many_items_of_a_key_are_busy_as_its_bound(queue: ReliableQueue) -> None:
    await filled(queue, Limit("slots", busy=2, per="key"), keys="aaaabb")
    claims = await queue.claim(10, wait=0)
    assert texts(claims) == ["a0", "a1", "b4", "b5"]
    assert await started(queue) == ""
    await queue.done(claims[:1])
    assert await started(queue) == "a2"
    await queue.done(claims[1:])
    assert await started(queue) == "a3"


async def test_the_smallest_bound_holds_and_one_without_a_bound(queue: ReliableQueue) -> None:
    await filled(queue, Limit("x", busy=3, per="key"), Limit("y", busy=2, per="key"))
    assert await started(queue) == "a0 a1"
    await queue.flush()
    await filled(queue, Limit("api", rate="9/s", burst=9, per="key"), Limit("y", busy=9))
    assert await started(queue) == "a0"


async def end_by_lease(queue: ReliableQueue) -> None:
    await move_clock(queue, 86_401)
    await queue.reap()


KEY_ENDS: dict[str, End] = {
    **ENDS,
    "done, and enqueue": lambda queue, claims: queue.done([Done(claim, [NewItem("x")]) for claim in claims]),
    "done, and claim": lambda queue, claims: next_claims(queue).done_and_claim(claims),
    "lease": lambda queue, _: end_by_lease(queue),
}


@pytest.mark.parametrize("end", list(KEY_ENDS))
async def test_every_end_frees_the_key_for_as_many_others(
    queue: ReliableQueue, other_worker: ReliableQueue, end: str
) -> None:
    await filled(queue, Limit("slots", busy=3, per="key"), keys="aaaaaaaaa")
    claims = await queue.claim(10, wait=0)
    assert (len(claims), await started(other_worker)) == (3, "")
    await KEY_ENDS[end](queue, claims)
    rest = [name for name in (await started(other_worker)).split(" ") if name.startswith("a")]
    assert len(rest) == (2 if end == "done, and claim" else 3)


async def test_items_of_a_key_start_at_its_rate(queue: ReliableQueue) -> None:
    await filled(queue, RATE, WIDE, keys="aaaab")
    assert await started(queue) == "a0 a1 b4"
    await move_clock(queue, 0.999)
    assert await started(queue) == ""
    await move_clock(queue, 0.001)
    assert await started(queue) == "a2"
    await move_clock(queue, 5)
    assert await started(queue) == "a3"


async def test_the_only_item_of_a_key_at_a_time_starts_at_the_rate(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, RATE)
    for name in ("a0", "a1"):
        claims = await queue.claim(10, wait=0)
        assert texts(claims) == [name]
        server.call("DEL", "cq:{q}:wake")
        await queue.done(claims)
    assert await lengths(queue) == (0, 0, 2, 0)  # the end lets no item go that may not start
    assert server.call("LLEN", "cq:{q}:wake") == 1  # for a worker that waits for the instant
    assert await started(queue) == ""
    await move_clock(queue, 1)
    assert await started(queue) == "a2"
    await move_clock(queue, 9)
    assert await started(queue) == ""


@pytest.mark.parametrize("client", [None, "ann"])
async def test_a_key_at_its_limit_holds_nothing_else_back(queue: ReliableQueue, client: str | None) -> None:
    await filled(queue, SLOW, keys="a" * 300, client=client)
    while (await queue.claim(10, wait=0)) or (await lengths(queue)).main:
        pass
    assert (await lengths(queue)).delayed >= 298
    await queue.enqueue_many(NewItem(key, key=key, client=client) for key in "bacad")
    assert await started(queue) == "b c d"
    assert (await lengths(queue)).main == 0


async def test_a_claim_says_when_the_next_item_of_a_key_may_start(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, RATE, WIDE, keys="aaa")
    assert await started(queue) == "a0 a1"
    reply = await claim_once(queue, server, 1)
    assert (reply[0], int(reply[3]) - int(reply[1]), reply[5]) == (b"EMPTY", 1000, 2)
    server.call("HSET", "cq:{q}:stats", "limits_waiter", f"{int(reply[3])} w9")
    assert (await claim_once(queue, server, 1))[3] == b""  # another worker waits for that


async def test_a_reap_lets_items_go_that_their_keys_may_start(queue: ReliableQueue) -> None:
    await filled(queue, RATE, WIDE, keys="aaabbb")
    assert await started(queue) == "a0 a1 b3 b4"
    snapshot = await queue.snapshot()
    assert (snapshot.next_due_in, snapshot.due_soon) == (1.0, 2)
    await move_clock(queue, 1)
    await queue.reap()
    assert (await lengths(queue)).main == 2
    assert (await queue.snapshot()).next_due_in is None


@pytest.mark.parametrize("is_temporary", [False, True])
@pytest.mark.parametrize("change", ["removed", "raised", "without the rate"])
async def test_items_go_on_when_what_holds_them_back_is_changed(
    queue: ReliableQueue, change: str, is_temporary: bool
) -> None:
    keys = [f"k{number}" for number in range(150)]
    day, slots = Limit("api", rate="1/d", per="key"), Limit("slots", busy=2, per="key")
    await queue.update_policy(limits=[day, slots])
    if is_temporary:
        await queue.update_policy(limits=[] if change == "removed" else [slots])
        await queue.set_limit(day, until=timedelta(seconds=60))
    await queue.enqueue_many(NewItem(key, key=key) for key in keys * 4)
    count = 0
    while claims := await queue.claim(500, wait=0):
        count += len(claims)
        await queue.done(claims)
    assert count == 150
    match change:
        case _ if is_temporary:
            await move_clock(queue, 60)
        case "removed":
            await queue.update_policy(limits=[])
        case "raised":
            await queue.update_policy(limits=[Limit("api", rate="9/s", burst=9, per="key"), slots])
        case _:
            await queue.update_policy(limits=[slots])
    for _ in range(100):
        claims = await queue.claim(500, wait=0)
        count += len(claims)
        await queue.done(claims)
    assert count == 600


async def test_a_bound_is_raised_and_lowered_while_items_are_held_back(queue: ReliableQueue) -> None:
    await filled(queue, keys="aaaaaaaa")
    claims = await queue.claim(10, wait=0)
    assert texts(claims) == ["a0"]
    await queue.update_policy(limits=[Limit("slots", busy=3, per="key")])
    assert await started(queue) == "a1 a2"
    await queue.update_policy(limits=[Limit("slots", busy=2, per="key")])
    await queue.done(claims)
    assert await started(queue) == ""
    await queue.update_policy(limits=[])
    assert await started(queue) == ""
    await queue.release_worker("w1")
    assert await started(queue) == "a3"


async def test_items_given_back_before_their_app_began_give_their_starts_back(queue: ReliableQueue) -> None:
    await filled(queue, SLOW, WIDE, keys="aaabb")
    claims = await queue.claim(10, wait=0)
    assert (texts(claims), await started(queue)) == (["a0", "a1", "b3", "b4"], "")
    await queue.unclaim(claims[1:])
    assert await started(queue) == "a1 b3 b4"


async def test_an_item_that_started_without_the_limit_gives_no_start_back(queue: ReliableQueue) -> None:
    await filled(queue, SLOW, WIDE)
    assert await started(queue) == "a0 a1"
    await queue.remove_limit("api", until=timedelta(seconds=60))
    claims = await queue.claim(1, wait=0)
    assert texts(claims) == ["a2"]
    await queue.reset_limits()
    await queue.unclaim(claims)
    assert await started(queue) == ""


async def test_a_claim_by_id_starts_at_once_and_counts(queue: ReliableQueue) -> None:
    await filled(queue, SLOW, Limit("slots", busy=2, per="key"))
    claim = await queue.claim_item("a3")
    assert claim is not None
    assert await started(queue) == "a0"
    chosen = await queue.claim_item("a1")
    assert chosen is not None
    await queue.done([claim, chosen])
    assert await started(queue) == ""
    await move_clock(queue, 3600)
    assert await started(queue) == ""  # three have started
    await move_clock(queue, 3600)
    assert await started(queue) == "a2"


async def test_where_names_the_limit_of_the_key_and_when_its_item_may_start(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/m", burst=2, per="key"), Limit("slots", busy=3, per="key"))
    await queue.enqueue("b0", id="b0", key="b")
    assert await started(queue) == "a0 a1 b0"
    await started(queue)
    now = (await queue.snapshot()).now
    where = [await queue.where(name) for name in ("a2", "a3")]
    assert [(row and row.reason, row and row.until) for row in where] == [
        (WaitReason.LIMIT, now + 60),
        (WaitReason.LIMIT, now + 120),
    ]
    assert where[0] is not None
    assert where[0].text.startswith("the limit api of its key a is reached until about ")
    await move_clock(queue, 60)
    assert await started(queue) == "a2"
    row = await queue.where("a3")
    assert row is not None
    assert row.text == "the limit slots of its key a is reached until an item of it in progress ends"


async def test_levels_of_keys_that_are_at_no_limit_are_swept(queue: ReliableQueue, server: Server) -> None:
    await filled(queue, RATE, keys="aaabc")
    claims = await queue.claim(10, wait=0)
    assert server.call("HLEN", "cq:{q}:starts") == 3
    await queue.done(claims)
    assert await started(queue) == "a1"
    await move_clock(queue, 2)
    await queue.reap()
    assert server.call("HLEN", "cq:{q}:starts") == 0
    assert server.call("EXISTS", "cq:{q}:limited") == 0


async def test_an_item_that_may_start_by_its_key_and_not_by_its_client_is_counted(
    queue: ReliableQueue,
) -> None:
    per_client = Limit("clients", rate="1/m", burst=3, per="client")
    await filled(queue, RATE, WIDE, per_client, keys="aaab", client="ann")
    assert await started(queue) == "a0 a1 b3"
    await queue.set_limit(Limit("clients", rate="1/m", per="client"), until=timedelta(hours=1))
    assert await started(queue) == ""
    await move_clock(queue, 1)
    assert await started(queue) == ""
    assert await lengths(queue) == (1, 3, 0, 0)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_flush_and_a_deletion_leave_no_item_waiting(
    queue: ReliableQueue, server: Server, is_deleted: bool
) -> None:
    await filled(queue, SLOW, WIDE)
    assert await started(queue) == "a0 a1"
    assert server.call("ZCARD", "cq:{q}:limited") == 1
    await (queue.delete() if is_deleted else queue.flush())
    assert server.call("EXISTS", "cq:{q}:limited", "cq:{q}:keys", "cq:{q}:held") == 0
    await filled(queue, SLOW, WIDE, keys="aaabb")
    assert await started(queue) == ("a0 a1 b3 b4" if is_deleted else "b3 b4")


async def test_a_queue_whose_limits_are_gone_keeps_no_state_of_them(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, SLOW, WIDE)
    assert await started(queue) == "a0 a1"
    await queue.update_policy(limits=[])
    assert await started(queue) == ""
    assert server.call("HGET", "cq:{q}:stats", "keys") == b"1"
    await queue.release_worker("w1")
    await queue.reap()
    assert server.call("EXISTS", "cq:{q}:starts", "cq:{q}:limited") == 0


async def test_in_every_window_no_more_items_of_a_key_start_than_its_limits_allow(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    work = RandomClaims(queue, other_worker)
    bound, rate = 2, Limit("api", rate="7/s", burst=3, per="key")
    await queue.update_policy(limits=[rate, Limit("slots", busy=bound, per="key")], busy_expiry=DAY)
    await queue.enqueue_many(NewItem(f"{n}", key=f"k{n % 5}", client=f"c{n % 3}") for n in range(1500))
    for _ in range(600):
        await work.wait(0, 0.001, 0.02, 0.1, 0.1428, 0.4, 1.5)
        match work.choose.randrange(6):
            case 0 | 1 | 2:
                await work.claim(8)
            case 3 if work.held:
                await work.unclaim()
            case 4 if work.held:
                await queue.fail(work.held.pop(), "no", permanent=True)
            case _:
                if work.held:
                    most = work.choose.randint(1, 3)
                    _, claims = await next_claims(queue).done_and_claim([work.pop()], most)
                    work.note(claims)
        in_progress = [claim.item.key for claim in work.held]
        assert all(in_progress.count(key) <= bound for key in in_progress)
    starts_of_keys = work.instants("key")
    assert sum(map(len, starts_of_keys.values())) > 150
    for instants in starts_of_keys.values():
        assert fullest(instants, rate) <= 3


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_to_limits_of_keys_no_item_stays_held(
    queue: ReliableQueue, other_worker: ReliableQueue, seed: int
) -> None:
    randomly = random.Random(seed)
    slow, quick = Limit("api", rate="1/d", per="key"), Limit("api", rate="9/s", burst=3, per="key")
    choices = [[], [slow], [quick], [WIDE], [slow, WIDE], [quick, Limit("slots", busy=2, per="key")]]
    await queue.update_policy(limits=choices[seed], busy_expiry=DAY)
    await queue.enqueue_many(
        NewItem(f"{n}", id=f"{n}", key=f"k{n % 7}", client=f"c{n % 3}") for n in range(90)
    )
    busy: list[Claim] = []
    for _ in range(150):
        worker = randomly.choice([queue, other_worker])
        match randomly.randrange(9):
            case 0:
                await queue.update_policy(limits=randomly.choice(choices))
            case 1:
                await queue.set_limit(randomly.choice([slow, quick]), until=timedelta(seconds=9))
            case 2:
                await queue.reset_limits()
            case 3:
                claim = await worker.claim_item(f"{randomly.randrange(90)}")
                busy += [claim] if claim else []
            case 4 if busy:
                await queue.unclaim(busy.pop())
            case 5 if busy:
                await queue.requeue(busy.pop())
            case 6:
                await move_clock(queue, randomly.choice([0.01, 1, 9]))
            case _:
                busy += await worker.claim(randomly.randint(1, 8), wait=0)
    await queue.update_policy(limits=[])
    await queue.reset_limits()
    await queue.done(busy)
    for _ in range(90):
        await queue.done(await queue.claim(90, wait=0))
    assert await lengths(queue) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "stored",
    ["a key rate 0 1000 5", "a key rate 99999999 1000 1 cost", "a key busy 0 cost", "a key rate nan 1 1"],
)
async def test_a_limit_that_another_client_has_written_wrong_holds_no_item_of_a_key(
    queue: ReliableQueue, server: Server, stored: str
) -> None:
    await filled(queue)
    server.call("HSET", "cq:{q}:config", "limits", stored)
    for _ in range(4):
        claims = await queue.claim(9, wait=0)
        await queue.reap()
        await queue.pause(key="a")
        await queue.resume(key="a")
        await queue.done(claims)
    assert await lengths(queue) == (0, 0, 0, 0)
