"""Numbers that another Redis client has written into a queue's counters, its clock or its policy: no item is lost."""

import math

import pytest

from claimq import Claim, NewItem, ReliableQueue, Verdict
from testkit.clock import move_clock
from testkit.looking import Lengths, lengths, texts, verdicts
from testkit.script_calls import call
from testkit.server import Server

STATS = "cq:{q}:stats"
LARGE = ["9007199254740992", "1e400", "nan"]


@pytest.mark.parametrize("field", ["number", "seen_at", "clock_offset"])
@pytest.mark.parametrize("number", LARGE)
async def test_claims_have_tokens_of_their_own_whatever_the_counters_are(
    server: Server, queue: ReliableQueue, field: str, number: str
) -> None:
    await queue.done(await _claims(queue, "x"))
    server.call("HSET", STATS, field, number)
    held = await _claims(queue, "abc")
    assert texts(held) == ["a", "b", "c"]
    held += await _claims(queue, "de")
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
    (claim,) = await _claims(queue, "a")
    server.call("HSET", STATS, field, number)
    await move_clock(queue, 31)
    assert [(one.token, one.verdict) for one in (await queue.reap()).expired] == [
        (claim.token, Verdict.REQUEUED)
    ]


async def test_an_interrupted_claim_with_a_large_number_leaves_its_item_readable(
    server: Server, queue: ReliableQueue
) -> None:
    (claim,) = await _claims(queue, "a")
    envelope = server.call("HGET", "cq:{q}:busy:w1", claim.token)
    assert isinstance(envelope, bytes)
    token = "w1/99999999999999999.AAAAAAAA"
    server.call("HSET", "cq:{q}:busy:w1", token, envelope.replace(claim.item.id.encode(), b"other"))
    server.call("ZADD", "cq:{q}:leases", 1, token)
    await call(queue, "release_worker", "w1", "interrupt", "", claim.token, token)
    assert [item.id for item in await queue.peek(9)] == [claim.item.id, "other"]


async def _claims(queue: ReliableQueue, payloads: str) -> list[Claim]:
    await queue.enqueue_many(list(payloads))
    return await queue.claim(len(payloads), wait=0)


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


@pytest.mark.parametrize("most", ["1.5", "2.999", "0.1"])
async def test_a_limit_of_failed_items_that_is_no_whole_number_is_rounded_down(
    server: Server, queue: ReliableQueue, most: str
) -> None:
    server.call("HSET", "cq:{q}:config", "failed_max_items", most)
    await queue.fail(await _claims(queue, "ab"), "no", permanent=True)
    await queue.enqueue_many([NewItem(text, deadline=1.0) for text in "cd"])
    await queue.enqueue("e")
    assert texts(await queue.claim(9, wait=0)) == ["e"]
    kept = max(math.floor(float(most)), 1)
    assert await lengths(queue) == Lengths(busy=1, failed=kept)
    assert (await queue.stats())["failed"] == 4


@pytest.mark.frozen_clock(True)
@pytest.mark.parametrize("end", ["-1", "-inf", "+inf", "1e17"])
async def test_a_lease_that_no_script_has_written_ends(
    server: Server, queue: ReliableQueue, end: str
) -> None:
    (held,) = await _claims(queue, "a")
    server.call("ZADD", "cq:{q}:leases", end, held.token)
    await queue.reap()
    await move_clock(queue, 31)
    await queue.reap()
    assert await lengths(queue) == Lengths(main=1)
