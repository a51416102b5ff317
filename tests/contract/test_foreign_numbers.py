"""Numbers that another Redis client has written into a queue's counters, its clock or its policy: no item is lost."""

import asyncio
import math

import pytest

from claimq import Limit, NewItem, ReliableQueue, State, StoreMisused, Verdict
from testkit.plugin import ServerFactory
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, enqueued_and_claimed, lengths, texts, verdicts
from testkit.queues.script_calls import call
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

STATS = "cq:{q}:stats"
LARGE = ["9007199254740992", "1e400", "nan"]
LAST = 253_402_300_799  # the end of the year 9999


@pytest.mark.parametrize("field", ["number", "seen_at", "clock_offset"])
@pytest.mark.parametrize("number", LARGE)
async def test_claims_have_tokens_of_their_own_whatever_the_counters_are(
    server: Server, queue: ReliableQueue, field: str, number: str
) -> None:
    await queue.done(await enqueued_and_claimed(queue, "x"))
    server.call("HSET", STATS, field, number)
    held = await enqueued_and_claimed(queue, "abc")
    assert texts(held) == ["a", "b", "c"]
    held += await enqueued_and_claimed(queue, "de")
    assert len({claim.token for claim in held}) == 5
    assert verdicts(await queue.unclaim(held)) == ["unclaimed"] * 5
    again = await queue.claim(9, wait=0)
    assert [(claim.item.text, claim.item.id) for claim in again] == [
        (claim.item.text, claim.item.id) for claim in held
    ]
    assert verdicts(await queue.done(again)) == ["done"] * 5
    assert await lengths(queue) == Lengths()


@pytest.mark.frozen_clock(True)
@pytest.mark.parametrize("field", ["grace_until", "server_since"])
@pytest.mark.parametrize("number", [*LARGE, "7000000000000"])
async def test_a_lease_ends_and_counts_whatever_the_clock_says_about_the_server(
    server: Server, queue: ReliableQueue, field: str, number: str
) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    server.call("HSET", STATS, field, number)
    await move_clock(queue, 31)
    assert [(one.token, one.verdict) for one in (await queue.reap()).expired] == [
        (claim.token, Verdict.REQUEUED)
    ]


async def test_an_interrupted_claim_with_a_large_number_leaves_its_item_readable(
    server: Server, queue: ReliableQueue
) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    envelope = server.call("HGET", "cq:{q}:busy:w1", claim.token)
    assert isinstance(envelope, bytes)
    token = "w1/99999999999999999.AAAAAAAA"
    server.call("HSET", "cq:{q}:busy:w1", token, envelope.replace(claim.item.id.encode(), b"other"))
    server.call("ZADD", "cq:{q}:leases", 1, token)
    await call(queue, "release_worker", "w1", "interrupt", "", claim.token, token)
    assert [item.id for item in await queue.peek(9)] == [claim.item.id, "other"]


@pytest.mark.usefixtures("retries_at_once")
@pytest.mark.parametrize("counter", ["many", "1.5", "9223372036854775807"])
async def test_a_counter_that_cannot_be_added_to_begins_again(
    server: Server, queue: ReliableQueue, counter: str
) -> None:
    for name in ("client_items", "adopted", "failed", "fails", "lost", "requeued"):
        server.call("HSET", STATS, name, counter)
    await queue.enqueue("a", client="ann")
    server.call("LPUSH", "cq:{q}:main", "bare")
    held = await queue.claim(2, wait=0)
    assert sorted(texts(held)) == ["a", "bare"]
    assert verdicts(await queue.fail(held[0], "no", permanent=True)) == ["failed"]
    assert verdicts(await queue.fail(held[1], "no")) == ["requeued"]
    (again,) = await queue.claim(2, wait=0)
    assert verdicts(await queue.done([again, held[0]])) == ["done", "lost"]
    assert await lengths(queue) == Lengths(failed=1)
    stats = await queue.stats()
    assert [stats[name] for name in ("adopted", "failed", "fails", "lost", "requeued")] == [1, 1, 2, 1, 1]


