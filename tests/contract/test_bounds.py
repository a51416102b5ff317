"""One call handles a bounded number of items and of bytes, and says how far it got; its caller goes on from there.

Times are not asserted: how long a call takes is its bytes, which are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

import claimq
from claimq import (
    Claim,
    NewItem,
    OnExpiry,
    Policy,
    Reason,
    ReliableQueue,
    State,
    StoreMisused,
    Verdict,
)
from claimq.internals.operations import internals
from testkit.queues.clock import move_clock
from testkit.queues.looking import waiting
from testkit.queues.retries import retrying_at_once
from testkit.queues.script_calls import call, run
from testkit.servers.contents import changes, contents
from testkit.servers.server import Server

MOVES = 100
"""Items that change their state in one call, as docs/guarantees.md says."""
COUNT = 9
LARGE = 600_000
MOST = 4
"""A call ends with the item that reaches 2 MiB: 3 such items do not, 4 do."""


@pytest.fixture
async def large(queue: ReliableQueue) -> ReliableQueue:
    """Nine items of 600 kB wait, named 0 to 8."""
    await queue.set_policy(retrying_at_once(requeue_limit=20))
    await queue.enqueue_many([NewItem(b"x" * LARGE, id=str(number)) for number in range(COUNT)])
    return queue


IDS = [str(number) for number in range(COUNT)]


async def claim_all(queue: ReliableQueue) -> list[Claim]:
    claims: list[Claim] = []
    while page := await queue.claim(1000, wait=0):
        assert len(page) <= MOST
        claims += page
    return claims


def ids_of(items: Sequence[Any]) -> list[str]:
    return [getattr(one, "item", one).id for one in items]


async def test_a_claim_returns_fewer_items_when_they_are_large(large: ReliableQueue) -> None:
    assert ids_of(await large.claim(1000, wait=0)) == IDS[:MOST]
    assert ids_of(await large.claim(1000, wait=0)) == IDS[MOST : 2 * MOST]
    assert await large.length() == 1


async def test_a_claim_reads_up_to_eight_small_items_at_a_time(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many(["x"] * 100)
    server.call("CONFIG", "RESETSTAT")
    assert len(await queue.claim(100, wait=0)) == 100
    calls = re.search(r"cmdstat_lrange:calls=(\d+),", str(server.call("INFO", "commandstats")))
    assert calls
    assert int(calls[1]) <= 15


async def test_a_claim_takes_a_single_item_of_any_size(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(max_payload=2**24))
    await queue.enqueue_many([b"x" * 2**23, b"y"])
    assert [len(claim.item.payload) for claim in await queue.claim(9, wait=0)] == [2**23]


async def test_a_claim_over_many_clients_is_bounded_by_bytes(queue: ReliableQueue) -> None:
    await queue.enqueue_many(
        [NewItem(b"x" * LARGE, id=f"{client}{n}", client=client) for n in range(3) for client in "abc"]
    )
    await queue.enqueue(b"y", id="plain")
    got: list[str] = []
    while page := await queue.claim(1000, wait=0):
        assert sum(len(claim.item.payload) for claim in page) <= MOST * LARGE
        got += ids_of(page)
    assert got == ["a0", "b0", "c0", "plain", "a1", "b1", "c1", "a2", "b2", "c2"]


async def test_looking_at_large_items_is_bounded_and_goes_on(large: ReliableQueue) -> None:
    more, *page = await run(large, "peek", 0, 1000, "", "")
    assert (more, len(page)) == (1, MOST)
    assert ids_of(await large.peek(COUNT)) == IDS
    assert ids_of(await large.peek(3, offset=2)) == IDS[2:5]
    assert await run(large, "find", "none", "main", 0, 1000, "-") == [b"NEXT", 0, MOST]
    assert await large.find("none") is None
    found = await large.find("8")
    assert found is not None
    assert found.state is State.MAIN


@pytest.mark.parametrize("state", ["busy", "delayed", "failed"])
async def test_a_page_of_large_items_is_bounded_and_goes_on(large: ReliableQueue, state: str) -> None:
    claims = await claim_all(large)
    if state == "delayed":
        await large.requeue(claims, delay=50)
    if state == "failed":
        await large.fail(claims, "no", permanent=True)
    more, *words = await run(large, "items", state, 0, 1000)
    assert (more, len(words)) == (1, 3 * MOST)
    assert ids_of(await large.items(state, 100)) == IDS
    assert ids_of(await large.items(state, 3, offset=2)) == IDS[2:5]
    if state != "failed":
        assert await run(large, "find", "none", state, 0, 1000) == [b"NEXT", 0, MOST]
    found = await large.find("8")
    assert found is not None
    assert found.state == state


async def test_verdicts_on_large_items_go_on_where_a_call_ends(large: ReliableQueue) -> None:
    claims = await claim_all(large)
    tokens = [claim.token for claim in claims]
    _, reply = await call(large, "give_back", "fail", "no", "", "", 1, "w1", COUNT, *tokens)
    assert reply.split() == [b"requeued"] * MOST + [b"later"] * (COUNT - MOST)
    said = await large.fail(claims, "no")
    assert [one.verdict for one in said] == [Verdict.LOST] * MOST + [Verdict.REQUEUED] * (COUNT - MOST)
    assert ids_of(await large.peek(COUNT)) == IDS


async def test_large_items_given_back_to_the_head_keep_their_order(large: ReliableQueue) -> None:
    claims = await claim_all(large)
    said = await large.unclaim(claims)
    assert {one.verdict for one in said} == {Verdict.UNCLAIMED}
    assert ids_of(await large.peek(COUNT)) == IDS


@pytest.mark.parametrize("reason", Reason)
async def test_releasing_a_worker_of_large_items_goes_on(large: ReliableQueue, reason: Reason) -> None:
    tokens = [claim.token for claim in await claim_all(large)]
    _, reply = await call(large, "release_worker", "w1", reason.value, "gone", *tokens)
    assert reply.split()[-1] == b"4"
    released = await large.release_worker("w1", reason)
    assert released.total == COUNT - MOST
    await large.set_policy(Policy())
    assert ids_of(await large.peek(COUNT)) == IDS


async def test_a_sweep_of_large_items_is_bounded_and_says_that_there_is_more(large: ReliableQueue) -> None:
    await claim_all(large)
    await move_clock(large, 31)
    first = await large.reap(1000)
    assert (len(first.expired), first.more) == (MOST, True)
    while (await large.reap(1000)).more:
        pass
    assert await waiting(large) == ["x" * LARGE] * COUNT

    await large.set_policy(Policy(requeue_limit=20, on_expiry=OnExpiry.REQUEUE))
    claims: list[Claim] = []
    while page := await large.claim(1, wait=0):  # each has crashed a worker, and comes alone
        claims += page
    await large.requeue(claims, delay=1)
    await move_clock(large, 2)
    first = await large.reap(1000)
    assert (first.due, first.more) == (MOST // 2, True)  # items in delayed count twice


async def test_failed_large_items_are_sent_back_and_removed_page_by_page(large: ReliableQueue) -> None:
    await large.fail(await claim_all(large), "no", permanent=True)
    _, words = await call(large, "requeue_failed", "", 0, "", "-inf", 0, 1000)
    assert (words.split()[0], words.split()[5]) == (b"4", b"1")
    assert await large.requeue_failed() == COUNT - MOST
    await large.fail(await claim_all(large), "no", permanent=True)
    reply = await call(large, "remove_failed", "", 0, 1, "-inf", 0, 1000, 0, 0, "")
    assert (reply[1].split()[0], reply[1].split()[5]) == (b"4", b"1")
    assert [item.item.id async for item in large.drain_failed()] == IDS[MOST:]


async def test_explaining_and_recounting_large_items_goes_on(large: ReliableQueue) -> None:
    await large.crash(await claim_all(large), "killed")
    reply = await run(large, "explain", "w1", "OOMKilled: 137", 60_000, 200, "inf", 0)
    assert reply[1:] == [MOST, MOST, 1]
    assert await internals(large).explain("w1", "OOMKilled: 137") == COUNT - MOST
    claims: list[Claim] = []
    while page := await large.claim(1, wait=0):
        claims += page
    await large.unclaim(claims, why="asked to end")
    assert await internals(large).recount("w1", "evicted: memory") == COUNT
    assert {item.crash_count for item in await large.peek(COUNT)} == {2}


async def test_one_call_moves_a_bounded_number_of_items(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 1000)
    claims = await queue.claim(1000, wait=0)
    tokens = [claim.token for claim in claims]
    _, reply = await call(queue, "give_back", "requeue", "", "", "", 1, "w1", 1000, *tokens)
    assert reply.split().count(b"later") == 1000 - MOVES
    assert {one.verdict for one in await queue.requeue(claims[MOVES:])} == {Verdict.REQUEUED}


async def test_releases_and_sweeps_move_a_bounded_number_in_a_call(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 500)
    claims = await queue.claim(500, wait=0)
    tokens = [claim.token for claim in claims]
    _, reply = await call(queue, "release_worker", "w1", "interrupt", "gone", *tokens)
    assert reply.split()[3] == str(MOVES).encode()
    await queue.release_worker("w1", Reason.INTERRUPTED)
    await queue.claim(500, wait=0)
    await move_clock(queue, 31)
    swept = await queue.reap(1000)
    assert (len(swept.expired), swept.more) == (MOVES, True)
    while (await queue.reap(1000)).more:
        pass
    await queue.enqueue_many([NewItem("x", delay=1)] * 500)
    await move_clock(queue, 2)
    assert (await queue.reap(1000)).due == MOVES


async def test_calls_on_failed_items_move_a_bounded_number(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 500)
    await queue.fail(await queue.claim(500, wait=0), "no", permanent=True)
    _, words = await call(queue, "requeue_failed", "", 0, "", "-inf", 0, 1000)
    assert words.split()[0] == str(MOVES).encode()
    await queue.fail(await queue.claim(500, wait=0), "no", permanent=True)
    reply = await call(queue, "remove_failed", "", 0, 0, "-inf", 0, 1000, 0, 0, "policy")
    assert (reply[1].split()[0], reply[1].split()[5]) == (str(MOVES).encode(), b"1")


async def test_a_pass_over_max_items_goes_on_to_its_limit(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 500)
    await queue.fail(await queue.claim(500, wait=0), "no", permanent=True)
    await queue.update_policy(failed_max_items=10)
    assert (await queue.apply_failed_policy(limit=450)).removed == 450
    assert (await queue.apply_failed_policy(limit=450)).removed == 40


@pytest.mark.parametrize("clients", [0, 1, 7])
async def test_a_claim_takes_a_bounded_number_of_items_with_a_history(
    queue: ReliableQueue, clients: int
) -> None:
    items = [NewItem("x", id=str(n), client=f"c{n % clients}" if clients else None) for n in range(600)]
    await queue.enqueue_many(items)
    first = [claim for _ in range(2) for claim in await queue.claim(300, wait=0)]
    assert len(first) == 600
    await queue.unclaim(first, why="stopped")
    pages = [await queue.claim(1000, wait=0) for _ in range(3)]
    assert [len(page) for page in pages] == [250, 250, 100]
    again = [claim.item for page in pages for claim in page]
    for client in {item.client for item in again}:  # the order across clients is not promised
        assert ids_of([item for item in again if item.client == client]) == [
            claim.item.id for claim in first if claim.item.client == client
        ]


MOST_HEADERS = 7
"""A call ends with the item whose header reaches 128 KiB: 6 headers of 19 kB do not."""


async def fail_at_length(queue: ReliableQueue) -> None:
    """Fails sixty items with an error that makes their headers 19 kB long."""
    await queue.fail(await queue.claim(60, wait=0), "\x01" * 1000, detail="\x02" * 2000)


@pytest.mark.usefixtures("retries_at_once")
async def test_a_call_reads_a_bounded_number_of_bytes_of_headers(queue: ReliableQueue) -> None:
    """To check a header with many escapes takes many times as long as to copy it."""
    await queue.enqueue_many([NewItem("x", id=str(n)) for n in range(60)])
    await fail_at_length(queue)
    claims = await queue.claim(60, wait=0)
    assert 1 <= len(claims) <= MOST_HEADERS
    while more := await queue.claim(60, wait=0):
        claims += more
    assert sorted(map(int, ids_of(claims))) == list(range(60))
    tokens = [claim.token for claim in claims]
    _, reply = await call(queue, "give_back", "fail", "no", "", "", 1, "w1", len(tokens), *tokens)
    assert reply.split().count(b"later") >= 60 - MOST_HEADERS
    _, reply = await call(queue, "release_worker", "w1", "interrupt", "gone", *tokens)
    assert int(reply.split()[3]) <= MOST_HEADERS
    await queue.fail(claims, "\x01" * 1000, detail="\x02" * 2000, permanent=True)
    assert int((await run(queue, "failed_page", "", 0, 0, "-inf", 0, 1000))[0].split()[0]) <= MOST_HEADERS
    _, words = await call(queue, "requeue_failed", "", 0, "", "-inf", 0, 1000)
    assert int(words.split()[0]) <= MOST_HEADERS


@pytest.mark.usefixtures("retries_at_once")
async def test_a_claim_over_clients_reads_a_bounded_number_of_bytes_of_headers(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(60)])
    await fail_at_length(queue)
    assert 1 <= len(await queue.claim(60, wait=0)) <= MOST_HEADERS


async def test_a_sweep_reads_a_bounded_number_of_bytes_of_headers(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 60)
    await fail_at_length(queue)
    while claims := await queue.claim(60, wait=0):
        await queue.requeue(claims, delay=1000)
    await move_clock(queue, 1001)
    swept = await queue.reap(1000)
    assert 1 <= swept.due <= MOST_HEADERS
    assert swept.more


@pytest.mark.parametrize("to_head", [True, False])
async def test_many_claims_are_given_back_in_the_order_of_claiming(
    queue: ReliableQueue, to_head: bool
) -> None:
    """However their caller lists them, and over several calls."""
    await queue.enqueue_many([NewItem("x", id=str(n)) for n in range(1500)])
    claims = [*await queue.claim(1000, wait=0), *await queue.claim(500, wait=0)]
    mixed = claims[750:] + claims[:750]
    outcomes = await (queue.unclaim(mixed) if to_head else queue.requeue(mixed))
    assert [outcome.token for outcome in outcomes] == [claim.token for claim in mixed]
    assert {outcome.verdict for outcome in outcomes} == {Verdict.UNCLAIMED if to_head else Verdict.REQUEUED}
    assert ids_of(await queue.peek(1500)) == [str(n) for n in range(1500)]


MANY = 5000
WRONG: dict[str, tuple[bool, list[Any]]] = {
    "claim": (True, ["w1", MANY, "nonce"]),
    "done": (True, [1, "w1", MANY, *[f"w1/{n}" for n in range(MANY)]]),
    "done with followers": (True, [1, "w1", 1, "TOKEN", 1, 1, "-", "", "p", 1, MANY, *["x"] * MANY]),
    "give_back": (True, ["fail", "no", "", "", 1, "w1", MANY, *[f"w1/{n}" for n in range(MANY)]]),
    "give_back to no place": (True, ["fail", "no", "", "", "many"]),
    "renew": (False, [1, "w1", MANY, *[f"w1/{n}" for n in range(MANY)]]),
    "enqueue": (True, [1, 0, "-", "", "p", 1, MANY, *["x"] * MANY]),
    "enqueue of bytes": (True, [1, 0, "-", "", "p", 1, 6, *["x" * 2**20] * 6]),
    "enqueue of long prefixes": (True, [1, 0, "-", "", "p" * 2**16, 1, 100, *["x"] * 100]),
    "enqueue of long clients": (True, [1, 0, "c" * 2**16, "", "p", 1, 100, *["x"] * 100]),
    "enqueue of many groups": (True, [1, 0, "-", "", "p", 1, 0] * MANY),
    "give_back with a long error": (True, ["fail", "e" * 2**20, "", "", 1, "w1", 1, "TOKEN"]),
    "give_back with a long detail": (True, ["fail", "e", "d" * 2**20, "", 1, "w1", 1, "TOKEN"]),
    "release_worker with a long error": (True, ["w1", "crash", "e" * 2**20, "TOKEN"]),
    "explain with a long cause": (False, ["w1", "c" * 2**20, 1000, 1, "inf", 0]),
    "recount with a long cause": (False, ["w1", "c" * 2**20, 1000, 1, 0]),
    "release_worker": (True, ["w1", "crash", "gone", *[f"w1/{n}" for n in range(MANY)]]),
    "reap": (False, [MANY]),
    "repair": (False, [MANY]),
    "explain": (False, ["w1", "cause", 1000, MANY, "inf", 0]),
    "recount": (False, ["w1", "cause", 1000, MANY, 0]),
    "requeue_failed": (True, ["", 0, "", "-inf", 0, MANY]),
    "requeue_failed by name": (True, ["", 0, "", "-inf", 0, 1, *map(str, range(MANY))]),
    "remove_failed": (True, ["", 0, 0, "-inf", 0, MANY, 0, 0, ""]),
    "remove_failed by name": (True, ["", 0, 0, "-inf", 0, 1, 0, 0, "", *map(str, range(MANY))]),
    "failed_page": (False, ["", 0, 0, "-inf", 0, MANY]),
    "configure": (False, [str(number) for number in range(2 * MANY)]),
    "find": (False, ["x", "main", 0, MANY, "-"]),
    "items": (False, ["busy", 0, MANY]),
    "longest": (False, [0, 0, MANY]),
    "peek": (False, [0, MANY]),
    "peek at nothing": (False, [0, -1]),
    "places": (False, ["", "", "-", 0, MANY]),
    "places in all": (False, ["", "", "-", 0, 600, "a", 0, 600]),
    "workers": (False, [0, MANY]),
    "clients": (False, [0, MANY]),
    "done_claim": (True, ["w1", MANY, "nonce", "", 1, "w1", 1, "TOKEN"]),
    "done_claim of many": (True, ["w1", 1, "nonce", "", 1, "w1", MANY, *[f"w1/{n}" for n in range(MANY)]]),
    "claim a part": (True, ["w1", 0.5, "nonce"]),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_script_refuses_a_count_or_list_that_is_too_long(
    queue: ReliableQueue, server: Server, what: str
) -> None:
    await queue.enqueue_many([NewItem("x", id=str(n)) for n in range(1000)])
    await queue.enqueue_many(["x"] * 1000)
    (claim, *failed) = await queue.claim(3, wait=0)
    await queue.fail(failed, "no", permanent=True)
    before = contents(server)
    is_call, args = WRONG[what]
    words = [claim.token if word == "TOKEN" else word for word in args]
    name = {"done with followers": "done_enqueue", "claim a part": "claim"}.get(
        what, what.split(" ", maxsplit=1)[0]
    )
    with pytest.raises(StoreMisused):
        await (call if is_call else run)(queue, name, *words)
    assert changes(before, contents(server)) == {}


async def test_followers_of_a_claim_are_bounded_as_one_step(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("x")
    (claim,) = await queue.claim(wait=0)
    with pytest.raises(ValueError, match="one atomic step takes 1000 items"):
        await queue.done(claim, enqueue=["x"] * 1001)
    assert (await queue.done(claim, enqueue=["x"] * 1000))[0].verdict is Verdict.DONE
    assert await queue.length() == 1000
