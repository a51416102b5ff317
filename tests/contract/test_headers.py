"""Headers: what a producer gives an item beside its payload stays with it in every state."""

import asyncio
from typing import Any

import pytest

import claimq
from claimq import Done, NewItem, Policy, ReliableQueue, State, StoreMisused
from testkit.queues.clock import move_clock
from testkit.queues.looking import claim_one, texts
from testkit.queues.retries import retrying_at_once
from testkit.servers.contents import changes, contents
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HEADERS = {"traceparent": TRACE, "place": "0", "content-type": 'text/"plain"\\', "empty": ""}
"""One has the name of a field of the scripts, one has characters that JSON escapes."""


async def test_an_item_has_its_headers_with_each_claim_and_in_each_state(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=2))
    await queue.enqueue("a", headers=HEADERS, client="ann")
    assert [item.headers for item in await queue.peek()] == [HEADERS]
    for give_back, arguments in (
        (queue.unclaim, {}),
        (queue.unclaim, {"why": "stopped"}),
        (queue.requeue, {"delay": 5}),
        (queue.crash, {"error": "gone"}),
        (queue.fail, {"error": "broken"}),
    ):
        claim = await claim_one(queue)
        assert (claim.item.headers, claim.item.payload) == (HEADERS, b"a")
        again: Any = give_back
        await again(claim, **arguments)
        await move_clock(queue, 6)
        await queue.reap()
    (failed,) = await queue.failed_items()
    assert (failed.item.headers, failed.item.crash_count) == (HEADERS, 1)
    assert await queue.requeue_failed() == 1
    claim = await claim_one(queue)
    assert (claim.item.headers, claim.item.requeue_count) == (HEADERS, 0)
    await move_clock(queue, 31)
    await queue.reap()  # the lease has ended
    assert [item.headers for item in await queue.peek()] == [HEADERS]


async def test_items_given_back_stand_in_order_whatever_their_headers_are(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(str(number), headers={"place": "999"}) for number in range(3)])
    claims = await queue.claim(3, wait=0)
    for claim in (claims[2], claims[0], claims[1]):
        await queue.unclaim(claim)
    assert texts(await queue.peek(9)) == ["0", "1", "2"]


async def test_each_item_of_a_call_has_its_own_headers_or_none(queue: ReliableQueue) -> None:
    headers = [None, {"a": "1"}, {"a": "2"}, None, {}, {"b": "3"}, {"b": "4"}]
    new = [NewItem("x", id=f"i{at}" if at % 3 else None, headers=one) for at, one in enumerate(headers)]
    new.append(NewItem("later", headers={"c": "5"}, delay=5))
    await queue.enqueue_many(new)
    assert [item.headers for item in await queue.peek(9)] == [one or {} for one in headers]
    assert (await queue.items(State.DELAYED))[0].item.headers == {"c": "5"}
    claims = await queue.claim(9, wait=0)
    assert [claim.item.headers for claim in claims] == [one or {} for one in headers]
    await queue.done(
        [
            Done(claims[0], [NewItem("f", headers={"d": "6"}), "g"]),
            Done(claims[1], [NewItem("h", headers={"e": "7"})]),
        ]
    )
    assert [item.headers for item in await queue.peek(9)] == [{"d": "6"}, {}, {"e": "7"}]


async def test_items_that_are_enqueued_at_the_same_time_keep_their_headers(queue: ReliableQueue) -> None:
    headers: list[dict[str, str]] = [{"a": str(number)} if number % 3 else {} for number in range(30)]
    done = await asyncio.gather(*(queue.enqueue("x", headers=one) for one in headers))
    found = {item.id: item.headers for item in await queue.peek(99)}
    assert [found[one.id] for one in done] == headers


async def test_an_item_without_headers_is_stored_as_before(server: Server, queue: ReliableQueue) -> None:
    item_id = (await queue.enqueue("a", headers={})).id
    stored = server.call("LRANGE", "cq:{q}:main", 0, -1)
    assert isinstance(stored, list)
    (raw,) = stored
    assert isinstance(raw, bytes)
    assert raw.startswith(f"cq1 {item_id} ".encode())
    assert raw.endswith(b" - -\na")


@pytest.mark.parametrize(
    ("headers", "error", "says"),
    [
        (["a", "b"], TypeError, "headers is list"),
        ({"a": 1}, TypeError, "header a is int"),
        ({1: "a"}, TypeError, "name is int"),
        ({"Traceparent": "a"}, ValueError, "lower-case"),
        ({"": "a"}, ValueError, "lower-case"),
        ({"a_b": "a"}, ValueError, "lower-case"),
        ({"a\n": "a"}, ValueError, "lower-case"),
        ({"a" * 65: "a"}, ValueError, "at most 64"),
        ({"claimq-id": "a"}, ValueError, "claimq's own"),
        ({"a": "b\nc"}, ValueError, "percent-encode"),
        ({"a": "grün"}, ValueError, "percent-encode"),
        ({"a": " b"}, ValueError, "no space at its ends"),
        ({"a": "b" * 1025}, ValueError, "at most 1024"),
        ({f"a{number}": "" for number in range(17)}, ValueError, "at most 16 headers"),
    ],
)
async def test_invalid_headers_are_refused_before_anything_is_stored(
    queue: ReliableQueue, headers: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await queue.enqueue_many(["fine", NewItem("a", headers=headers)])
    with pytest.raises(error, match=says):
        await queue.enqueue("a", headers=headers)
    assert await queue.length() == 0


@pytest.mark.frozen_clock(False)
async def test_the_largest_headers_go_through_every_script(store: claimq.Server) -> None:
    """Every character doubles as JSON; with long errors the header leaves out the history, and never the headers."""
    queue = store.queue("q", worker="w" * 200)
    largest = {f"h{number:063}": '"' * 1024 for number in range(16)}
    await queue.set_policy(retrying_at_once(requeue_limit=30))
    await queue.enqueue_many([NewItem("a", headers=largest), NewItem("b", headers=largest, delay=1)])
    for _ in range(12):
        claim = await claim_one(queue)
        assert claim.item.headers == largest
        await queue.fail(claim, "\x01" * 1000, detail="\x01" * 2000)
    await move_clock(queue, 2)
    await queue.reap()
    assert len(await queue.claim(9, wait=0)) == 2
    assert (await queue.stats())["adopted"] == 0


@pytest.mark.parametrize(
    "options", ["", "[]", "{}", "7", '{"headers":[]}', '{"headers":["a"]}', '{"headers":["a","1"]},"fails":7',
                '{"headers":{"a":"1"}}', '{"headers":["A","1"]}', '{"headers":["a",1]}', '{"headers":["a","\\n"]}',
                '{"headers": ["a","1"]}'],
)  # fmt: skip
@pytest.mark.frozen_clock(False)
async def test_the_scripts_refuse_options_that_no_reader_takes(
    server: Server, store: claimq.Server, options: str
) -> None:
    before, connection = contents(server), store._connection
    with connection.lanes.new_call() as call:
        group: list[str | int] = [1, 0, "-", "", "p", 1, -2, '{"headers":["a","1"]}', "x", options, "y"]
        with pytest.raises(StoreMisused) as caught:
            await connection.run("enqueue", ["cq:{q}:main"], [*call, *group])
    assert "the options of an item" in str(caught.value.__cause__)
    assert changes(before, contents(server)) == {}