@pytest.mark.parametrize("total", ["inf", "nan", "1e300", "-7"])
async def test_a_total_that_is_no_count_begins_again(
    server: Server, queue: ReliableQueue, total: str
) -> None:
    server.call("HSET", STATS, "enqueued", total, "claimed", total, "done", total)
    await queue.done(await enqueued_and_claimed(queue, "ab"))
    stats = await queue.stats()
    assert [stats[name] for name in ("enqueued", "claimed", "done")] == [2, 2, 2]


@pytest.mark.parametrize("most", ["1.5", "2.999", "0.1"])
async def test_a_limit_of_failed_items_that_is_no_whole_number_is_rounded_down(
    server: Server, queue: ReliableQueue, most: str
) -> None:
    server.call("HSET", "cq:{q}:config", "failed_max_items", most)
    await queue.fail(await enqueued_and_claimed(queue, "ab"), "no", permanent=True)
    await queue.enqueue_many([NewItem(text, deadline=1.0) for text in "cd"])
    await queue.enqueue("e")
    assert texts(await queue.claim(9, wait=0)) == ["e"]
    kept = max(math.floor(float(most)), 1)
    assert await lengths(queue) == Lengths(busy=1, failed=kept)
    assert (await queue.stats())["failed"] == 4


@pytest.mark.frozen_clock(True)
@pytest.mark.parametrize("place", ["18446744073709551616", "-1", "1.5", "1e400", "nan", "x"])
async def test_a_repair_goes_on_wherever_the_last_one_is_said_to_have_ended(
    server: Server, queue: ReliableQueue, place: str
) -> None:
    """Its place in the log of claims is a field of stats."""
    await enqueued_and_claimed(queue, "a")
    server.call("ZADD", "cq:{q}:claims", 1, "1 1 nonce w9")
    server.call("HSET", STATS, "repair_call", place)
    for _ in range(2):
        await queue.reap()
    assert server.call("ZCARD", "cq:{q}:claims") == 1


@pytest.mark.frozen_clock(True)
@pytest.mark.parametrize("end", ["-1", "-inf", "+inf", "1e17"])
async def test_a_lease_that_no_script_has_written_ends(
    server: Server, queue: ReliableQueue, end: str
) -> None:
    (held,) = await enqueued_and_claimed(queue, "a")
    server.call("ZADD", "cq:{q}:leases", end, held.token)
    await queue.reap()
    await move_clock(queue, 31)
    await queue.reap()
    assert await lengths(queue) == Lengths(main=1)


async def test_a_claim_call_of_more_items_than_a_call_claims_does_not_stop_a_repair(
    server: Server, queue: ReliableQueue
) -> None:
    await enqueued_and_claimed(queue, "a")
    server.call("ZADD", "cq:{q}:claims", 1, "1 1000000 nonce w1")
    server.call("ZADD", "cq:{q}:claims", *(word for n in range(600) for word in (2, f"{n} 1 nonce w1")))
    for _ in range(8):
        await queue.reap()
    assert server.call("ZCARD", "cq:{q}:claims") == 1


