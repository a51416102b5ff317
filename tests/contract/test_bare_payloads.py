"""Payloads that any client pushes with a plain LPUSH are claimed like other items, whatever is in them."""

import asyncio
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import claimq
from claimq import NewItem, Policy, ReliableQueue, State, Verdict
from testkit.queues.clock import Near, move_clock
from testkit.queues.looking import connected_clients
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

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
    "counters of another type": b'{"requeues":"x","fails":{},"crashes":[],"given_up":null}',
    "counters below zero": b'{"requeues":-9,"given_up":-1}',
    "counters without end": b'{"requeues":1e999,"first_at":1e300}',
    "a counter that is no whole number": b'{"requeues":1.5}',
    "a counter of too many digits": b'{"requeues":12345678901234}',
    "a history that is none": b'{"history":7,"error":[]}',
    "a history of numbers": b'{"history":[1,2]}',
    "a history that is an object": b'{"history":{"at":1}}',
    "a history of half entries": b'{"history":[{"at":1,"kind":"fail"}]}',
    "too long a history": b'{"history":['
    + b",".join([b'{"at":1,"kind":"","error":"","worker":""}'] * 11)
    + b"]}",
    "an error that is no text": b'{"error":7}',
    "a place that is no number": b'{"place":"x"}',
    "a place without end": b'{"place":"9999999999999999"}',
    "options that are none": b'{"options":7}',
    "empty options": b'{"options":{}}',
    "a priority that is none": b'{"options":{"priority":"urgent"}}',
    "a key that is no text": b'{"options":{"key":7}}',
    "a key with a blank": b'{"options":{"key":"two words"}}',
    "too long a key": b'{"options":{"key":"' + b"x" * 129 + b'"}}',
    "options in a list": b'{"options":["headers"]}',
    "headers that are none": b'{"options":{"headers":{"a":"1"}}}',
    "no headers": b'{"options":{"headers":[]}}',
    "a header without a value": b'{"options":{"headers":["a"]}}',
    "a header's name that is none": b'{"options":{"headers":["A","1"]}}',
    "a header's value that is none": b'{"options":{"headers":["a",1]}}',
    "a header's value with a line end": b'{"options":{"headers":["a","\\n"]}}',
    "too many headers": b'{"options":{"headers":[' + b",".join([b'"a","1"'] * 17) + b"]}}",
    "an escape that only some readers take": b'{"error":"\\ud800"}',
    "a number that only some readers take": b'{"else":0x10}',
    "an infinite number": b'{"else":Infinity}',
    "too many levels": b'{"else":' + b"[" * 9 + b"]" * 9 + b"}",
    "the end of a text for some readers": b'{"error":"\x00"}',
    "a tabulator": b'{"fails":\t1}',
    "blanks": b'{ "fails": 1 }',
    "no object": b"[1,2]",
    "no json": b"{{{",
    "half a text": b'{"error":"x}',
    "nothing": b"",
}
OTHERS = {
    "an id of other characters": "cq1 é 1700000000000 - -\nx".encode(),
    "a client of other characters": b"cq1 f 1700000000000 \xff -\nx",
    "an instant of the year 3000": b"cq1 f 32503680000000 - -\nx",
    "a header without an end": b"cq1 f 1700000000000 - -",
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


@pytest.mark.parametrize(
    "payload",
    [*(b"cq1 f 1700000000000 - " + meta + b"\nx" for meta in FORGED.values()), *OTHERS.values()],
    ids=[*FORGED, *OTHERS],
)
@pytest.mark.parametrize("mark", [b" ", b"!"])
@pytest.mark.frozen_clock(True)
async def test_what_only_looks_like_a_header_is_a_payload_as_a_whole(
    server: Server, queue: ReliableQueue, payload: bytes, mark: bytes
) -> None:
    payload = payload.replace(b" ", mark, 1)
    await queue.set_policy(Policy(requeue_limit=1))
    server.call("LPUSH", MAIN, payload)
    (seen,) = await queue.peek()
    assert (seen.payload, seen.client) == (payload, None)
    await queue.enqueue("honest")
    claims = [claim for _ in range(2) for claim in await queue.claim(wait=0)]
    assert [claim.item.payload for claim in claims] == [payload, b"honest"]
    assert claims[0].item.id.startswith("bare-")
    await move_clock(queue, 31)
    assert [outcome.verdict for outcome in (await queue.reap()).expired] == [Verdict.REQUEUED] * 2
    for _ in range(2):
        (claim,) = await queue.claim(wait=0)
        await queue.fail(claim, "broken")
    assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 2}
    assert {failed.item.payload for failed in await queue.failed_items()} == {payload, b"honest"}
    assert (await queue.stats())["adopted"] == 1


