"""Payloads that any client pushes with a plain LPUSH are claimed like other items, whatever is in them."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import claimq
from claimq import NewItem, Policy, RedisSettings, ReliableQueue, State, Verdict
from testkit.clock import move_clock
from testkit.server import Server
from testkit.waiting import eventually

MAIN = "cq:{q}:main"
ODD = {
    "empty": b"",
    "binary": b"\x00\xff\r\n\x80",
    "begins like a header": b"cq1 hello",
    "half a header": b"cq1 id 17000 -\nrest",
    "a mark": b"cq1!",
    "a mark and a tab": b"cq1!a\tb 1 - -\n",
    "digits without end": b"cq1 id " + b"9" * 400 + b" - -\nx",
    "json": b'{"a": 1}',
    "a line": b"line\n",
}
FORGED = {
    "counters of another type": b'cq1 f 1700000000000 - {"requeues":"x","fails":{},"crashes":[],"given_up":null}\nx',
    "counters below zero": b'cq1 f 1700000000000 - {"requeues":-9,"given_up":-1}\nx',
    "counters without end": b'cq1 f 1700000000000 - {"requeues":1e999,"first_at":1e300}\nx',
    "a history that is none": b'cq1 f 1700000000000 - {"history":7,"error":[]}\nx',
    "a history of numbers": b'cq1 f 1700000000000 - {"history":[1,1e999]}\nx',
    "other fields without end": b'cq1 f 1700000000000 - {"else":1e999}\nx',
    "no object": b"cq1 f 1700000000000 - [1,2]\nx",
    "no json": b"cq1 f 1700000000000 - {{{\nx",
}


@pytest.mark.parametrize("payload", ODD.values(), ids=ODD)
async def test_a_bare_payload_is_claimed_like_another_item(
    server: Server, queue: ReliableQueue, payload: bytes
) -> None:
    server.call("LPUSH", MAIN, payload)
    (claim,) = await queue.claim(wait=0)
    assert claim.item.payload == payload
    assert claim.item.id == f"bare-{claim.number}"
    assert claim.item.client is None
    (outcome,) = await queue.fail(claim, "broken", permanent=True)
    assert (outcome.id, outcome.verdict) == (claim.item.id, Verdict.FAILED)
    (failed,) = await queue.failed_items()
    assert (failed.item.id, failed.item.payload, failed.item.last_error) == (
        claim.item.id, payload, "broken",
    )  # fmt: skip
    assert await queue.requeue_failed() == 1
    assert [item.payload for item in await queue.peek()] == [payload]
    (again,) = await queue.claim(wait=0)
    assert [outcome.verdict for outcome in await queue.done(again)] == [Verdict.DONE]


@pytest.mark.parametrize("payload", FORGED.values(), ids=FORGED)
async def test_a_forged_header_stops_neither_its_verdicts_nor_the_reaper(
    server: Server, queue: ReliableQueue, payload: bytes
) -> None:
    await queue.set_policy(Policy(requeue_limit=1))
    server.call("LPUSH", MAIN, payload)
    await queue.enqueue("honest")
    assert [claim.item.payload for claim in await queue.claim(2, wait=0)] == [b"x", b"honest"]
    await move_clock(queue, 31)
    assert [outcome.verdict for outcome in (await queue.reap()).expired] == [Verdict.REQUEUED] * 2
    for _ in range(2):
        await queue.fail(await queue.claim(2, wait=0), "broken")
    assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 2}
    assert await queue.find("f") is not None
    assert await queue.requeue_failed(max_fail_count=9) == 2
    await queue.fail(await queue.claim(2, wait=0), "broken", permanent=True)
    await queue.fail(await queue.claim(2, wait=0), "broken", permanent=True)
    assert (await queue.remove_failed(min_fail_count=1, log_limit=9)).count == 2


async def test_bare_payloads_and_items_leave_in_the_order_in_which_they_came(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("one")
    server.call("LPUSH", MAIN, "two", "three")
    await queue.enqueue("four")
    assert [claim.item.payload for claim in await queue.claim(9, wait=0)] == [
        b"one",
        b"two",
        b"three",
        b"four",
    ]


async def test_each_adopted_payload_has_an_id_of_its_own(server: Server, queue: ReliableQueue) -> None:
    server.call("LPUSH", MAIN, *["same"] * 5)
    claims = await queue.claim(3, wait=0) + await queue.claim(3, wait=0)
    ids = [claim.item.id for claim in claims]
    assert ids == [f"bare-{claim.number}" for claim in claims]
    assert len(set(ids)) == 5
    assert (await queue.stats())["adopted"] == 5


async def test_a_claim_that_waits_finds_a_bare_payload_at_its_next_look(
    server: Server, queue: ReliableQueue
) -> None:
    """Nobody leaves a wake token for it: the claim polls every second."""
    await queue.set_policy(Policy(claim_wait_timeout=5))
    waiting = asyncio.ensure_future(queue.claim())
    await eventually(lambda: b"blpop" in _clients(server), why="the claim waits")
    server.call("LPUSH", MAIN, "late")
    async with asyncio.timeout(60):
        assert [claim.item.payload for claim in await waiting] == [b"late"]


def _clients(server: Server) -> bytes:
    reply = server.call("CLIENT", "LIST")
    assert isinstance(reply, bytes)
    return reply


async def test_a_sweep_gives_the_oldest_bare_payload_its_header_so_that_main_has_an_age(
    server: Server, queue: ReliableQueue
) -> None:
    server.call("LPUSH", MAIN, "bare")
    await queue.reap()
    assert await queue.age() is not None
    await move_clock(queue, 4)
    assert 4 <= (await queue.age() or 0) < 5
    (claim,) = await queue.claim(wait=0)
    assert claim.item.payload == b"bare"


async def test_bare_payloads_stand_in_one_turn_with_the_clients(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(f"ann{n}", client="ann") for n in range(3)])
    server.call("LPUSH", MAIN, "bare0", "bare1")
    got = [claim.item.payload.decode() for claim in await queue.claim(9, wait=0)]
    assert got == ["ann0", "bare0", "ann1", "bare1", "ann2"]


header_like = st.lists(
    st.sampled_from(
        [b"cq1 ", b"cq1!", b" ", b"-", b"\n", b"\t", b"7", b"id", b"{}", b'{"requeues":', b"1e9", b"}"]
    ),
    max_size=9,
).map(b"".join)


@pytest.mark.servers("valkey")
@settings(max_examples=60)
@given(payload=header_like | st.binary(max_size=30))
def test_the_scripts_and_the_library_read_every_payload_alike(server: Server, payload: bytes) -> None:
    """The library reads an item when it is claimed, the scripts when it fails: they must agree on what it is."""

    async def round_trip() -> None:
        server.call("FLUSHALL")
        server.call("LPUSH", MAIN, payload)
        async with claimq.connect(settings=RedisSettings(url=server.url)) as store:
            queue = store.queue("q", worker="w1")
            (claim,) = await queue.claim(wait=0)
            (outcome,) = await queue.fail(claim, "broken", permanent=True)
            assert outcome.verdict is Verdict.FAILED
            (failed,) = await queue.failed_items()
            before, after = claim.item, failed.item
            assert (after.id, after.payload, after.client) == (before.id, before.payload, before.client)
            assert after.requeue_count == before.requeue_count

    asyncio.run(round_trip())