async def test_a_kept_reply_that_no_script_has_written_does_not_stop_its_lane(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.done(await enqueued_and_claimed(queue, "a"))
    (calls,) = (key for key in _keys(server) if key.startswith("cq:{q}:calls:"))
    lanes = server.call("HKEYS", calls)
    assert isinstance(lanes, list)
    for lane in lanes:
        assert isinstance(lane, bytes)
        server.call("HSET", calls, lane, "?")
    assert verdicts(await queue.done(await enqueued_and_claimed(queue, "b"))) == ["done"]


def _keys(server: Server) -> list[str]:
    keys = server.call("KEYS", "cq:{q}:*")
    assert isinstance(keys, list)
    return [key.decode() for key in keys if isinstance(key, bytes)]


@pytest.mark.parametrize(("score", "instant"), [("inf", LAST), ("1e300", LAST), ("-inf", 0)])
async def test_an_instant_that_is_no_number_of_milliseconds_is_the_first_or_the_last_one(
    server: Server, queue: ReliableQueue, score: str, instant: float
) -> None:
    await queue.enqueue("d", delay=60)
    await queue.enqueue_many(["f", "b"])
    failed, busy = await queue.claim(2, wait=0)
    await queue.fail(failed, "no", permanent=True)
    for key, member in (("failed", failed.item.id), ("workers", "w1")):
        server.call("ZADD", f"cq:{{q}}:{key}", score, member)
    server.call("ZADD", "cq:{q}:leases", score.replace("inf", "1e300"), busy.token)
    server.call("ZADD", "cq:{q}:delayed", score, *_members(server, "delayed"))
    (one,), (two,) = await queue.items(State.DELAYED), await queue.items(State.BUSY)
    (three,), (worker,) = await queue.items(State.FAILED), await queue.workers()
    assert (one.due_at, two.lease_until, three.failed_at, worker.last_seen_at) == (instant,) * 4


async def test_a_counter_that_is_not_a_whole_number_is_read_as_0(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a")
    server.call("HSET", STATS, "adopted", "many", "seq", "1.5")
    assert ((await queue.stats())["adopted"], (await queue.snapshot()).seq) == (0, 0)


def _members(server: Server, part: str) -> list[bytes]:
    members = server.call("ZRANGE", f"cq:{{q}}:{part}", 0, -1)
    assert isinstance(members, list)
    return [member for member in members if isinstance(member, bytes)]


async def test_an_enqueue_returns_a_sequence_number_of_many_digits(
    server: Server, queue: ReliableQueue
) -> None:
    server.call("HSET", STATS, "seq", "300000000000000")
    reply = await call(queue, "enqueue", 1, 0, "-", "", "id-", 1, 1, "payload")
    assert reply[1].startswith(b"300000000000001 ")


async def test_a_lease_with_a_long_name_does_not_stop_the_server(start_server: ServerFactory) -> None:
    """On a server of its own: to read the number of such a token took minutes."""
    server = start_server()
    async with open_queue(server.url, worker="w1") as queue, asyncio.timeout(PATIENCE):
        server.call("ZADD", "cq:{q}:leases", 1, f"w1/{'1' * 200_000}/", 1, "w1/2/")
        assert (await queue.reap()).repaired == 2


async def test_a_claim_with_an_incarnation_that_is_no_text_takes_nothing(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.done(await enqueued_and_claimed(queue, "x"))
    await queue.enqueue("a")
    server.call("HSET", STATS, "incarnation", b"\xff\xfe")
    with pytest.raises(StoreMisused, match=r"^claim: the server's reply cannot be read"):
        await queue.claim(1, wait=0)
    assert await lengths(queue) == Lengths(main=1)


@pytest.mark.frozen_clock(True)
@pytest.mark.parametrize("instant", ["inf", "1e308", "9e12", "-1"])
async def test_a_held_item_goes_on_whatever_instant_its_limit_has(
    server: Server, queue: ReliableQueue, instant: str
) -> None:
    await queue.update_policy(limits=[Limit("api", rate="1/s", per="key")])
    await queue.enqueue_many(NewItem(text, key="k") for text in "ab")
    await queue.done(await queue.claim(2, wait=0))
    assert await queue.claim(2, wait=0) == []
    assert server.call("ZADD", "cq:{q}:limited", "CH", instant, "k") == 1
    await move_clock(queue, 1)
    await queue.reap()
    assert texts(await queue.claim(2, wait=0)) == ["b"]


@pytest.mark.parametrize("text", ["x" * 500_000, "x/" * 100_000, " " * 500_000, "w1/1.x 5 " * 5000])
async def test_a_long_text_in_place_of_a_keys_claims_holds_up_no_call(
    server: Server, queue: ReliableQueue, text: str
) -> None:
    """A pattern that tries each place of a text takes minutes."""
    await queue.enqueue_many(NewItem(text, key="k") for text in "ab")
    server.call("HSET", "cq:{q}:keys", "k", text)
    for name in "ab":
        claims = await queue.claim(2, wait=0)
        assert texts(claims) == [name]
        await queue.done(claims)