async def test_a_pushed_header_is_counted_as_adopted_when_main_is_empty(
    server: Server, queue: ReliableQueue
) -> None:
    """It was taken for an item of the scripts. Guarantee 12: what came is what is there and what has left."""
    server.call("LPUSH", MAIN, b"cq1 forged 1700000000000 ann -\nx", b"cq1 other 1700000000000 - -\ny")
    await queue.enqueue("honest")
    await queue.done(await queue.claim(2, wait=0))
    await queue.reap()
    assert (await queue.stats())["adopted"] == 0  # an item waits: it may be a bare payload
    await queue.claim(wait=0)
    for _ in range(2):
        await queue.reap()
        stats = await queue.stats()
        assert (stats["enqueued"], stats["adopted"], stats["done"]) == (1, 2, 2)
    assert await queue.lengths() == {State.MAIN: 0, State.BUSY: 1, State.DELAYED: 0, State.FAILED: 0}


@pytest.mark.usefixtures("retries_at_once")
async def test_a_pushed_header_as_the_scripts_write_it_is_an_item(
    server: Server, queue: ReliableQueue
) -> None:
    """The prefix is reserved: who writes whole envelopes makes items, as a script does."""
    server.call(
        "LPUSH", MAIN, b'cq1 f 1700000000000 ann {"fails":2,"error":"\\u0007\\"no\\\\","else":[true]}\nx'
    )
    (claim,) = await queue.claim(wait=0)
    item = claim.item
    assert (item.id, item.payload, item.client, item.fail_count) == ("f", b"x", "ann", 2)
    assert item.last_error == '\x07"no\\'
    await queue.fail(claim, "broken")
    (again,) = await queue.claim(wait=0)
    assert (again.item.id, again.item.fail_count) == ("f", 3)
    assert (await queue.stats())["adopted"] == 0


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
    """It gets no wake token: the claim polls every second."""
    await queue.set_policy(Policy(claim_wait_timeout=PATIENCE))
    waiting = asyncio.ensure_future(queue.claim())
    await eventually(lambda: b"blpop" in connected_clients(server), why="the claim waits")
    server.call("LPUSH", MAIN, "late")
    async with asyncio.timeout(PATIENCE):
        assert [claim.item.payload for claim in await waiting] == [b"late"]


@pytest.mark.frozen_clock(True)
async def test_a_sweep_gives_the_oldest_bare_payload_its_header_so_that_main_has_an_age(
    server: Server, queue: ReliableQueue, near: Near
) -> None:
    server.call("LPUSH", MAIN, "bare")
    await queue.reap()
    assert await queue.age() is not None
    assert server.call("HGET", "cq:{q}:stats", "largest") is not None, "calls count on its size"
    await move_clock(queue, 4)
    assert await queue.age() == near(4)
    (claim,) = await queue.claim(wait=0)
    assert claim.item.payload == b"bare"


async def test_bare_payloads_stand_in_one_turn_with_the_clients(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(f"ann{n}", client="ann") for n in range(3)])
    server.call("LPUSH", MAIN, "bare0", "bare1")
    got = [claim.item.payload.decode() for claim in await queue.claim(9, wait=0)]
    assert got == ["ann0", "bare0", "ann1", "bare1", "ann2"]


TEXTS = [
    b"cq1 ", b"cq1!", b" ", b"-", b"\n", b"\t", b"7", b"id", b"{}", b'{"requeues":', b"1e9", b"}", b'"', b"\\",
    b"\\u00e9", b"\\ud8", b"[", b"]", b",", b":", b"null", b"true", b"01", b"-0", b"\xff", b"\xc3\xa9",
    b'"error":"', b'"place":"12"',
    b'"history":[', b'{"at":1,"kind":"fail","error":"no","worker":"w"}',
    b"\x00", b"\x7f", b"1.0", b'"options":{"headers":["a","', b'"options":{"later":[', b'"]}',
    b'"options":{"priority":"low"}', b'"options":{"priority":"',
    b'"options":{"key":"k"}', b'"options":{"key":"',
]  # fmt: skip
pieces = st.lists(st.sampled_from(TEXTS), max_size=9).map(b"".join)
payloads = (
    pieces
    | st.binary(max_size=30)
    | pieces.map(lambda meta: b"cq1 id 1700000000000 - " + meta + b"\nx")
    | pieces.map(lambda inner: b"cq1!id 1700000000000 ann {" + inner + b"}\nx")
)


@pytest.mark.servers("valkey")
@settings(max_examples=100)
@given(given_payloads=st.lists(payloads, min_size=1, max_size=20))
def test_the_scripts_and_the_library_read_every_payload_alike(
    server: Server, given_payloads: list[bytes]
) -> None:
    """The library reads an item before a script has seen it, the scripts when they take and fail it."""

    async def round_trip() -> None:
        server.call("FLUSHALL")
        server.call("LPUSH", MAIN, *given_payloads)
        async with open_queue(server.url, worker="w1") as queue:
            before = await queue.peek(20)
            taken: list[claimq.Item] = []
            while claims := await queue.claim(20, wait=0):
                taken += [claim.item for claim in claims]
                await queue.fail(claims, "broken", permanent=True)
            assert [item.payload for item in taken] == [item.payload for item in before]
            for was, item in zip(before, taken, strict=True):
                if was.id == "bare-":  # to be named when it is claimed
                    assert (item.id[:5], item.client, item.error_detail) == ("bare-", None, None)
                else:
                    assert item == was
            failed = [located.item for located in await queue.failed_items(20)]
            assert Counter((item.id, item.payload, item.client) for item in failed) == Counter(
                (item.id, item.payload, item.client) for item in taken
            )

    asyncio.run(round_trip())


async def test_a_bare_payload_that_reads_like_a_reply_can_be_looked_at(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    await store._connection.command("LPUSH", "cq:{q}:main", "STALE")

    assert [item.payload for item in await queue.peek(5)] == [b"STALE"]


async def test_a_claim_reads_few_bytes_whatever_the_counters_hide(
    server: Server, queue: ReliableQueue
) -> None:
    """Another client took as many items as it pushed, so the counters show no bare payloads. What a script reads is in
    the server's memory, whose peak shows it."""
    await queue.enqueue_many(["x"] * 100)
    server.call("DEL", MAIN)
    large = b"y" * 2**20
    for _ in range(100):
        server.call("LPUSH", MAIN, large)
    used, peak = memory(server, "used_memory"), memory(server, "used_memory_peak")
    assert [claim.item.payload for claim in await queue.claim(100, wait=0)] == [large] * 2
    assert len(await queue.peek(2)) == 2
    assert await queue.find("none") is None
    assert memory(server, "used_memory_peak") <= max(peak, used + 20 * 2**20)


HUGE = {
    "an id": b"cq1 " + b"i" * 201 + b" 1700000000000 - -\nx",
    "a client": b"cq1 f 1700000000000 " + b"c" * 129 + b" -\nx",
    "an id of a megabyte": b"cq1!" + b"i" * 2**20 + b" 1700000000000 - -\nx",
}


@pytest.mark.parametrize("payload", HUGE.values(), ids=HUGE)
async def test_a_header_with_a_name_that_is_too_long_is_a_payload(
    server: Server, queue: ReliableQueue, payload: bytes
) -> None:
    """Ids are members of sets, of which a call reads a page by their number."""
    await queue.set_policy(Policy(max_payload=2**22))
    server.call("LPUSH", MAIN, payload)
    assert [item.payload for item in await queue.peek()] == [payload]
    (claim,) = await queue.claim(wait=0)
    assert (claim.item.payload, claim.item.id) == (payload, f"bare-{claim.number}")
    await queue.fail(claim, "no", permanent=True)
    assert server.call("ZRANGE", "cq:{q}:failed", 0, -1) == [claim.item.id.encode()]


FORGED_AT_THE_HEAD = {
    "no instant": b'cq1 f 99999999999999 ann {"place":"0"}\nx',
    "a place without end": b'cq1 f 1700000000000 ann {"place":"' + b"9" * 400 + b'"}\nx',
    "a long id": b"cq1 " + b"i" * 300 + b' 1700000000000 ann {"place":"0"}\nx',
    "no client": b'cq1 f 17 \xff {"place":"0"}\nx',
}


@pytest.mark.parametrize("payload", FORGED_AT_THE_HEAD.values(), ids=FORGED_AT_THE_HEAD)
@pytest.mark.parametrize("client", ["ann", None])
async def test_items_given_back_beside_a_forged_header_are_all_there(
    server: Server, queue: ReliableQueue, payload: bytes, client: str | None
) -> None:
    """The forged item stands at the head of the list to which items are given back."""
    await queue.enqueue_many([NewItem(text, client=client) for text in ("a", "b", "c")])
    claims = await queue.claim(2, wait=0)
    server.call("RPUSH", f"{MAIN}:{client}" if client else MAIN, payload)
    assert [one.verdict for one in await queue.unclaim(claims)] == [Verdict.UNCLAIMED] * 2
    got: list[bytes] = []
    while claims := await queue.claim(9, wait=0):
        got += [claim.item.payload for claim in claims]
    assert sorted(got) == sorted([payload, b"a", b"b", b"c"])


async def test_counters_at_their_end_stay_readable(server: Server, queue: ReliableQueue) -> None:
    """Also where the item is failed again and again: the header that a script writes is one that it reads."""
    most = b"9" * 13
    numbers = b",".join(
        b'"%s":%s' % (name, most) for name in (b"fails", b"crashes", b"interrupts", b"given_up")
    )
    server.call("LPUSH", MAIN, b"cq1 f 1700000000000 - {" + numbers + b"}\nx")
    await queue.set_policy(retrying_at_once(requeue_limit=9))
    (claim,) = await queue.claim(wait=0)
    await queue.unclaim(claim)
    (claim,) = await queue.claim(wait=0)
    await queue.crash(claim, "killed")
    (claim,) = await queue.claim(wait=0)
    await queue.fail(claim, "no", permanent=True)
    (failed,) = await queue.failed_items()
    assert (failed.item.id, failed.item.payload) == ("f", b"x")
    assert failed.item.fail_count == failed.item.crash_count == failed.item.given_up_count == int(most)


async def test_a_header_that_grows_too_long_loses_what_another_client_wrote(
    server: Server, queue: ReliableQueue
) -> None:
    server.call("LPUSH", MAIN, b'cq1 f 1700000000000 - {"fails":3,"else":"' + b"e" * 65_000 + b'"}\nx')
    (claim,) = await queue.claim(wait=0)
    assert (claim.item.id, claim.item.fail_count) == ("f", 3)
    await queue.fail(claim, "\x01" * 1000, permanent=True)
    (failed,) = await queue.failed_items()
    assert (failed.item.id, failed.item.payload, failed.item.fail_count) == ("f", b"x", 4)
    assert failed.item.last_error == "\x01" * 1000


def memory(server: Server, name: str) -> int:
    text = server.call("INFO", "memory")
    assert isinstance(text, bytes)
    return int(re.findall(rf"^{name}:(\d+)", text.decode(), re.MULTILINE)[0])
